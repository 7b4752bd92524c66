"""Four ways of adding up the same releases: by published values and by hand."""

from __future__ import annotations

import math
from typing import Any

import dp_accounting
import pytest
from scipy import stats

from common.errors import UnsupportedEvent
from common.events import Event, Sampling
from common.privacy.accountant import Compositions, compositions

DP_DELTA = 1e-5


def gaussian(noise_multiplier: float, rate: float = 1.0, sampling: Sampling = "poisson", **changes: Any) -> Event:
    return Event(
        mechanism="gaussian", noise_multiplier=noise_multiplier, sampling=sampling, sampling_rate=rate, **changes
    )


def laplace(epsilon: float, rate: float = 1.0, sampling: Sampling = "poisson", **changes: Any) -> Event:
    return Event(
        mechanism="spherical-laplace",
        epsilon=epsilon,
        sampling=sampling,
        sampling_rate=rate,
        adjacency="replace_one",
        **changes,
    )


def test_the_four_ways_stand_side_by_side() -> None:
    found = compositions({laplace(0.5, dimension=785): 1000}, DP_DELTA)
    assert found.epsilon_basic == 500
    assert found.epsilon_advanced == pytest.approx(400.2, abs=0.1)
    assert found.epsilon_rdp == pytest.approx(2.488, abs=1e-3)
    assert found.epsilon_pld == pytest.approx(2.282, abs=1e-3)


def test_ways_that_do_not_apply_are_none() -> None:
    sampled = {laplace(0.5, 0.1, dimension=785): 1000}
    assert compositions(sampled, DP_DELTA).epsilon_rdp is None
    without_delta = compositions({laplace(0.5, dimension=785): 10}, 0.0)
    assert (without_delta.epsilon_pld, without_delta.epsilon_basic) == (5.0, 5.0)
    assert (without_delta.epsilon_rdp, without_delta.epsilon_advanced) == (None, None)
    for event in (Event(mechanism="none"), Event(mechanism="paper", epsilon=1.0), laplace(1.0, 0.1, "replacement")):
        assert compositions({event: 3}, DP_DELTA) == Compositions(None, None, None, None)
    assert compositions({}, DP_DELTA) == Compositions(0.0, 0.0, 0.0, 0.0)
    with pytest.raises(UnsupportedEvent, match="with Gaussian noise"):
        compositions({gaussian(1.0): 1}, 0.0)


@pytest.mark.parametrize("sampling", ["poisson", "fixed"])
def test_basic_composition_of_gaussians_spends_the_whole_delta_and_no_more(sampling: Sampling) -> None:
    """By hand: q times the profile of one release without sampling is an even share of dp_delta."""
    event, count = gaussian(2.0, 0.1, sampling, adjacency="replace_one"), 20
    found = compositions({event: count, laplace(0.25, dimension=7): 4}, DP_DELTA)
    assert found.epsilon_basic is not None
    each = (found.epsilon_basic - 1.0) / count
    unsampled = math.log1p(math.expm1(each) / 0.1)
    share = 0.1 * (stats.norm.cdf(0.5 - unsampled) - math.exp(unsampled) * stats.norm.cdf(-0.5 - unsampled))
    assert count * share == pytest.approx(DP_DELTA, rel=1e-6)
    assert found.epsilon_pld is not None
    assert found.epsilon_advanced is not None
    assert found.epsilon_pld < found.epsilon_advanced <= found.epsilon_basic


def test_advanced_composition_of_huge_releases_is_basic() -> None:
    found = compositions({laplace(1e4, dimension=785): 7}, DP_DELTA)
    assert (found.epsilon_advanced, found.epsilon_basic) == (7e4, 7e4)


def test_advanced_composition_of_gaussians_by_hand() -> None:
    event, count = gaussian(40.0), 400
    each = dp_accounting.get_epsilon_gaussian(40.0, DP_DELTA / 2 / count)
    expected = math.sqrt(2 * math.log(2 / DP_DELTA) * count) * each + count * each * math.expm1(each)
    assert compositions({event: count}, DP_DELTA).epsilon_advanced == pytest.approx(expected, rel=1e-9)
