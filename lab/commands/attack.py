"""`mapa attack inversion [FILE]`: recovers training pictures from recorded gradients.

For each model and each epsilon, edges with one record each are built as for a run, in this process, and asked for one
release; the bytes that they would send are written down, read again and inverted. Without FILE the digits that come
with the package are used; --set data.name=mnist --set data.root=DIR takes MNIST.
"""

from __future__ import annotations

import argparse
import sys
import time
from importlib.resources import as_file, files
from pathlib import Path

from common.errors import ConfigError, Fault
from lab.commands.experiment import SET_HELP

HELP = "recover training pictures from gradients"
MODELS = ("logistic", "softmax", "svm", "cnn")
NOISES = ("paper", "rigorous", "gaussian")
BATCHES = """\
The pictures come back from releases of one record. From the sum over a batch of b records the closed form gives a
mix of them, and the search is not made for it: a larger batch is harder to invert, but that is no guarantee.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    attacks = parser.add_subparsers(dest="attack", metavar="ATTACK", required=True)
    inversion = attacks.add_parser("inversion", help=HELP, description=HELP[0].upper() + HELP[1:], epilog=BATCHES)
    inversion.add_argument("file", type=Path, nargs="?", metavar="FILE", help="experiment file (default: digits)")
    inversion.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE", help=SET_HELP)
    inversion.add_argument("--model", choices=("all", *MODELS), default="all", help="default: %(default)s")
    inversion.add_argument(
        "--epsilon",
        default="0.01,0.1,1,none",
        metavar="E,...",
        help="of one release; none: plain gradient (default: %(default)s)",
    )
    inversion.add_argument(
        "--mechanism",
        choices=NOISES,
        default="paper",
        help="the paper's exponential radius (not proved private), the Gamma radius that is, or Gaussian noise as "
        "large as that (default: %(default)s)",
    )
    inversion.add_argument("--records", type=int, default=3, metavar="N", help="of each (default: %(default)s)")
    inversion.add_argument("--seed", type=int, default=1, metavar="S", help="default: %(default)s")
    inversion.add_argument("--steps", type=int, default=300, metavar="N", help="of a search (default: %(default)s)")
    inversion.add_argument("--recorded", type=Path, metavar="DIR", help="attack what an earlier attack recorded")
    inversion.add_argument("--out", type=Path, metavar="DIR", help="where to write (default: runs/inversion-<time>)")


def run(arguments: argparse.Namespace) -> int:
    """Records, attacks, scores; tells what is seen and where it was written."""
    from lab.attacks.inversion import invert  # noqa: PLC0415 - imports models and data
    from lab.attacks.inversion_files import write  # noqa: PLC0415
    from lab.attacks.inversion_words import lines  # noqa: PLC0415
    from lab.countdown import Countdown  # noqa: PLC0415

    faults = [
        Fault(f"--{name}", value, f"from {low} to {high}")
        for name, low, high in (("records", 1, 1000), ("steps", 1, 100_000), ("seed", 0, 2**63 - 1))
        if not low <= (value := getattr(arguments, name)) <= high
    ]
    if faults:
        raise ConfigError(faults)
    out = arguments.out or Path("runs") / f"inversion-{time.strftime('%Y%m%d-%H%M%S')}"
    recorded = arguments.recorded
    if recorded is None:
        recorded = out / "recorded"
        _record(arguments, recorded)
    countdown = Countdown("releases inverted", sys.stderr)
    result = invert(recorded, arguments.steps, arguments.seed, countdown.show)
    countdown.close()
    print("\n".join(lines(result)))
    for path in write(result, out):
        print(f"written: {path}")
    return 0


def _record(arguments: argparse.Namespace, folder: Path) -> None:
    from common.experiment import load  # noqa: PLC0415 - what follows imports models and data
    from lab.attacks.recording import Plan, record  # noqa: PLC0415

    plan = Plan(
        models=MODELS if arguments.model == "all" else (arguments.model,),
        epsilons=_epsilons(arguments.epsilon),
        noise=arguments.mechanism,
        records=arguments.records,
        seed=arguments.seed,
    )
    with as_file(files("lab.attacks") / "inversion.yaml") as built_in:
        base = load(arguments.file or built_in, arguments.overrides)
    record(base, plan, folder)


def _epsilons(text: str) -> tuple[float | None, ...]:
    """No noise first, then from weak to strong."""
    from common.events import LARGEST, SMALLEST  # noqa: PLC0415 - imports pydantic

    expected = f"numbers from {SMALLEST:g} to {LARGEST:g}, and none, with commas between"
    values: set[float] = set()
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        try:
            value = None if part == "none" else float(part)
        except ValueError as error:
            raise ConfigError(Fault("--epsilon", part, expected)) from error
        if value is not None:
            if not SMALLEST <= value <= LARGEST:
                raise ConfigError(Fault("--epsilon", part, expected))
            values.add(value)
    return (*((None,) if "none" in parts else ()), *sorted(values, reverse=True))
