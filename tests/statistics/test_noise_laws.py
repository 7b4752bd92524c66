"""The noise has the law it claims. Every test is shown noise of another law, which it must tell."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from common.events import Event
from common.privacy.laplace import ExponentialRadius, SphericalLaplace
from common.privacy.noise import Noise, noise_of
from common.privacy.plan import PrivacyPlan
from common.seeds import stream

SCALE = 0.7


def draw(noise: Noise, dimension: int, count: int, scale: float = SCALE) -> NDArray[np.float64]:
    rng = stream(11, "noise", dimension)
    return np.array([noise.draw(dimension, scale, rng) for _ in range(count)])


def surprise(values: NDArray[np.float64], mean: float) -> float:
    """How many standard errors the mean of `values` is away from `mean`."""
    return float(abs(values.mean() - mean) / (values.std(ddof=1) / math.sqrt(values.size)))


@pytest.mark.parametrize("dimension", [1, 10, 785])
def test_the_second_moment_is_exact(dimension: int) -> None:
    squares = np.square(draw(SphericalLaplace(1.0), dimension, 4000)).sum(axis=1)
    assert surprise(squares, SphericalLaplace(1.0).second_moment(dimension, SCALE)) < 5
    literal = ExponentialRadius(1.0).second_moment(dimension, SCALE)
    assert (surprise(squares, literal) < 5) == (dimension == 1)  # control: the paper's moment holds for d = 1 only


@pytest.mark.parametrize("dimension", [1, 2, 10, 785])
def test_the_radius_has_the_gamma_law(dimension: int) -> None:
    def p_value(noise: Noise, scale: float) -> float:
        radii = np.sqrt(np.square(draw(noise, dimension, 3000, scale)).sum(axis=1))
        return float(stats.kstest(radii, stats.gamma(dimension, scale=SCALE).cdf).pvalue)

    assert p_value(SphericalLaplace(1.0), SCALE) > 1e-4
    assert p_value(SphericalLaplace(1.0), 1.3 * SCALE) < 1e-4  # control: wrong scale
    if dimension > 1:
        assert p_value(ExponentialRadius(1.0), SCALE) < 1e-4  # control: the literal radius


@pytest.mark.parametrize("noise", [SphericalLaplace(1.0), ExponentialRadius(1.0)])
def test_the_direction_is_uniform(noise: Noise) -> None:
    """A coordinate of a uniform direction in R^3 is uniform in [-1, 1] (Archimedes)."""
    rows = draw(noise, 3, 3000)
    directions = rows / np.sqrt(np.square(rows).sum(axis=1, keepdims=True))
    for axis in range(3):
        assert stats.kstest(directions[:, axis], stats.uniform(-1, 2).cdf).pvalue > 1e-4
    stretched = rows * [1.5, 1.0, 1.0]  # control
    stretched /= np.sqrt(np.square(stretched).sum(axis=1, keepdims=True))
    assert stats.kstest(stretched[:, 0], stats.uniform(-1, 2).cdf).pvalue < 1e-4


def test_the_literal_radius_is_exponential() -> None:
    radii = np.sqrt(np.square(draw(ExponentialRadius(1.0), 10, 3000)).sum(axis=1))
    assert stats.kstest(radii, stats.expon(scale=SCALE).cdf).pvalue > 1e-4
    assert stats.kstest(radii, stats.expon(scale=1.3 * SCALE).cdf).pvalue < 1e-4  # control


@pytest.mark.parametrize(
    ("event", "law"),
    [
        (Event(mechanism="gaussian", noise_multiplier=1.5, dimension=400), stats.norm(scale=1.5 * 2.0 / 8)),
        (Event(mechanism="paper", noise_multiplier=1.5, dimension=400), stats.norm(scale=1.5 * 2.0 / 8)),
        (Event(mechanism="spherical-laplace", epsilon=0.5, dimension=1), stats.laplace(scale=2 * 2.0 / 8 / 0.5)),
    ],
)
def test_a_release_has_the_noise_of_its_event(event: Event, law: stats.rv_continuous) -> None:
    """End to end, at clip_norm 2 and batch_size 8: std z C/b, and scale (2C/b)/eps."""
    plan = PrivacyPlan(event, records=100, batch_size=8)
    assert event.dimension is not None
    bounded = plan.bound(np.zeros(event.dimension, dtype=np.float32), 2.0)
    rng = stream(5, "noise")
    values = np.concatenate([plan.perturb(bounded, rng).flat for _ in range(8000 // event.dimension)])
    assert stats.kstest(values, law.cdf).pvalue > 1e-4
    assert stats.kstest(values, lambda value: law.cdf(value / 1.25)).pvalue < 1e-4  # control: a quarter off


def test_noise_is_independent_of_the_average() -> None:
    event = Event(mechanism="gaussian", noise_multiplier=1.0, dimension=50)
    plan = PrivacyPlan(event, records=100, batch_size=8)
    noises = []
    for shift in (0.0, 0.9):
        bounded = plan.bound(np.full(50, shift, dtype=np.float32), 1.0)
        noises.append(plan.perturb(bounded, stream(5, "noise")).flat - bounded.average)
    assert noises[0] == pytest.approx(noises[1], abs=1e-7)
    assert noise_of(event) is not None
