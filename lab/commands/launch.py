"""`mapa launch FILE`: runs an experiment on this machine."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from common.access import access_of, declare
from lab.commands.experiment import add_run, request_of

HELP = "run an experiment on this machine"


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    add_run(parser)
    parser.add_argument("--broker", metavar="HOST[:PORT]", help="a broker that runs already (default: start one here)")
    parser.add_argument(
        "--ledger", type=Path, metavar="DIR", help="folder of the edges' ledgers (default: in ledgers/)"
    )
    declare(parser)


def run(arguments: argparse.Namespace) -> int:
    """Launches; the run's exit code."""
    from lab.launch import launch  # noqa: PLC0415 - imports models, data and the broker

    access = access_of(arguments, arguments.environment)
    request = replace(request_of(arguments), broker=arguments.broker, ledger=arguments.ledger, access=access)
    return launch(request, sys.stdout)
