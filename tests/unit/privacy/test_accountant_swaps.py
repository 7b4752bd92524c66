"""A record replaced that Poisson sampling takes into the batch or not: the worst pair, in the plane."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from common.privacy.dots import connect, replaced
from common.privacy.losses import GaussianLoss, SphericalLoss, SwappedGaussianLoss

Plane = NDArray[np.float64]

SIDE = np.linspace(-26.0, 26.0, 700)
ACROSS, ALONG = np.meshgrid(SIDE, SIDE)


def gaussian(across: float, along: float) -> Plane:
    return np.asarray(np.exp(-((ACROSS - across) ** 2 + (ALONG - along) ** 2) / 2) / (2 * math.pi))


def laplace(across: float, along: float) -> Plane:
    return np.asarray(np.exp(-np.hypot(ACROSS - across, ALONG - along)) / (2 * math.pi))


def leak(
    noise: Callable[[float, float], Plane], rate: float, half: float, other: tuple[float, float], *, epsilon: float
) -> float:
    """The delta at `epsilon` of a contribution (half, 0) against another: of a length, in halves, and an angle."""
    length, angle = other
    without = (1 - rate) * noise(0.0, 0.0)
    one = without + rate * noise(half, 0.0)
    two = without + rate * noise(length * half * math.cos(angle), length * half * math.sin(angle))
    return float(np.maximum(one - math.exp(epsilon) * two, 0.0).sum() * (SIDE[1] - SIDE[0]) ** 2)


@pytest.mark.parametrize("noise", [gaussian, laplace])
@pytest.mark.parametrize(("half", "rate"), [(0.5, 0.3), (1.5, 0.05), (2.5, 0.6)])
def test_the_worst_replacement_is_the_opposite_one(
    noise: Callable[[float, float], Plane], half: float, rate: float
) -> None:
    loss = GaussianLoss(2 * half) if noise is gaussian else SphericalLoss(2, 2 * half)
    bound = replaced(connect(loss.law()), rate)
    pairs = [connect(SwappedGaussianLoss(2 * half, rate).law())] if noise is gaussian else []
    for epsilon in (0.0, rate * half):
        worst = leak(noise, rate, half, (1.0, math.pi), epsilon=epsilon)
        for other in ((1.0, 0.7 * math.pi), (1.0, 0.4 * math.pi), (0.6, math.pi), (0.0, 0.0)):
            assert leak(noise, rate, half, other, epsilon=epsilon) < worst
        for dots, is_exact in [(bound, False)] + [(pair, True) for pair in pairs]:
            above = dots.losses > epsilon
            promised = -float(dots.masses[above] @ np.expm1(epsilon - dots.losses[above]))
            assert promised >= worst * (1 - 1e-3)
            assert not is_exact or promised == pytest.approx(worst, rel=1e-3)
