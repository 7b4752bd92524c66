"""`mapa chaos SCENARIO`: does harm to a run by plan, in containers or under a virtual clock, and checks what held."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HELP = "do harm to a run on purpose, and check that nothing was lost"


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("file", type=Path, metavar="SCENARIO", help="scenario file (YAML), as in experiments/chaos/")
    parser.add_argument("--simulate", action="store_true", help="under a virtual clock, without containers")
    parser.add_argument("--seed", type=int, metavar="N", help="of what is left to chance (default: the scenario's)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="run folder (default: runs/<name>-<time>)")
    parser.add_argument("--run", metavar="ID", help="run id, [a-z0-9-] (default: <name>-<time>)")
    parser.add_argument(
        "--project", type=Path, default=Path(), metavar="DIR", help="folder of docker-compose.yml (default: this one)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Does it; 0 if everything was done and everything held."""
    from common.answers import Answers, cache_folder  # noqa: PLC0415 - help comes without what is heavy
    from lab.chaos.order import Order  # noqa: PLC0415

    order = Order(
        arguments.file,
        arguments.out,
        arguments.run,
        arguments.seed,
        arguments.project,
        arguments.environment,
        Answers(cache_folder(arguments.environment)).ask,
    )
    if arguments.simulate:
        from lab.chaos.virtual import simulate  # noqa: PLC0415

        return simulate(order, sys.stdout)
    from lab.chaos.campaign import campaign  # noqa: PLC0415

    return campaign(order, sys.stdout)
