"""`mapa reproduce FIGURE`: makes the runs of a figure of the MAPA paper and draws it; interrupted, it goes on."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from common.errors import ConfigError, Fault
from lab.commands.experiment import add_workers

if TYPE_CHECKING:
    from lab.design import Choice

HELP = "make a figure of the MAPA paper"


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("figure", metavar="FIGURE", help="4 to 9, or all")
    parser.add_argument("--quick", action="store_true", help="few and short runs: what the figure looks like, no more")
    parser.add_argument("--panels", default="", metavar="A,B,...", help="only these parts of the figure")
    parser.add_argument("--seeds", default="", metavar="A,B,...", help="other seeds than the figure's file names")
    parser.add_argument(
        "--mechanism",
        choices=("paper", "rigorous", "gaussian"),
        default="rigorous",
        help="as printed (privacy not established), its noise as it has to be, or Gaussian noise (default: rigorous)",
    )
    parser.add_argument("--data", type=Path, default=Path("data"), metavar="DIR", help="holds mnist and usps")
    parser.add_argument("--figures", type=Path, default=Path("experiments/mapa"), metavar="DIR", help="their files")
    parser.add_argument("--out", type=Path, default=Path("figures"), metavar="DIR", help="default: %(default)s")
    add_workers(parser)


def run(arguments: argparse.Namespace) -> int:
    """Runs and draws."""
    from common.answers import cache_folder  # noqa: PLC0415
    from lab.reproduce import Order, reproduce  # noqa: PLC0415 - imports models, data and matplotlib

    order = Order(
        figure=arguments.figure,
        figures=arguments.figures,
        mechanism=arguments.mechanism,
        out=arguments.out,
        data=arguments.data.absolute(),
        quick=arguments.quick,
        choice=_choice(arguments.panels, arguments.seeds),
        jobs=arguments.jobs,
        ray=arguments.ray,
        cache=cache_folder(arguments.environment),
    )
    return reproduce(order, sys.stdout)


def _choice(panels: str, seeds: str) -> Choice:
    """Panels and seeds as `--panels` and `--seeds` name them, separated by commas."""
    from lab.design import Choice  # noqa: PLC0415 - as above

    try:
        numbers = tuple(int(word) for word in seeds.split(",")) if seeds else ()
    except ValueError:
        raise ConfigError(Fault("--seeds", seeds, "integers, separated by commas")) from None
    return Choice(tuple(panels.split(",")) if panels else (), numbers)
