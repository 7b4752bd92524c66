"""The law of the privacy loss of one release without sampling, as a quadrature: exact up to rounding.

For two neighbouring data sets whose noiseless releases are one shift apart, L = log p(y)/q(y) with y drawn from p.
All pairs here are mirror images of each other: under q the loss has the law of -L, so one law serves both ways.

Spherical Laplace, density ~ exp(-|y|) in R^d, shift a (in units of the noise scale). In prolate spheroidal
coordinates with the two centres as foci, v = |y| + |y - a| and t = |y - a| - |y| = L, the volume element is
proportional to (v^2 - t^2) [(v^2 - a^2)(a^2 - t^2)]^((d-3)/2) dv dt, and the density is exp(-(v - t)/2). Over v the
integral is a modified Bessel function, so the density of the loss is elementary:

    f(t) ~ exp(t/2) (a^2 - t^2)^((d-3)/2) (B + a^2 - t^2),  |t| < a,   B = 2a(d-1) K_(d/2)(a/2) / K_(d/2-1)(a/2)

which with t = a sin(angle) becomes exp(t/2) cos(angle)^(d-2) (B + a^2 cos(angle)^2), smooth up to the ends.
d = 1 is the ordinary Laplace mechanism: half of the mass at L = a, density exp((t-a)/2)/4 below, the rest at -a.

The full shift is the worst case: for log-concave noise every hockey-stick divergence grows with the shift (on each
line along the shift the loss is monotone; integrate over lines), and so do those of the subsampled pairs.

Checked against the double integral over radius and direction (`tests/reference/spherical.py`), against Monte Carlo
and, in the limit, against the Gaussian law with mean mu^2/2 and variance mu^2.

Symbols: a, mu -> shift, d -> dimension, L, t -> loss, q -> sampling_rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from common.privacy.bessel import ratio

Numbers = NDArray[np.float64]

_CELLS = 6000
_LOCATED = 20_000  # points that find where a law has its mass
_TAIL = 1e-20  # of mass that may be left out on either side, far below what the accountant adds for rounding
_DEVIATIONS = 9.5  # of a normal law: 1e-21 of its mass is further out
_POINTS, _SHARES = np.polynomial.legendre.leggauss(3)


@dataclass(frozen=True)
class Law:
    """A distribution of losses, cell by cell.

    Attributes:
        borders: [cells + 1] ascending losses.
        nodes: [cells, 3] losses inside each cell where it is sampled.
        log_weights: [cells, 3] log of the mass that each node stands for.
        atom: mass on the last border itself; its mirror image, exp(-loss) of it, lies on the first.
    """

    borders: Numbers
    nodes: Numbers
    log_weights: Numbers
    atom: float = 0.0

    def points(self) -> tuple[Numbers, Numbers]:
        """Losses and the log of the mass on each, atoms included; [points] both."""
        losses, logs = self.nodes.ravel(), self.log_weights.ravel()
        if self.atom == 0:
            return losses, logs
        ends, top = self.borders[[0, -1]], math.log(self.atom)
        return np.concatenate([losses, ends]), np.concatenate([logs, [top - ends[1], top]])


class Loss(Protocol):
    """One release without sampling: anything hashable that knows the law of its loss."""

    @property
    def shift(self) -> float:
        """How far the two centres are apart, in units of the noise."""
        ...

    def law(self, tilt: float = 0.0) -> Law:
        """The law, resolved where it has its mass and where exp(tilt * loss) puts it."""
        ...


@dataclass(frozen=True)
class GaussianLoss:
    """Normal noise on a vector that moves by `shift` standard deviations."""

    shift: float

    def law(self, tilt: float = 0.0) -> Law:
        """Normal with mean shift^2 / 2 and standard deviation shift."""
        mean = self.shift**2 / 2
        borders = _mirrored(
            mean - _DEVIATIONS * self.shift, mean + tilt * self.shift**2 + _DEVIATIONS * self.shift, _CELLS
        )
        nodes, widths = _gauss(borders)
        log_density = -(((nodes - mean) / self.shift) ** 2) / 2 - math.log(self.shift * math.sqrt(2 * math.pi))
        return Law(borders, nodes, log_density + np.log(widths))


@dataclass(frozen=True)
class SwappedGaussianLoss:
    """Normal noise and a record that Poisson sampling takes into the batch with `sampling_rate`, replaced.

    The pair A = (1-q) N(0, 1) + q N(s/2, 1) against B = (1-q) N(0, 1) + q N(-s/2, 1), s = shift: opposite directions.
    It is the worst one, for any spherically symmetric log-concave noise, with u in A and v in B no longer than s/2:
    Direction: the reflection that takes v to -u |v|/|u| leaves the origin where it is, and u and v are on one side of
    its mirror. Of two mirrored points the one on that side has more of A and more of B; reflecting v pairs the more of
    one with the less of the other, and the sum of max(0, A - xB) over both can only grow, as that is convex.
    Length: on a line along u, A/B grows, so A > xB on a half line, over which A grows with |u| and B falls with |v|.
    """

    shift: float
    sampling_rate: float

    def law(self, tilt: float = 0.0) -> Law:
        """By the point y of the line: the loss grows with it."""
        half, rate = self.shift / 2, self.sampling_rate
        end = _DEVIATIONS + tilt * self.shift
        if half > 2 * end:  # three separate hills
            points = np.concatenate([np.linspace(top - end, top + end, _CELLS // 3) for top in (-half, 0.0, half)])
        else:
            points = np.linspace(-half - end, half + end, _CELLS + 1)
        nodes, widths = _gauss(points)

        def log_mixture(place: Numbers, centre: float) -> Numbers:
            """Log of the density, times sqrt(2 pi) exp(place^2 / 2)."""
            return np.logaddexp(math.log1p(-rate), math.log(rate) + centre * place - centre**2 / 2)

        log_weights = log_mixture(nodes, half) - nodes**2 / 2 - math.log(math.sqrt(2 * math.pi)) + np.log(widths)
        losses = [log_mixture(place, half) - log_mixture(place, -half) for place in (points, nodes)]
        return Law(np.maximum.accumulate(losses[0]), losses[1], log_weights)  # level where one hill outweighs both


@dataclass(frozen=True)
class SphericalLoss:
    """Spherical Laplace noise in R^dimension, dimension >= 2, on a vector that moves by `shift` noise scales."""

    dimension: int
    shift: float

    def law(self, tilt: float = 0.0) -> Law:
        """The density above, in the angle whose sine is loss / shift."""
        square = 2 * self.shift * (self.dimension - 1) * ratio(self.dimension / 2 - 1, self.shift / 2)  # B

        def log_density(angle: Numbers) -> Numbers:
            loss, cosine = self.shift * np.sin(angle), np.maximum(np.cos(angle), 1e-300)
            return np.asarray(
                loss / 2 + (self.dimension - 2) * np.log(cosine) + np.log(square + (self.shift * cosine) ** 2)
            )

        places = np.linspace(-math.pi / 2, math.pi / 2, _LOCATED)
        low, high = _extent(places, log_density(places))
        if tilt > 0:
            high = max(high, _extent(places, log_density(places) + tilt * self.shift * np.sin(places))[1])
        angles = _mirrored(low, high, _CELLS)
        nodes, widths = _gauss(angles)
        log_weights = log_density(nodes) + np.log(widths)
        log_weights -= _log_sum(log_weights)
        return Law(self.shift * np.sin(angles), self.shift * np.sin(nodes), log_weights)


@dataclass(frozen=True)
class LaplaceLoss:
    """Laplace noise on a number that moves by `shift` noise scales: the spherical Laplace mechanism with d = 1."""

    shift: float

    def law(self, tilt: float = 0.0) -> Law:
        """Atoms at both ends, and an exponential density between them."""
        borders = self.shift * np.sin(_mirrored(-math.pi / 2, math.pi / 2, _CELLS))
        nodes, widths = _gauss(borders)
        return Law(borders, nodes, (nodes - self.shift) / 2 - math.log(4) + np.log(widths), atom=0.5)


@dataclass(frozen=True)
class PureLoss:
    """Whatever has pure epsilon `shift`: two atoms, which no such mechanism exceeds.

    Source: Kairouz, Oh and Viswanath 2015 (randomised response is the worst case).
    """

    shift: float

    def law(self, tilt: float = 0.0) -> Law:
        """All mass at the ends."""
        nothing = np.full((1, _POINTS.size), -np.inf)
        atom = 1 / (1 + math.exp(-self.shift))
        return Law(np.array([-self.shift, self.shift]), np.zeros((1, _POINTS.size)), nothing, atom)


def _gauss(borders: Numbers) -> tuple[Numbers, Numbers]:
    """Nodes [cells, 3] of the Gauss rule in every cell, and their widths."""
    half = np.diff(borders)[:, np.newaxis] / 2
    return (borders[:-1, np.newaxis] + half) + half * _POINTS, half * _SHARES


def _mirrored(low: float, high: float, cells: int) -> Numbers:
    """Borders over [low, high] and its mirror image, exactly; 0 is one, or one wide cell bridges the gap around it."""
    if low <= 0:
        side = np.linspace(0.0, max(high, -low), cells // 2 + 1)
        return np.concatenate([-side[:0:-1], side])
    side = np.linspace(low, high, cells // 2 + 1)
    return np.concatenate([-side[::-1], side])


def _extent(places: Numbers, log_density: Numbers) -> tuple[float, float]:
    """The part of `places`, evenly spread, outside which there is next to no mass on either side."""
    mass = np.exp(log_density - log_density.max())
    below, above = np.cumsum(mass), np.cumsum(mass[::-1])
    first = np.searchsorted(below, _TAIL * below[-1]) - 2
    last = places.size + 1 - np.searchsorted(above, _TAIL * above[-1])
    return float(places[max(first, 0)]), float(places[min(last, places.size - 1)])


def _log_sum(log_values: Numbers) -> float:
    top = float(log_values.max())
    return top + math.log(float(np.exp(log_values - top).sum()))
