"""`mapa simulate FILE`: runs an experiment in this process under a virtual clock; nodes and records are the same."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from lab.commands.experiment import add_experiment

HELP = "run an experiment under a virtual clock"


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    add_experiment(parser)
    parser.add_argument("--edges", type=int, metavar="N", help="number of edges (the same as --set data.edges=N)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="run folder (default: runs/<name>-<time>)")
    parser.add_argument("--run", metavar="ID", help="run id, [a-z0-9-] (default: <name>-<time>)")
    parser.add_argument("--quiet", action="store_true", help="no progress, only what matters")


def run(arguments: argparse.Namespace) -> int:
    """Simulates; the run's exit code."""
    from common.answers import Answers, cache_folder  # noqa: PLC0415
    from lab.launch import Request  # noqa: PLC0415 - imports models, data and the broker
    from lab.simulate import simulate  # noqa: PLC0415

    overrides = list(arguments.overrides)
    if arguments.edges is not None:
        overrides.append(f"data.edges={arguments.edges}")
    request = Request(
        file=arguments.file,
        overrides=tuple(overrides),
        out=arguments.out,
        run=arguments.run,
        quiet=arguments.quiet,
        ask=Answers(cache_folder(arguments.environment)).ask,
    )
    return simulate(request, sys.stdout)
