"""Gaussian noise.

Guarantee: a vector that moves by at most `unit` (l2) when one record is added or removed, released with
N(0, (z * unit)^2) on every coordinate, is a Gaussian mechanism of noise multiplier z; when a record is replaced
it moves by up to 2 * unit, so the multiplier is z/2. The cost is the accountant's to say (`accountant`).
Symbols: z -> noise_multiplier, d -> dimension.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from common.privacy.normal import standard_normal


@dataclass(frozen=True)
class Gaussian:
    """Independent normal noise on every coordinate; `scale` is its standard deviation."""

    noise_multiplier: float

    def scale(self, unit: float) -> float:
        """Standard deviation of a coordinate where one record added or removed moves the vector by `unit`."""
        return self.noise_multiplier * unit

    def draw(self, dimension: int, scale: float, rng: np.random.Generator) -> NDArray[np.float64]:
        """A noise vector [d]."""
        noise = standard_normal(dimension, rng)
        noise *= scale
        return noise

    def second_moment(self, dimension: int, scale: float) -> float:
        """Expected squared norm: d * scale^2."""
        return dimension * scale**2

    def longest(self, dimension: int, scale: float, nats: float) -> float:
        """Norm exceeded with probability at most exp(-nats): scale * (sqrt(d) + sqrt(2 nats)).

        The squared norm over scale^2 has the chi-square law with d degrees, which exceeds d + 2 sqrt(d t) + 2t with
        probability at most exp(-t) (Laurent and Massart 2000, Lemma 1); the bound's square is larger.
        """
        return scale * (math.sqrt(dimension) + math.sqrt(2 * nats))
