"""`mapa privacy account|calibrate`: what releases cost, and how much noise a total calls for."""

from __future__ import annotations

import argparse
import json
import logging

HELP = "account for releases, or find the noise for a total"

_ACCOUNT = """\
What so many releases cost one record: an epsilon at --delta, by several ways of adding up. All of them hold; the PLD is
the tightest. --epsilon is the pure epsilon of one release at the chosen --adjacency, for a record that is in the batch.
(An experiment file states it for replace-one; half of that is the epsilon for add-remove.) --noise-multiplier is the
standard deviation of the noise over what one record added or removed can change.
"""
_CALIBRATE = """\
The least noise with which --releases cost one record at most --target-epsilon in total, by PLD, and within 0.3 % of it.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    commands = parser.add_subparsers(dest="question", metavar="account|calibrate", required=True)
    form = argparse.RawDescriptionHelpFormatter
    account = commands.add_parser("account", help="what releases cost", description=_ACCOUNT, formatter_class=form)
    account.add_argument("--epsilon", type=float, metavar="E", help="of one release, for spherical-laplace")
    account.add_argument("--noise-multiplier", type=float, metavar="Z", help="for gaussian")
    calibrate = commands.add_parser(
        "calibrate", help="the noise for a total", description=_CALIBRATE, formatter_class=form
    )
    calibrate.add_argument("--target-epsilon", type=float, metavar="E", required=True, help="total of all releases")
    for each in (account, calibrate):
        _add_releases(each)


def _add_releases(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--mechanism", choices=("spherical-laplace", "gaussian"), required=True)
    add("--dimension", type=int, metavar="D", help="parameters of the model, for spherical-laplace")
    add("--releases", type=int, default=1, metavar="T", help="how many (default: 1)")
    add("--sampling-rate", type=float, default=1.0, metavar="Q", help="share of the records in a batch (default: 1)")
    add(
        "--sampling",
        choices=("poisson", "fixed", "all"),
        help="poisson: each record by itself; fixed: batches of one size; all: no sampling (default: poisson, or all)",
    )
    add("--delta", dest="dp_delta", type=float, default=1e-5, metavar="DELTA", help="(default: 1e-5)")
    add(
        "--adjacency",
        choices=("add-remove", "replace-one"),
        help="what the neighbouring data set differs in (default: add-remove; replace-one for batches of fixed size)",
    )
    add("--json", action="store_true", help="one JSON object, null where a way does not apply")


def run(arguments: argparse.Namespace) -> int:
    """Answers."""
    from common.answers import Answers, cache_folder  # noqa: PLC0415 - imports the accountant
    from lab.privacy import Asked, account, account_for_target  # noqa: PLC0415

    logging.getLogger("absl").setLevel(logging.ERROR)  # dp-accounting tells of orders it leaves out: nothing is lost
    ask = Answers(cache_folder(arguments.environment)).ask
    is_calibration = arguments.question == "calibrate"
    asked = Asked(
        mechanism=arguments.mechanism,
        releases=arguments.releases,
        sampling_rate=arguments.sampling_rate,
        dp_delta=arguments.dp_delta,
        dimension=arguments.dimension,
        epsilon=None if is_calibration else arguments.epsilon,
        noise_multiplier=None if is_calibration else arguments.noise_multiplier,
        adjacency=arguments.adjacency,
        sampling=arguments.sampling,
    )
    answer = account_for_target(asked, arguments.target_epsilon, ask) if is_calibration else account(asked, ask)
    if arguments.json:
        target = {"target_epsilon": arguments.target_epsilon} if is_calibration else {}
        print(json.dumps({**target, **answer.content()}))
    else:
        print(answer.text())
    return 0
