"""`mapa check FILE`: validates an experiment file."""

from __future__ import annotations

import argparse
import sys

from lab.commands.experiment import add_experiment

HELP = "validate an experiment file"


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    add_experiment(parser)


def run(arguments: argparse.Namespace) -> int:
    """Checks, warns, and tells what the experiment is."""
    from lab.check import check  # noqa: PLC0415 - imports models and data

    checked = check(arguments.file, arguments.overrides)
    for caution in checked.cautions:
        print(f"warning: {caution}", file=sys.stderr)
    print(checked.text())
    return 0
