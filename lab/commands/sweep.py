"""`mapa sweep FILE --grid key=a,b,c ...`: simulates an experiment at every point of a grid; interrupted, it goes on."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from lab.commands.experiment import add_experiment, add_workers

HELP = "simulate an experiment for every combination of settings"


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    add_experiment(parser)
    parser.add_argument(
        "--grid", action="append", default=[], metavar="KEY=A,B,...", help="values of a setting (may be repeated)"
    )
    parser.add_argument("--seeds", default="", metavar="A,B,...", help="seeds (the same as --grid seed=A,B,...)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of the sweep (default: sweeps/<name of FILE>)")
    add_workers(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress, only what matters")


def run(arguments: argparse.Namespace) -> int:
    """Sweeps, tells and draws."""
    from common.answers import cache_folder  # noqa: PLC0415
    from lab.sweeping import Order, sweep  # noqa: PLC0415 - imports models, data and matplotlib

    out = arguments.out or Path("sweeps") / arguments.file.stem
    grid = [*arguments.grid, *([f"seed={arguments.seeds}"] if arguments.seeds else [])]
    cache = cache_folder(arguments.environment)
    order = Order(arguments.file, tuple(arguments.overrides), tuple(grid), out, arguments.jobs, arguments.ray, cache)
    return sweep(order, sys.stdout, quiet=arguments.quiet)
