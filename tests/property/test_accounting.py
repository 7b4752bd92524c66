"""What holds for the total of any releases: it grows with them, and stays below what simpler theorems say."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from common.events import Event
from common.privacy.accountant import compositions, pure_epsilon, total

GRID = 3e-4  # the grid follows the events, so a total may be this much finer than the one before

dimensions = st.sampled_from([None, 1, 2, 10, 785])
strengths = st.floats(0.05, 8.0)
rates = st.sampled_from([0.003, 0.1, 0.6, 1.0])
counts = st.integers(1, 3000)
schemes = st.sampled_from([("poisson", "add_remove"), ("poisson", "replace_one"), ("fixed", "replace_one")])


def build(strength: float, rate: float, scheme: tuple[str, str], dimension: int | None, *, is_gaussian: bool) -> Event:
    size: dict[str, Any] = {"mechanism": "spherical-laplace", "epsilon": strength}
    if is_gaussian:
        size = {"mechanism": "gaussian", "noise_multiplier": 4 / strength}
    fields = {"dimension": dimension, "sampling": scheme[0], "sampling_rate": rate, "adjacency": scheme[1]}
    return Event.model_validate(size | fields)


def epsilon_of(releases: dict[Event, int]) -> float:
    found = total(releases, 1e-5).epsilon
    assert found is not None
    return found


events = st.builds(build, strengths, rates, schemes, dimensions, is_gaussian=st.booleans())


@settings(max_examples=15, deadline=None)
@given(events, counts, st.integers(1, 3000))
def test_more_releases_never_cost_less(event: Event, count: int, more: int) -> None:
    assert epsilon_of({event: count}) <= epsilon_of({event: count + more}) * (1 + GRID) + 1e-12


@settings(max_examples=15, deadline=None)
@given(events, st.floats(1.05, 3.0), counts)
def test_less_noise_never_costs_less(event: Event, factor: float, count: int) -> None:
    if event.epsilon is not None:
        strong = event.model_copy(update={"epsilon": event.epsilon * factor})
    else:
        assert event.noise_multiplier is not None
        strong = event.model_copy(update={"noise_multiplier": event.noise_multiplier / factor})
    assert epsilon_of({event: count}) <= epsilon_of({strong: count}) * (1 + GRID) + 1e-12


@settings(max_examples=15, deadline=None)
@given(events, st.floats(1.05, 10.0), counts)
def test_a_higher_rate_never_costs_less(event: Event, factor: float, count: int) -> None:
    often = event.model_copy(update={"sampling_rate": min(1.0, event.sampling_rate * factor)})
    assert epsilon_of({event: count}) <= epsilon_of({often: count}) * (1 + GRID) + 1e-12


@settings(max_examples=15, deadline=None)
@given(events, strengths, counts, st.integers(0, 50))
def test_the_total_is_below_all_simpler_ones(event: Event, strength: float, count: int, probes: int) -> None:
    scheme = (event.sampling, event.adjacency)
    probe = build(strength, event.sampling_rate, scheme, None, is_gaussian=True)
    releases = Counter({event: count})
    releases[probe] += probes
    found = compositions(releases, 1e-5)
    assert found.epsilon_pld is not None
    assert found.epsilon_basic is not None
    assert found.epsilon_advanced is not None
    assert found.epsilon_pld <= found.epsilon_basic * (1 + 1e-12)
    assert found.epsilon_pld <= (found.epsilon_rdp or 1e9) * (1 + GRID)
    assert found.epsilon_advanced <= found.epsilon_basic
    if event.epsilon is not None:
        assert epsilon_of({event: count}) <= count * pure_epsilon(event) * (1 + 1e-12)
    quick = total(releases, 1e-5, "quick").epsilon
    assert quick is not None
    assert found.epsilon_pld <= quick * (1 + GRID)
