"""Promises that hold for every input: norms, sensitivities, and an epsilon that only grows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from common.events import Event
from common.privacy import lattice
from common.privacy.accountant import pure_epsilon, total
from common.privacy.clipping import clip, clip_each, clipped_sum
from common.privacy.ledger import Ledger
from common.privacy.plan import PrivacyPlan

BATCH, WIDTH = 5, 4
ROUNDING = 1 + 1e-6

wild = st.floats(width=32) | st.sampled_from([0.0, 1.0, -1.0, 1e30, -1e30, math.nan, math.inf, 1e-40])
rows = hnp.arrays(np.float32, (BATCH, WIDTH), elements=wild)
row = hnp.arrays(np.float32, WIDTH, elements=wild)
clip_norms = st.floats(1e-6, 1e6)


@given(rows, clip_norms)
def test_no_clipped_row_is_longer_than_the_bound(batch: NDArray[np.float32], clip_norm: float) -> None:
    norms = np.sqrt(np.square(clip_each(batch, clip_norm)).sum(axis=1))
    assert np.isfinite(norms).all()
    assert (norms <= clip_norm * ROUNDING).all()


@given(rows, row, clip_norms)
def test_another_record_moves_the_average_no_further_than_stated(
    batch: NDArray[np.float32], other: NDArray[np.float32], clip_norm: float
) -> None:
    """By 2C/b if a record is replaced, by C/b if it is left out."""
    replaced = np.concatenate([batch[:-1], other[np.newaxis]])
    one, two, less = (clipped_sum(each, clip_norm) / BATCH for each in (batch, replaced, batch[:-1]))
    assert np.linalg.norm(one - two) <= 2 * clip_norm / BATCH * ROUNDING
    assert np.linalg.norm(one - less) <= clip_norm / BATCH * ROUNDING


def test_clipping_the_average_fails_the_same_test() -> None:
    """Control: the literal Algorithm 1."""
    batch = np.zeros((BATCH, WIDTH))
    batch[-1, 0] = 1e6
    one, two = clip(batch.mean(axis=0), 1.0), clip(-batch.mean(axis=0), 1.0)
    assert np.linalg.norm(one - two) > 4 * (2 / BATCH)


@given(
    hnp.arrays(np.float64, WIDTH, elements=st.floats(-1e3, 1e3)),
    hnp.arrays(np.float64, WIDTH, elements=st.floats(-1e3, 1e3)),
    st.floats(1e-3, 1e3),
)
def test_the_lattice_moves_two_inputs_apart_by_no_more_than_it_says(
    one: NDArray[np.float64], other: NDArray[np.float64], scale: float
) -> None:
    grid = lattice.grid_below(scale)
    ends = [lattice.add(vector, np.zeros(WIDTH), grid) for vector in (one, other)]
    apart = float(np.linalg.norm(one - other))
    assert np.linalg.norm(ends[0] - ends[1]) <= lattice.inflated(apart, grid, WIDTH) * (1 + 1e-12)


def gaussian(noise_multiplier: float, rate: float) -> Event:
    return Event(mechanism="gaussian", noise_multiplier=noise_multiplier, sampling="poisson", sampling_rate=rate)


gaussians = st.builds(gaussian, st.sampled_from([0.7, 1.0, 4.0, 20.0]), st.sampled_from([0.01, 0.1, 1.0]))
purities = st.builds(
    lambda epsilon, rate: Event(mechanism="spherical-laplace", epsilon=epsilon, sampling="poisson", sampling_rate=rate),
    st.floats(0.01, 5.0),
    st.floats(0.01, 1.0),
)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(gaussians | purities, st.integers(1, 30)), min_size=1, max_size=4),
    st.sampled_from(["pld", "rdp"]),
)
def test_epsilon_never_falls_as_events_are_added(charges: list[tuple[Event, int]], method: str) -> None:
    ledger, before = Ledger(), 0.0
    for event, count in charges:
        for _ in range(count):
            ledger.charge(event)
        now = ledger.total(1e-5, method).epsilon  # type: ignore[arg-type]
        assert now is not None
        assert now >= before * (1 - 1e-3)  # the grid follows the events and may become a little finer
        before = now


@given(purities, st.integers(1, 1000))
def test_sampling_never_costs_more_than_no_sampling(event: Event, count: int) -> None:
    """And replacing a record never less than leaving one out."""
    whole = event.model_copy(update={"sampling": "all", "sampling_rate": 1.0})
    assert pure_epsilon(event) <= pure_epsilon(whole) * (1 + 1e-12)
    swapped = event.model_copy(update={"adjacency": "replace_one"})
    assert pure_epsilon(event) <= pure_epsilon(swapped)
    assert total({event: count}, 0.0).epsilon == pytest.approx(count * pure_epsilon(event), rel=1e-12)


@given(hnp.arrays(np.float32, WIDTH, elements=st.floats(-1, 1, width=32)), st.integers(0, 2**32))
def test_a_release_is_a_matter_of_the_sum_and_the_seed(vector: NDArray[np.float32], seed: int) -> None:
    plan = PrivacyPlan(gaussian(1.0, 0.1).model_copy(update={"dimension": WIDTH}), records=100, batch_size=10)
    one, two = (plan.perturb(plan.bound(vector, 1.0), np.random.default_rng(seed)) for _ in range(2))
    assert one.flat.dtype == np.float32
    assert one.flat.tolist() == two.flat.tolist()
    assert np.isfinite(one.flat).all()
