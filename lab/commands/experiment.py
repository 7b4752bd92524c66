"""The arguments of every command that reads an experiment file."""

from __future__ import annotations

import argparse
from pathlib import Path

SET_HELP = "change a value of the file, e.g. --set stop.updates=200 (YAML; may be repeated)"


def add_experiment(parser: argparse.ArgumentParser) -> None:
    """Declares `file` and `overrides`."""
    parser.add_argument("file", type=Path, metavar="FILE", help="experiment file (YAML)")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE", help=SET_HELP)
