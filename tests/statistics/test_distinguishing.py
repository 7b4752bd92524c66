"""An attacker who knows both data sets tries to break the claimed epsilon, on releases from end to end.

The event "loss above a threshold" is chosen on one sample and tested on fresh ones; 99.9 % Clopper-Pearson bounds
on both probabilities give a certified lower bound on epsilon. It must stay below the claim for the mechanisms
that claim one, and beat it for the literal reading of the paper and for noise of half the scale.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from common.events import Event
from common.privacy.plan import PrivacyPlan
from common.seeds import stream

DIMENSION, CLIP_NORM, BATCH = 2, 1.0, 4
SENSITIVITY = 2 * CLIP_NORM / BATCH
CLAIM = 1.0
RUNS = 8000
SHIFT = np.zeros(DIMENSION)
SHIFT[0] = SENSITIVITY / 2

RIGOROUS = Event(mechanism="spherical-laplace", epsilon=CLAIM, dimension=DIMENSION)
HALF_THE_NOISE = Event(mechanism="spherical-laplace", epsilon=2 * CLAIM, dimension=DIMENSION)
LITERAL = Event(mechanism="paper", epsilon=CLAIM, dimension=DIMENSION)


def releases(event: Event, sign: float, name: str) -> NDArray[np.float64]:
    """[runs, d] releases where the record in question pulls the average to `sign` * SHIFT."""
    plan = PrivacyPlan(event, records=100, batch_size=BATCH)
    bounded = plan.bound((sign * BATCH * SHIFT).astype(np.float32), CLIP_NORM)
    rng = stream(17, "attack", event.mechanism, name)
    return np.array([plan.perturb(bounded, rng).flat for _ in range(RUNS)], dtype=np.float64)


def losses(event: Event, sign: float, name: str) -> NDArray[np.float64]:
    """[runs] log density at one average over the other; rounded, or the test would read the last bits."""
    rows = releases(event, sign, name)
    near, far = (np.sqrt(np.square(rows - side * SHIFT).sum(axis=1)) for side in (1.0, -1.0))
    loss = (far - near) * CLAIM / SENSITIVITY
    if event.mechanism == "paper":
        loss += (DIMENSION - 1) * np.log(far / near)
    return np.round(loss, 6)


def lower_bound(event: Event) -> float:
    """A lower bound on the epsilon of one release, certain at 99.8 %."""
    here, there = losses(event, 1.0, "choose here"), losses(event, -1.0, "choose there")
    thresholds = np.quantile(here, np.linspace(0.05, 0.99, 40))
    chosen = max(thresholds, key=lambda least: _gap((here > least).sum(), (there > least).sum()))
    here, there = losses(event, 1.0, "test here"), losses(event, -1.0, "test there")
    return _gap((here > chosen).sum(), (there > chosen).sum())


def _gap(hits: int, false_hits: int) -> float:
    least = stats.beta.ppf(0.001, hits, RUNS - hits + 1) if hits else 0.0
    most = stats.beta.ppf(0.999, false_hits + 1, RUNS - false_hits) if false_hits < RUNS else 1.0
    return float(math.log(least / most)) if least > 0 else -math.inf


def test_the_claim_of_the_rigorous_noise_stands() -> None:
    assert 0.6 < lower_bound(RIGOROUS) <= CLAIM  # and the attack is not blind


@pytest.mark.parametrize("event", [LITERAL, HALF_THE_NOISE], ids=["exponential radius", "half the noise"])
def test_a_false_claim_is_refuted(event: Event) -> None:
    assert lower_bound(event) > CLAIM


def test_the_literal_reading_fails_by_a_wide_margin() -> None:
    assert lower_bound(LITERAL) > 2 * CLAIM  # about 3.1, of 8000 releases


def test_no_loss_of_the_rigorous_noise_passes_the_claim() -> None:
    assert np.abs(losses(RIGOROUS, 1.0, "largest")).max() <= CLAIM
    assert np.abs(losses(LITERAL, 1.0, "largest")).max() > 3 * CLAIM  # control
