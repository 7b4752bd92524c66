"""Lower bounds on epsilon from counts: against published values, against exact coverage, and at their ends."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from lab.attacks.bounds import at_least, at_most, epsilon_at_least, epsilon_of_guesses


@pytest.mark.parametrize(
    ("counts", "dp_delta", "published"),
    [((1000, 100, 75), 1e-4, 0.673), ((100_000, 1510, 1439), 1e-5, 2.675)],
)
def test_guesses_give_the_published_bounds(counts: tuple[int, int, int], dp_delta: float, published: float) -> None:
    """Steinke, Nasr and Jagielski 2023, appendix D and section 7."""
    assert epsilon_of_guesses(*counts, confidence=0.95, dp_delta=dp_delta) == pytest.approx(published, abs=1e-3)


def test_guesses_that_are_all_right_bound_epsilon_by_their_number() -> None:
    found = epsilon_of_guesses(10, 10, 10, confidence=0.95, dp_delta=0.0)
    assert (1 / (1 + math.exp(-found))) ** 10 == pytest.approx(0.05)


def test_guesses_no_better_than_coins_bound_nothing() -> None:
    assert epsilon_of_guesses(100, 100, 50, confidence=0.9, dp_delta=0.0) == 0
    assert epsilon_of_guesses(100, 100, 0, confidence=0.9, dp_delta=0.0) == 0
    assert epsilon_of_guesses(100, 100, 100, confidence=0.9, dp_delta=0.5) == 0


@pytest.mark.parametrize("chance", [0.001, 0.02, 0.3, 0.5, 0.97])
def test_a_bound_on_a_probability_fails_no_oftener_than_it_says(chance: float) -> None:
    trials, risk = 60, 0.01
    hits = np.arange(trials + 1)
    weights = stats.binom.pmf(hits, trials, chance)
    too_high = float(weights[at_least(hits, trials, risk) > chance].sum())
    too_low = float(weights[at_most(hits, trials, risk) < chance].sum())
    assert max(too_high, too_low) <= risk
    careless = float(weights[hits / trials + 0.01 > chance].sum())  # control: an estimate is no bound
    assert careless > risk


def test_a_count_of_nothing_or_of_everything_has_a_bound_on_one_side_only() -> None:
    assert at_least(0, 50, 0.01) == 0
    assert at_most(50, 50, 0.01) == 1
    assert 0 < at_most(0, 50, 0.01) == pytest.approx(1 - 0.01 ** (1 / 50))


def test_counts_bound_epsilon() -> None:
    def bound(hits: int, others: int, dp_delta: float = 0.0) -> float:
        return float(epsilon_at_least(hits, others, 1000, confidence=0.999, dp_delta=dp_delta))

    assert bound(500, 0) == pytest.approx(math.log(at_least(500, 1000, 5e-4) / at_most(0, 1000, 5e-4)))
    assert bound(500, 184) < math.log(500 / 184) < bound(500, 100)
    assert bound(184, 500) == 0
    assert bound(500, 100, dp_delta=0.2) < bound(500, 100)
    assert bound(500, 100, dp_delta=0.6) == 0
