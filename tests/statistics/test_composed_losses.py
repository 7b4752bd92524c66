"""Totals against sums of losses drawn from the noise; each test is shown an optimistic total, which it must tell.

If epsilon is an upper bound at dp_delta, the mean of max(0, 1 - exp(epsilon - loss)) over the drawn losses is at most
dp_delta, but for chance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from numpy.typing import NDArray
from reference import spherical

from common.events import Event
from common.privacy.accountant import total
from common.privacy.steps import dots_of, step_of
from common.seeds import stream

DRAWS = 200_000
DP_DELTA = 0.01
Losses = NDArray[np.float64]


def draw(event: Event, direction: str, rng: np.random.Generator) -> Losses:
    """[DRAWS] losses of one release; without sampling both directions are the same."""
    half = 1 if event.adjacency == "replace_one" else 2
    if event.mechanism == "gaussian":
        assert event.noise_multiplier is not None
        shift = 2 / half / event.noise_multiplier
        base = rng.normal(shift**2 / 2, shift, DRAWS)
    else:
        assert event.epsilon is not None
        assert event.dimension is not None
        base = spherical.draw(event.dimension, event.epsilon / half, DRAWS, rng)
    rate = event.sampling_rate
    if rate == 1:
        return base
    # base is log p'/p under p', and -base has the law of the same under p
    is_in = rng.random(DRAWS) < rate
    if direction == "removed":
        return np.log1p(rate * np.expm1(np.where(is_in, base, -base)))
    return -np.log1p(rate * np.expm1(-base))


def leak(events: Mapping[Event, int], epsilon: float, direction: str) -> tuple[float, float]:
    """The delta at `epsilon`, measured, and its standard error."""
    rng = stream(23, "losses", direction)
    losses = sum(
        (draw(event, direction, rng) for event, count in events.items() for _ in range(count)), np.zeros(DRAWS)
    )
    values = np.maximum(0.0, -np.expm1(np.minimum(epsilon - losses, 0.0)))
    return float(values.mean()), float(values.std() / math.sqrt(DRAWS))


def spherical_event(dimension: int, epsilon: float, rate: float = 1.0, adjacency: str = "add_remove") -> Event:
    sampling = "all" if rate == 1 else "poisson"
    fields = {"sampling": sampling, "sampling_rate": rate, "adjacency": adjacency}
    return Event.model_validate({"mechanism": "spherical-laplace", "dimension": dimension, "epsilon": epsilon} | fields)


def gaussian_event(noise_multiplier: float, rate: float = 1.0, adjacency: str = "add_remove") -> Event:
    sampling = "all" if rate == 1 else "poisson"
    fields = {"sampling": sampling, "sampling_rate": rate, "adjacency": adjacency}
    return Event.model_validate({"mechanism": "gaussian", "noise_multiplier": noise_multiplier} | fields)


REPLACED = {
    spherical_event(3, 0.8, adjacency="replace_one"): 3,
    spherical_event(1, 0.3, adjacency="replace_one"): 2,
    gaussian_event(6.0, adjacency="replace_one"): 2,
}
SAMPLED = {spherical_event(10, 3.0, 0.3): 4, gaussian_event(1.5, 0.2): 3, gaussian_event(8.0): 1}


@pytest.mark.parametrize("events", [REPLACED, SAMPLED], ids=["replaced", "sampled"])
def test_a_mixed_total_is_what_is_measured(events: Mapping[Event, int]) -> None:
    epsilon = total(events, DP_DELTA).epsilon
    assert epsilon is not None
    found = {direction: leak(events, epsilon, direction) for direction in ("removed", "added")}
    for delta, error in found.values():
        assert delta <= DP_DELTA + 4 * error
    delta, error = max(found.values())
    assert delta >= DP_DELTA - 4 * error  # and tight
    assert error < 0.02 * DP_DELTA
    forgotten = dict(list(events.items())[:-1])  # control: the last kind of release is left out of the account
    optimistic = total(forgotten, DP_DELTA).epsilon
    assert optimistic is not None
    delta, error = max(leak(events, optimistic, direction) for direction in ("removed", "added"))
    assert delta > DP_DELTA + 4 * error


def composed(event: Event, count: int, dp_delta: float, *, interval: float, rounded: bool, side: int) -> float:
    """Another accountant: one direction of the two, or every loss rounded down."""
    dots = dots_of(step_of(event))[side]
    indices = (np.floor if rounded else np.ceil)(dots.losses / interval).astype(int)
    pmf: dict[int, float] = {}
    for index, mass in zip(indices.tolist(), dots.masses.tolist(), strict=True):
        pmf[index] = pmf.get(index, 0.0) + mass
    one = PrivacyLossDistribution.create_from_rounded_probability(pmf, 0.0, interval)
    return float(one.self_compose(count).get_epsilon_for_delta(dp_delta))


def test_the_record_added_counts_as_well() -> None:
    """Two releases where it costs more; an account of the record removed alone, the control, says too little."""
    event = spherical_event(1, 1.0, 0.5)
    epsilon = total({event: 2}, 0.1).epsilon
    assert epsilon is not None
    delta, error = leak({event: 2}, epsilon, "added")
    assert abs(delta - 0.1) < 4 * error
    one_sided = composed(event, 2, 0.1, interval=1e-4, rounded=False, side=0)
    assert one_sided < 0.7 * epsilon
    delta, error = leak({event: 2}, one_sided, "added")
    assert delta > 0.1 + 4 * error


def test_losses_rounded_down_would_be_told() -> None:
    event = spherical_event(5, 0.6, adjacency="replace_one")
    epsilon = total({event: 20}, DP_DELTA).epsilon
    assert epsilon is not None
    delta, error = leak({event: 20}, epsilon, "removed")
    assert abs(delta - DP_DELTA) < 4 * error
    optimistic = composed(event, 20, DP_DELTA, interval=0.01, rounded=True, side=0)
    delta, error = leak({event: 20}, optimistic, "removed")
    assert delta > DP_DELTA + 4 * error
