"""Lower bounds on epsilon from counts: how often an attacker's event happened with the canary and without it.

An (epsilon, dp_delta)-private mechanism keeps P(event | one) <= e^epsilon P(event | other) + dp_delta for every event
and both orders of the two data sets. So counts of an event that was fixed before they were taken bound epsilon from
below, with the confidence of the bounds on the two probabilities.

Source: Clopper and Pearson 1934; Jagielski, Ullman and Oprea 2020 (audit of private training by a canary).

| counts | bound |
|---|---|
| the event never happened in the first data set | 0 |
| its probability may be dp_delta or less | 0 |
| the event never happened in the second one | finite: its probability may still be about log(1/risk)/trials |
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray


def at_least(hits: ArrayLike, trials: int, risk: float) -> NDArray[np.float64]:
    """What the probability behind `hits` out of `trials` is not below, but for an error of probability `risk`."""
    from scipy.special import betaincinv  # noqa: PLC0415 - not needed to read an audit

    counts = np.asarray(hits, dtype=np.float64)
    bounds = betaincinv(np.maximum(counts, 1), trials - counts + 1, risk)
    return np.where(counts > 0, bounds, 0.0)


def at_most(hits: ArrayLike, trials: int, risk: float) -> NDArray[np.float64]:
    """What the probability behind `hits` out of `trials` is not above, but for an error of probability `risk`."""
    from scipy.special import betaincinv  # noqa: PLC0415

    counts = np.asarray(hits, dtype=np.float64)
    bounds = betaincinv(counts + 1, np.maximum(trials - counts, 1), 1 - risk)
    return np.where(counts < trials, bounds, 1.0)


def epsilon_at_least(
    hits: ArrayLike, others: ArrayLike, trials: int, *, confidence: float, dp_delta: float
) -> NDArray[np.float64]:
    """A lower bound on epsilon at `dp_delta`, never below 0.

    Args:
        hits: how often the event happened in `trials` runs on the data set where it is likelier.
        others: the same on the other data set, in as many runs.
        trials: runs on each.
        confidence: with which each entry holds by itself; the two probabilities share the error.
        dp_delta: the delta of the claim.
    """
    risk = (1 - confidence) / 2
    ratio = (at_least(hits, trials, risk) - dp_delta) / at_most(others, trials, risk)
    return np.log(np.maximum(ratio, 1.0))


def epsilon_of_guesses(canaries: int, guesses: int, right: int, *, confidence: float, dp_delta: float) -> float:
    """A lower bound on epsilon from guesses about fair coins, each deciding whether one record is there; never below 0.

    Args:
        canaries: coins that were thrown.
        guesses: coins about which a guess was ventured; their number was fixed before.
        right: guesses that were right.
        confidence: with which the bound holds.
        dp_delta: the delta of the claim.
    """
    low, high = 0.0, 1.0
    if _chance_of_guesses(canaries, guesses, right, low, dp_delta) > 1 - confidence:
        return low
    while _chance_of_guesses(canaries, guesses, right, high, dp_delta) <= 1 - confidence:
        low, high = high, 2 * high
    for _ in range(40):
        middle = (low + high) / 2
        if _chance_of_guesses(canaries, guesses, right, middle, dp_delta) <= 1 - confidence:
            low = middle
        else:
            high = middle
    return low


def _chance_of_guesses(canaries: int, guesses: int, right: int, epsilon: float, dp_delta: float) -> float:
    """The most probability that so many guesses are right under (epsilon, dp_delta)-privacy."""
    if right == 0:
        return 1.0
    from scipy.special import betainc  # noqa: PLC0415

    odds = 1 / (1 + math.exp(-epsilon))
    counts = np.arange(1, right + 1)
    reached = np.append(betainc(counts, guesses - counts + 1, odds)[::-1], 1.0)  # P[W >= right], right - 1, ..., 0
    steepest = float(((reached[1:] - reached[0]) / counts).max())
    return min(float(reached[0]) + 2 * canaries * dp_delta * steepest, 1.0)
