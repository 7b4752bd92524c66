"""`mapa resume DIR`: goes on with a run on this machine that was cut short: killed, crashed, or out of power."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from common.access import access_of, declare

HELP = "go on with a run that was cut short on this machine"


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("run", type=Path, metavar="DIR", help="run folder, such as runs/demo-20250101-120000")
    parser.add_argument("--broker", metavar="HOST[:PORT]", help="a broker (default: as when the run was launched)")
    parser.add_argument("--quiet", action="store_true", help="no progress, only what matters")
    declare(parser)


def run(arguments: argparse.Namespace) -> int:
    """Goes on; the run's exit code."""
    from common.answers import Answers, cache_folder  # noqa: PLC0415 - help comes without what is heavy
    from lab.resume import resume  # noqa: PLC0415

    access = access_of(arguments, arguments.environment)
    ask = Answers(cache_folder(arguments.environment)).ask
    return resume(arguments.run, arguments.broker, access, ask, sys.stdout, quiet=arguments.quiet)
