"""Arguments that several commands have: an experiment file, a run of it, and who does the work of many simulations."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.launch import Request

SET_HELP = "change a value of the file, e.g. --set stop.updates=200 (YAML; may be repeated)"


def add_experiment(parser: argparse.ArgumentParser) -> None:
    """Declares `file` and `overrides`."""
    parser.add_argument("file", type=Path, metavar="FILE", help="experiment file (YAML)")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE", help=SET_HELP)


def add_run(parser: argparse.ArgumentParser) -> None:
    """Declares what every command that makes one run takes, besides the experiment: `request_of` reads it."""
    add_experiment(parser)
    add_options(parser)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of one run."""
    parser.add_argument("--edges", type=int, metavar="N", help="number of edges (the same as --set data.edges=N)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="run folder (default: runs/<name>-<time>)")
    parser.add_argument("--run", metavar="ID", help="run id, [a-z0-9-] (default: <name>-<time>)")
    parser.add_argument("--quiet", action="store_true", help="no progress, only what matters")


def request_of(arguments: argparse.Namespace) -> Request:
    """What was asked for, with a memory of what was calibrated."""
    from common.answers import Answers, cache_folder  # noqa: PLC0415 - help comes without what is heavy
    from lab.launch import Request  # noqa: PLC0415

    overrides = list(arguments.overrides)
    if arguments.edges is not None:
        overrides.append(f"data.edges={arguments.edges}")
    return Request(
        file=arguments.file,
        overrides=tuple(overrides),
        out=arguments.out,
        run=arguments.run,
        quiet=arguments.quiet,
        ask=Answers(cache_folder(arguments.environment)).ask,
    )


def add_workers(parser: argparse.ArgumentParser) -> None:
    """Declares `jobs` and `ray`."""
    parser.add_argument("--jobs", type=int, metavar="N", help="processes on this machine (default: one for each core)")
    parser.add_argument(
        "--ray", metavar="ADDRESS", help="a Ray cluster does the work (needs the extra `ray`); local: one started here"
    )
