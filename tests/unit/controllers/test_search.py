"""The secant search: what each verdict does to the multiplier."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from cloud.algorithms.mapa import Settings
from cloud.search import Secant, SecantSettings, Verdict

CLEAR = Verdict(
    is_worse=False, is_best_first=False, first_loss=2.0, drop=0.5, noise=0.0, path=8.0, reach=24.0
)  # the secant: 3 * 2 * sqrt(8 / 0.5) = 24


def after(*verdicts: Verdict, **settings: float) -> float:
    """The multiplier, from 1, after these verdicts."""
    search = Secant(SecantSettings.model_validate({"start": 1.0, **settings}), 1600)
    for verdict in verdicts:
        search.advance(verdict)
    return search.multiplier


def test_a_reach_that_is_right_stays() -> None:
    assert after(CLEAR) == pytest.approx(1.0)


@pytest.mark.parametrize(("reach", "factor"), [(12.0, 2.0), (48.0, 0.5), (0.1, 8.0), (1e4, 1 / 8)])
def test_a_wrong_reach_is_corrected_within_the_largest_jump(reach: float, factor: float) -> None:
    assert after(replace(CLEAR, reach=reach)) == pytest.approx(factor)


def test_noise_widens_the_interval_and_the_multiplier_moves_no_further_than_its_edge() -> None:
    noisy = replace(CLEAR, noise=0.25)  # 3 * 2 * sqrt(8 / 0.75) = 19.6 to 3 * 2 * sqrt(8 / 0.25) = 33.9
    low, high = 6 * math.sqrt(8 / 0.75), 6 * math.sqrt(8 / 0.25)
    assert after(replace(noisy, reach=25.0)) == 1.0
    assert after(replace(noisy, reach=10.0)) == pytest.approx(low / 10)
    assert after(replace(noisy, reach=40.0)) == pytest.approx(high / 40)
    assert after(replace(noisy, noise=5.0, reach=1e4)) == 1.0  # nothing is known: nothing moves


def test_a_rise_shrinks_and_is_not_forgotten() -> None:
    worse = replace(CLEAR, is_worse=True, drop=-1.0)
    assert after(worse) == pytest.approx(1 / 2)
    assert after(replace(worse, is_best_first=True)) == pytest.approx(1 / 4)
    assert after(replace(CLEAR, drop=-0.1, noise=0.01)) == pytest.approx(1 / 2)  # too little to go back
    wants_more = replace(CLEAR, reach=12.0, drop=0.01)
    assert after(worse, wants_more) == pytest.approx(1 / 2)


def test_what_early_segments_exclude_later_ones_cannot_ask_for() -> None:
    flat = replace(CLEAR, path=800.0)  # the loss has stopped falling: the line seems ten times as long
    assert after(CLEAR, flat) == pytest.approx(1.0)
    assert after(flat) == pytest.approx(8.0)


def test_without_a_probe_nothing_moves() -> None:
    search = Secant(SecantSettings(), 100)
    search.advance(None)
    assert search.multiplier == 20.0


verdicts = st.builds(
    Verdict,
    is_worse=st.booleans(),
    is_best_first=st.booleans(),
    first_loss=st.floats(-1, 10),
    drop=st.floats(-10, 10),
    noise=st.floats(0, 10),
    path=st.floats(1e-9, 1e9),
    reach=st.floats(1e-9, 1e9),
)


@given(verdicts)
def test_any_verdict_leaves_a_usable_multiplier(verdict: Verdict) -> None:
    assert 1 / 8 - 1e-9 <= after(verdict) <= 8 + 1e-9


@pytest.mark.parametrize(
    "content",
    [
        {"segments": 1},
        {"start": 0.0},
        {"kind": "guess"},
        {"trials": 3},
        {"kind": "doubling", "segments": 8},
        {"cooldown": 1.5},
    ],
)
def test_settings_of_no_search_are_refused(content: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Settings.model_validate({"search": {"kind": "secant", **content}})
