"""`mapa deploy FILE --hosts HOSTS`: runs an experiment with its edges in containers on other hosts."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from common.errors import ConfigError, Fault
from lab.commands.experiment import SET_HELP, add_options, request_of

HELP = "run an experiment with edges on other hosts"


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("file", type=Path, nargs="?", metavar="FILE", help="experiment file (YAML)")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE", help=SET_HELP)
    add_options(parser)
    parser.add_argument(
        "--hosts", type=Path, required=True, metavar="HOSTS", help="the file that says which edges run where (YAML)"
    )
    parser.add_argument(
        "--remove", action="store_true", help="only remove what runs (or --run ID) have left; ledgers and records stay"
    )


def run(arguments: argparse.Namespace) -> int:
    """Deploys; the run's exit code."""
    from lab.deploy import deploy, remove  # noqa: PLC0415 - imports models, data and Docker
    from lab.hosts import load  # noqa: PLC0415

    if arguments.remove == (arguments.file is not None):
        raise ConfigError(Fault("FILE", arguments.file, "an experiment file, or --remove"))
    hosts = load(arguments.hosts)
    if arguments.remove:
        return remove(hosts, arguments.run, print)
    return deploy(request_of(arguments), hosts, sys.stdout)
