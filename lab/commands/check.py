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
    from common.answers import Answers, cache_folder  # noqa: PLC0415
    from lab.check import check  # noqa: PLC0415 - imports models and data
    from lab.forecast import forecast  # noqa: PLC0415

    ask = Answers(cache_folder(arguments.environment)).ask
    checked = check(arguments.file, arguments.overrides, ask)
    for caution in checked.cautions:
        print(f"warning: {caution}", file=sys.stderr)
    print(checked.text(forecast(checked.experiment, ask)))
    return 0
