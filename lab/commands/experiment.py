"""Arguments that several commands have: an experiment file, and who does the work of many simulations."""

from __future__ import annotations

import argparse
from pathlib import Path

SET_HELP = "change a value of the file, e.g. --set stop.updates=200 (YAML; may be repeated)"


def add_experiment(parser: argparse.ArgumentParser) -> None:
    """Declares `file` and `overrides`."""
    parser.add_argument("file", type=Path, metavar="FILE", help="experiment file (YAML)")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE", help=SET_HELP)


def add_workers(parser: argparse.ArgumentParser) -> None:
    """Declares `jobs` and `ray`."""
    parser.add_argument("--jobs", type=int, metavar="N", help="processes on this machine (default: one for each core)")
    parser.add_argument(
        "--ray", metavar="ADDRESS", help="a Ray cluster does the work (needs the extra `ray`); local: one started here"
    )
