"""Spherical Laplace noise: joint density on R^d proportional to exp(-|y| / lam).

Guarantee: with lam = 2 * unit / eps, a vector that moves by at most 2 * unit (l2) when one record is replaced is
released with pure eps-differential privacy, because the log density changes by at most the shift over lam.
A record added or removed moves it half as far and costs eps/2.
Source: Chaudhuri, Monteleoni and Sarwate 2011; Hardt and Talwar 2010; Theorem 1 of MAPA (arXiv 1912.07902).
Symbols: eps -> epsilon, lam -> scale, d -> dimension.
Deviation: the MAPA paper gives the density above, then the radius and the second moment of its one-dimensional
case. The density has a radius of law Gamma(d, lam) and second moment d(d+1) lam^2; the literal radius is
exponential with second moment 2 lam^2 and gives no guarantee for d > 1 (`ExponentialRadius`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from common.privacy.normal import standard_normal


@dataclass(frozen=True)
class SphericalLaplace:
    """Noise of uniform direction and Gamma(d, scale) radius."""

    epsilon: float

    def scale(self, unit: float) -> float:
        """The density's scale where one record replaced moves the vector by at most 2 * `unit`."""
        return 2.0 * unit / self.epsilon

    def draw(self, dimension: int, scale: float, rng: np.random.Generator) -> NDArray[np.float64]:
        """A noise vector [d]: scale * sqrt(v) * g, g standard normal in R^d.

        exp(-|y|) is a mixture of centred normals whose variance v has the chi-square law with d+1 degrees.
        """
        noise = standard_normal(dimension, rng)
        noise *= scale * math.sqrt(rng.chisquare(dimension + 1))
        return noise

    def second_moment(self, dimension: int, scale: float) -> float:
        """Expected squared norm: d (d+1) scale^2."""
        return dimension * (dimension + 1) * scale**2

    def longest(self, dimension: int, scale: float, nats: float) -> float:
        """Norm exceeded with probability at most exp(-nats): scale * (d + sqrt(2 d nats) + nats).

        The radius over scale has the law Gamma(d, 1), which exceeds d + sqrt(2 d t) + t with probability at most
        exp(-t) (Boucheron, Lugosi and Massart 2013, section 2.4: sub-gamma with variance d and scale 1).
        """
        return scale * (dimension + math.sqrt(2 * dimension * nats) + nats)


@dataclass(frozen=True)
class ExponentialRadius:
    """The literal reading of the paper, for comparison only: no privacy guarantee for d > 1.

    Its density in space behaves like |y|^(1-d) at the true value, so the privacy loss is unbounded.
    """

    epsilon: float

    def scale(self, unit: float) -> float:
        """Mean radius."""
        return 2.0 * unit / self.epsilon

    def draw(self, dimension: int, scale: float, rng: np.random.Generator) -> NDArray[np.float64]:
        """A noise vector [d] of uniform direction and exponential radius of mean `scale`."""
        noise = standard_normal(dimension, rng)
        noise *= rng.exponential(scale) / math.sqrt(float(noise @ noise))
        return noise

    def second_moment(self, dimension: int, scale: float) -> float:
        """Expected squared norm: 2 scale^2, whatever the dimension."""
        return 2.0 * scale**2

    def longest(self, dimension: int, scale: float, nats: float) -> float:
        """Norm exceeded with probability exp(-nats): scale * nats, whatever the dimension."""
        return scale * nats
