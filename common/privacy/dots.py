"""A privacy loss on finitely many points, never below the law it stands for; and what sampling makes of it.

Connect the Dots: the mass m of a loss x between two points t and t' is shared out so that the mass and the mass
times exp(-loss) stay,

    to t'   m (1 - exp(t - x)) / (1 - exp(t - t'))        to t   the rest

so the profile delta(epsilon) is exact at every point and its chord, which is above it, in between. Dots therefore
dominate the law, and dots of dots dominate the dots. Sampling turns dominating pairs into dominating pairs:

    poisson, the record removed    (1-q) p + q p'  against  p        loss log(1 - q + q exp(L))
    poisson, the record added      p  against  (1-q) p + q p'        loss -log(1 - q + q exp(-L))
    fixed size, a record replaced  H_(1+q(x-1)) <= q H_x for x >= 1, and H_x(A, B) = 1 - x + x H_(1/x)(B, A) below:
                                   the first loss where L > 0, its mirror image, and the rest of the mass at 0

The last one holds for Poisson sampling with a record replaced as well: both pairs share the part without the record.

Symbols: q -> rate, L -> loss.
Source: Doroshenko et al. 2022 (Connect the Dots); Balle, Barthe and Gaboardi 2018 (advanced joint convexity);
Zhu, Dong and Wang 2022 (dominating pairs); Lebeda et al. 2024 (both directions).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from common.privacy.losses import Law, Numbers


@dataclass(frozen=True)
class Dots:
    """Mass on losses.

    Attributes:
        losses: [dots] ascending.
        masses: [dots] probability of each, where the loss is that of the distribution drawn from.
        infinite: probability of an infinite loss.
    """

    losses: Numbers
    masses: Numbers
    infinite: float = 0.0

    @property
    def mean(self) -> float:
        """Mean of the finite losses: the Kullback-Leibler divergence."""
        return float(self.masses @ self.losses)

    @property
    def mean_square(self) -> float:
        """Mean square of the finite losses."""
        return float(self.masses @ np.square(self.losses))

    @property
    def largest(self) -> float:
        """The largest finite loss of any mass, up or down."""
        held = self.losses[self.masses > 0]
        return float(max(held[-1], -held[0]))


def connect(law: Law) -> Dots:
    """Dots on the borders of the law."""
    share = _share(law.nodes - law.borders[:-1, np.newaxis], np.diff(law.borders)[:, np.newaxis])
    weights = np.exp(law.log_weights)
    masses = np.zeros(law.borders.size)
    masses[1:] += (weights * share).sum(axis=1)
    masses[:-1] += (weights * (1 - share)).sum(axis=1)
    masses[-1] += law.atom
    masses[0] += law.atom * math.exp(-min(law.borders[-1], 700.0))
    return Dots(law.borders, masses, max(0.0, 1 - math.fsum(masses)))


def trimmed(dots: Dots, tail: float) -> Dots:
    """Without the outermost dots: up to `tail` of mass goes to an infinite loss, and as much up to the lowest kept."""
    first = int(np.searchsorted(np.cumsum(dots.masses), tail, side="right"))
    last = dots.masses.size - int(np.searchsorted(np.cumsum(dots.masses[::-1]), tail, side="right"))
    masses = dots.masses[first:last].copy()
    masses[0] += dots.masses[:first].sum()
    return Dots(dots.losses[first:last], masses, dots.infinite + float(dots.masses[last:].sum()))


def on_grid(dots: Dots, interval: float) -> tuple[int, Numbers]:
    """The same mass on whole multiples of `interval`: the first multiple, and the mass on it and on those above."""
    below = np.floor(dots.losses / interval)
    up = dots.masses * _share(dots.losses - below * interval, interval)
    first = int(below[0])
    index = below.astype(np.int64) - first
    masses = np.zeros(int(index[-1]) + 2)
    masses[1:] = np.bincount(index, up)
    masses[:-1] += np.bincount(index, dots.masses - up)
    return first, masses


def removed(dots: Dots, rate: float) -> Dots:
    """What Poisson sampling at `rate` leaves of the loss if the record is in the first of the two data sets."""
    without = dots.masses * np.exp(-dots.losses.clip(-700.0))
    masses = (1 - rate) * without + rate * dots.masses
    # Where only the other distribution has mass the loss is log(1 - q): raised to the lowest of the dots.
    masses[0] += (1 - rate) * max(0.0, 1 - math.fsum(without))
    return Dots(amplified(dots.losses, rate), masses, rate * dots.infinite)


def added(dots: Dots, rate: float) -> Dots:
    """The same if the record is in the second of the two data sets."""
    return Dots(-amplified(-dots.losses, rate), dots.masses, dots.infinite)


def replaced(dots: Dots, rate: float) -> Dots:
    """What a batch of fixed size leaves of it, for a record replaced that is in the batch with probability `rate`.

    The dots are those of a law that is its own mirror image.
    """
    above = dots.losses > 0
    base, masses = dots.losses[above], dots.masses[above]
    losses = amplified(base, rate)
    mirrored = masses * np.exp(-base)
    masses = (1 - rate) * mirrored + rate * masses
    infinite = rate * dots.infinite
    middle = max(0.0, 1 - math.fsum(masses) - math.fsum(mirrored) - infinite)
    return Dots(
        np.concatenate([-losses[::-1], [0.0], losses]), np.concatenate([mirrored[::-1], [middle], masses]), infinite
    )


def amplified(losses: Numbers, rate: float) -> Numbers:
    """log(1 - q + q exp(loss)), exact for small ones and without overflow for large ones."""
    small = np.log1p(rate * np.expm1(losses.clip(-50.0, 50.0)))
    other = np.logaddexp(math.log1p(-rate), math.log(rate) + losses)
    return np.where(np.abs(losses) < 50, small, other)


def _share(above: Numbers, width: Numbers | float) -> Numbers:
    """The part that goes to the upper point, of a loss that is `above` the lower one; the points are `width` apart."""
    most = -np.expm1(-np.asarray(width))
    shared = -np.expm1(-np.clip(above, 0.0, width))
    zero = np.zeros_like(shared)  # no width: the points are one
    return np.asarray(np.divide(shared, most, out=zero, where=most > 0))
