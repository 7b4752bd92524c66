"""`mapa simulate FILE`: runs an experiment in this process under a virtual clock; nodes and records are the same."""

from __future__ import annotations

import argparse
import sys

from lab.commands.experiment import add_run, request_of

HELP = "run an experiment under a virtual clock"


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    add_run(parser)


def run(arguments: argparse.Namespace) -> int:
    """Simulates; the run's exit code."""
    from lab.simulate import simulate  # noqa: PLC0415 - imports models and data

    return simulate(request_of(arguments), sys.stdout)
