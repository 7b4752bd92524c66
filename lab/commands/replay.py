"""`mapa replay DIR`: makes the cloud of a run decide again on what it heard; records and model must be the same."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "prove that a run's records are complete"


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder of a run made with --set transcript=true")


def run(arguments: argparse.Namespace) -> int:
    """Replays; 1 if anything differs."""
    from lab.folder import RunFolder  # noqa: PLC0415 - imports models and data
    from lab.replay import replay  # noqa: PLC0415

    done = replay(RunFolder(arguments.folder))
    print(f"replayed {done.events:,} events, compared {done.rows:,} rows and the model")
    print(f"different: {done.fault}" if done.fault else "the same, bit for bit")
    return 1 if done.fault else 0
