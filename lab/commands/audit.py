"""`mapa audit FILE`: attacks an edge of an experiment and tells how much privacy loss can be proved, beside the claim.

The edge is built as for a run, in this process, and asked for thousands of releases, once with a crafted record (the
canary) and once without. Nothing is charged to any ledger. The exit code is 1 if a claim of this project is refuted.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from common.errors import ConfigError, Fault
from lab.commands.experiment import add_experiment

HELP = "attack an edge: measured against claimed epsilon"
EXIT_REFUTED = 1


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    add_experiment(parser)
    parser.add_argument("--edge", default="edge-0001", metavar="ID", help="the edge (default: %(default)s)")
    parser.add_argument(
        "--trials", type=int, default=10_000, metavar="N", help="with and without (default: %(default)s)"
    )
    parser.add_argument("--steps", type=int, default=1, metavar="T", help="releases in a trial (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=20, metavar="R", help="whole runs, 0: none (default: %(default)s)")
    parser.add_argument("--updates", type=int, metavar="U", help="releases of a whole run (default: the edge's part)")
    parser.add_argument(
        "--confidence", type=float, default=0.999, metavar="P", help="of the bound (default: %(default)s)"
    )
    parser.add_argument("--clip-norm", type=float, metavar="C", help="clip bound to ask for (default: the run's first)")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of the attack (default: %(default)s)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to write audit.json (default: audits/<name>)")
    parser.add_argument("--run", type=Path, metavar="DIR", help="a run folder of this experiment, for its report")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Audits; tells the verdict and where it was written."""
    from common.experiment import load  # noqa: PLC0415 - what follows imports models and data
    from lab.audit import audit  # noqa: PLC0415
    from lab.check import check_experiment  # noqa: PLC0415
    from lab.countdown import Countdown  # noqa: PLC0415
    from lab.findings import Request  # noqa: PLC0415
    from lab.verdict import lines  # noqa: PLC0415

    experiment = load(arguments.file, arguments.overrides)
    check_experiment(experiment)
    if arguments.run is not None:
        _check_run(arguments.run, experiment.digest())
    request = Request(
        edge=arguments.edge,
        trials=arguments.trials,
        steps=arguments.steps,
        runs=arguments.runs,
        updates=arguments.updates,
        confidence=arguments.confidence,
        seed=arguments.seed,
        clip_norm=arguments.clip_norm,
    )
    countdown = Countdown("releases", sys.stderr)
    result = audit(experiment, request, countdown.show)
    countdown.close()
    folders = {folder for folder in (arguments.out, arguments.run) if folder is not None}
    files = [result.write(folder) for folder in sorted(folders or {Path("audits") / experiment.name})]
    if arguments.json:
        print(json.dumps(result.content(), indent=2))
    else:
        print("\n".join(lines(result.content())))
        for file in files:
            print(f"written: {file}")
    return EXIT_REFUTED if result.is_refuted else 0


def _check_run(folder: Path, digest: str) -> None:
    """Refuses the folder of another experiment, whose report would show a number that is not its own.

    Raises:
        ConfigError: it is no run folder, or one of another experiment.
    """
    from common.experiment import load  # noqa: PLC0415
    from lab.folder import RunFolder  # noqa: PLC0415

    path = RunFolder(folder).experiment
    if not path.is_file():
        raise ConfigError(Fault("--run", str(folder), "a run folder, with experiment.yaml"))
    if load(path).digest() != digest:
        raise ConfigError(Fault("--run", str(folder), "a run of this experiment, with the same values (--set)"))
