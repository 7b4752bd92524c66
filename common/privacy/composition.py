"""All releases together: the privacy loss of the sum, by Google's dp-accounting (imported only when asked).

Steps of any kind go onto one grid and are convolved there. Rounding onto the grid is pessimistic and costs, in each
convolved step, a twelfth of the interval's square in mean loss; the grid is as fine as makes that a fixed share of
the whole mean loss. A little mass per step goes to an infinite loss and pays for the arithmetic.

Kept away from, in the library: composing a small `SparsePLDPmf` n times first computes size ** n, so small ones are
padded; composing very often at once makes its Chernoff bounds, and with them its arrays, far too long, so that is
done in stages; its own grid of 1e-4 fits no step in particular; below a dp_delta of 1e-10 rounding errors of its
Fourier transform show.

Symbols: mu -> shift.
Source: Koskela, Jaelkoe and Honkela 2020; Gopi, Lee and Wutschitz 2021; Doroshenko et al. 2022.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from common.privacy.dots import Dots, on_grid, trimmed
from common.privacy.losses import GaussianLoss
from common.privacy.steps import Step, dots_of

Counts = Mapping[Step, int]

_ROUNDING, _LEAST_ROUNDING = 1e-13, 1e-15  # mass per step that goes to an infinite loss; the errors of a law are 1e-15
_TAILS = 2e-5  # of dp_delta that the outermost losses, given up, may cost
_ACCURACY = 1e-4  # of the mean loss that the grid may add
_CELLS, _MOST_CELLS, _MOST_COMPOSED = 10_000, 100_000, 1_000_000  # at least of the sum; at most of one, of the sum
_SPARSE = 1001  # entries from which the library takes a pmf for a dense one
_AT_ONCE = 100_000  # compositions in one stage, or more if one step's rare losses are far above its usual ones


@dataclass(frozen=True)
class Part:
    """All releases of one kind: the loss of one, if the record is in the first data set or in the second."""

    removed: Dots
    added: Dots
    count: int


def joint_epsilon(steps: Counts, dp_delta: float) -> float:
    """The smallest epsilon proved for all `steps` together at `dp_delta`, rounded up."""
    import dp_accounting  # noqa: PLC0415  # a second and 100 MB that a run without a question does not pay

    merged = _merged(steps)
    match list(merged):
        case [Step(GaussianLoss(shift), "none")]:
            with np.errstate(divide="ignore"):  # the logarithm of a zero on the way to an epsilon of 0
                return float(dp_accounting.get_epsilon_gaussian(1 / shift, dp_delta))
    spent = _TAILS * dp_delta / sum(merged.values())
    parts = [_part(step, count, spent) for step, count in merged.items()]
    if not any(part.removed.largest or part.added.largest for part in parts):  # no loss but 0 and infinity is left
        infinite = math.fsum(part.count * max(part.removed.infinite, part.added.infinite) for part in parts)
        return 0.0 if infinite <= dp_delta else math.inf
    interval = _interval(parts)
    whole, *others = [_composed(part, interval, max(_LEAST_ROUNDING, min(_ROUNDING, spent))) for part in parts]
    for other in others:
        whole = whole.compose(other)
    return _epsilon(whole, dp_delta, math.fsum(part.count * part.removed.largest for part in parts))


def _merged(steps: Counts) -> dict[Step, int]:
    """The same, with all Gaussian releases without sampling as the one release that they are together."""
    square, others = 0.0, {}
    for step, count in steps.items():
        if isinstance(step.loss, GaussianLoss) and step.thinning == "none":
            square += count * step.loss.shift**2
        else:
            others[step] = count
    return {**others, Step(GaussianLoss(math.sqrt(square))): 1} if square > 0 else others


def _part(step: Step, count: int, tail: float) -> Part:
    removed, added = dots_of(step)
    kept = trimmed(removed, tail)
    return Part(kept, kept if added is removed else trimmed(added, tail), count)


def _interval(parts: Sequence[Part]) -> float:
    """The grid: fine enough for all steps together, and so that the largest loss of the heaviest step lies on it."""
    number = sum(part.count for part in parts)
    mean = math.fsum(part.count * part.removed.mean for part in parts)
    square = math.fsum(part.count * part.removed.mean_square for part in parts)
    most = math.fsum(part.count * part.removed.largest for part in parts)
    spread = 2 * min(most, abs(mean) + 10 * math.sqrt(square))
    fine = min(math.sqrt(12 * _ACCURACY * max(mean, square / number / 1e6) / number), spread / _CELLS)
    largest = max(part.removed.largest for part in parts)
    interval = max(fine, largest / _MOST_CELLS, spread / _MOST_COMPOSED)
    top = max(parts, key=lambda part: part.count * part.removed.mean).removed.largest
    return top / max(1, math.ceil(top / interval))


def _composed(part: Part, interval: float, slack: float) -> Any:
    """The library's distribution of all releases of one kind."""
    from dp_accounting.pld import privacy_loss_distribution as pld  # noqa: PLC0415

    removed, added = part.removed, part.added
    other: dict[str, Any] = {}
    if added is not removed:
        other = {
            "rounded_probability_mass_function_add": _padded(added, interval),
            "infinity_mass_add": added.infinite + slack,
            "symmetric": False,
        }
    one = pld.PrivacyLossDistribution.create_from_rounded_probability(
        _padded(removed, interval), removed.infinite + slack, interval, **other
    )
    rare = 16 * removed.largest / math.sqrt(removed.mean_square)
    return _repeated(one, part.count, max(_AT_ONCE, int(rare**2)))


def _padded(dots: Dots, interval: float) -> dict[int, float]:
    first, masses = on_grid(dots, interval)
    pmf = dict(enumerate(masses.tolist(), first))
    for index in range(first + masses.size, first + _SPARSE):
        pmf[index] = 0.0
    return pmf


def _repeated(one: Any, count: int, at_once: int) -> Any:
    """`count` independent copies together."""
    if count <= at_once:
        return one.self_compose(count)
    stages, rest = divmod(count, at_once)
    whole = _repeated(one.self_compose(at_once), stages, at_once)
    return whole.compose(one.self_compose(rest)) if rest else whole


def _epsilon(whole: Any, dp_delta: float, largest: float) -> float:
    """The epsilon at `dp_delta`; infinite if more than that has an infinite loss.

    The library divides by the mass of the second distribution, which near a loss of 709 is too small for that, and
    answers infinity; halving an interval answers there. Where epsilon is 0 it looks at every loss in turn.
    """
    if float(whole.get_delta_for_epsilon(0.0)) <= dp_delta:
        return 0.0
    with np.errstate(over="ignore"):
        found = float(whole.get_epsilon_for_delta(dp_delta))
    if math.isfinite(found) or float(whole.get_delta_for_epsilon(largest)) > dp_delta:
        return found
    low, high = 0.0, largest
    while high - low > _ACCURACY / 10 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if float(whole.get_delta_for_epsilon(middle)) > dp_delta else (low, middle)
    return high
