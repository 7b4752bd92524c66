"""What composition theorems say that know each release by its epsilon and dp_delta only: to print beside the total.

Basic: epsilons and dp_deltas add up. Advanced (Dwork, Rothblum and Vadhan 2010), for releases of epsilon_i:

    sqrt(2 ln(1/slack) * sum epsilon_i^2) + sum epsilon_i (exp(epsilon_i) - 1)   at dp_delta = slack + the releases' own

and never above basic. The whole dp_delta is spent either way. Pure releases take none of it; Gaussian ones have an
epsilon only at a dp_delta of their own, so they share it evenly (basic), or half of it (advanced; the slack is the
other half). Without Gaussian releases the slack is all of dp_delta.

One sampled Gaussian release, Poisson or of fixed size: ln(1 + q(exp(epsilon) - 1)) at q times the dp_delta at which
the release without sampling has epsilon (Balle, Barthe and Gaboardi 2018, Theorems 8 and 9).

Symbols: q -> rate, epsilon_i -> each.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from common.errors import UnsupportedEvent
from common.events import Event

Counts = Mapping[Event, int]


def pure_epsilon(event: Event) -> float:
    """Pure epsilon of one spherical-Laplace release under the event's adjacency and sampling."""
    if event.epsilon is None:
        raise UnsupportedEvent(f"epsilon of {event!r}: expected a value")
    return _sampled(event.epsilon if event.adjacency == "replace_one" else event.epsilon / 2, _rate(event))


def gaussian_epsilon(event: Event, dp_delta: float) -> float:
    """Epsilon of one Gaussian release at `dp_delta`, exact but for replaced records under Poisson sampling."""
    import dp_accounting  # noqa: PLC0415  # a second and 100 MB that a run without a question does not pay

    if event.noise_multiplier is None:
        raise UnsupportedEvent(f"noise_multiplier of {event!r}: expected a value")
    std = event.noise_multiplier / (2 if event.adjacency == "replace_one" else 1)
    rate = _rate(event)
    with np.errstate(divide="ignore"):  # the logarithm of a zero on the way to an epsilon of 0
        base = float(dp_accounting.get_epsilon_gaussian(std, min(1.0, dp_delta / rate)))
    return _sampled(base, rate)


def basic(events: Counts, dp_delta: float) -> float:
    """Total epsilon at `dp_delta` by basic composition."""
    return math.fsum(each * count for each, count in _releases(events, dp_delta))


def advanced(events: Counts, dp_delta: float) -> float:
    """Total epsilon at `dp_delta` by advanced composition, where that is less than basic composition says."""
    has_gaussian = any(event.mechanism == "gaussian" for event in events)
    slack = dp_delta / 2 if has_gaussian else dp_delta
    releases = list(_releases(events, dp_delta - slack))
    if any(each > 100 for each, _ in releases):
        return basic(events, dp_delta)  # and exp(epsilon) may be beyond all numbers
    squares = math.fsum(count * each**2 for each, count in releases)
    drift = math.fsum(count * each * math.expm1(each) for each, count in releases)
    return min(basic(events, dp_delta), math.sqrt(2 * math.log(1 / slack) * squares) + drift)


def _releases(events: Counts, dp_delta: float) -> Iterable[tuple[float, int]]:
    """Each kind of release: its epsilon, and how many there were."""
    sharers = sum(count for event, count in events.items() if event.mechanism == "gaussian")
    for event, count in events.items():
        if event.mechanism == "gaussian":
            yield gaussian_epsilon(event, dp_delta / sharers), count
        else:
            yield pure_epsilon(event), count


def _rate(event: Event) -> float:
    return 1.0 if event.sampling == "all" else event.sampling_rate


def _sampled(epsilon: float, rate: float) -> float:
    if epsilon > 500:  # exp would overflow; the same expression with e^epsilon taken out
        return epsilon + math.log(rate + (1 - rate) * math.exp(-epsilon))
    return math.log1p(rate * math.expm1(epsilon))
