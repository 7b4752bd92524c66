"""The arithmetic of a stage: variance of an update, damping, learning rate, length.

Source: Liu et al., "Multi-stage asynchronous federated learning with adaptive differential privacy" (MAPA),
    arXiv 1912.07902, Theorem 3 and Equations 13-16; `docs/algorithms/mapa.md` has the derivation.

Symbols: dS -> sensitivity, C -> clip_norm, b -> batch_size, sigma -> gradient_std, Delta_b -> variance,
    kappa -> noise_energy (E|noise|^2 = kappa * dS^2), P -> damping, L -> smoothness, tau -> staleness,
    theta -> clip_factor, f(x1) - f* -> gap, T and T_s -> length, gamma -> learning rate.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

_ENDLESS = 1e18  # updates: no run is longer


def sensitivity_of(clip_norm: float, batch_size: int) -> float:
    """The sensitivity dS = 2 C / b: how far one replaced record moves an average of clipped gradients."""
    return 2.0 * clip_norm / batch_size


def first_sensitivity(gradient_std: float, batch_size: int, tail: float) -> float:
    """The first sensitivity of Theorem 3: the dS that solves (1 - 4 sigma^2 / (b dS)^2)^2 = 1 - tail.

    It is a rule for the first clip norm (C = b dS / 2), not a privacy guarantee: its probability `tail` is over
    the data, not over the mechanism.
    """
    share = tail / (1.0 + math.sqrt(1.0 - tail))  # 1 - sqrt(1 - tail), for a small tail as well
    return 2.0 * gradient_std / (batch_size * math.sqrt(share))


def variance_of(
    clip_norm: float, gradient_std: float, batch_size: int, noise_energy: float, averaged: int = 1
) -> float:
    """Delta_b = sigma^2 / b + kappa dS^2, of a step that averages `averaged` updates."""
    noise = noise_energy * sensitivity_of(clip_norm, batch_size) ** 2
    return (gradient_std**2 / batch_size + noise) / averaged


@dataclass(frozen=True)
class Stage:
    """One stretch of a run: its number (from 1), the clip norm its edges use, and the rate of its updates."""

    number: int
    clip_norm: float
    variance: float
    damping: float
    learning_rate: float
    length: float


@dataclass(frozen=True)
class Ground:
    """The constants of a run on which its stages are built.

    Attributes:
        batch_size: records behind one update.
        noise_energy: E|noise|^2 over sensitivity^2.
        staleness: bound on the staleness of an update.
        smoothness: of the loss.
        gap: first loss above the lowest.
        gradient_std: of a per-sample gradient.
        is_clipped_std: whether clipping bounds `gradient_std` too (it does; the paper leaves it out).
        averaged: updates averaged into one step.
    """

    batch_size: int
    noise_energy: float
    staleness: float
    smoothness: float
    gap: float
    gradient_std: float
    is_clipped_std: bool = True
    averaged: int = 1

    def variance(self, clip_norm: float) -> float:
        """Delta_b of a step whose per-sample gradients are clipped to `clip_norm`."""
        gradient_std = min(self.gradient_std, clip_norm) if self.is_clipped_std else self.gradient_std
        return variance_of(clip_norm, gradient_std, self.batch_size, self.noise_energy, self.averaged)

    def literal(self, number: int, clip_norm: float, clip_factor: float) -> Stage:
        """The paper's stage: P from Equation 16, then the rate (13) and the length (15) that go with it.

        P = max(1, 8 Delta_b / ((tau + 1) b^2 dS^2 theta^2)), T_s = ceil(4 P^2 L (tau + 1)^2 gap / Delta_b).
        """
        variance = self.variance(clip_norm)
        spread = (self.batch_size * sensitivity_of(clip_norm, self.batch_size) * clip_factor) ** 2
        damping = max(1.0, 8.0 * variance / ((self.staleness + 1.0) * spread))
        length = 4.0 * damping * damping * self.smoothness * (self.staleness + 1.0) ** 2 * self.gap / variance
        return self._stage(number, clip_norm, variance, damping, max(1.0, math.ceil(min(length, _ENDLESS))))

    def fitted(self, number: int, clip_norm: float, length: float) -> Stage:
        """Equation 15 read backwards: the stage whose P makes it `length` updates long, P at least 1."""
        variance = self.variance(clip_norm)
        scale = 4.0 * self.smoothness * (self.staleness + 1.0) ** 2 * self.gap
        return self._stage(number, clip_norm, variance, max(1.0, math.sqrt(length * variance / scale)), length)

    def _stage(self, number: int, clip_norm: float, variance: float, damping: float, length: float) -> Stage:
        """With the rate of Equation 13, 1 / (2 P L (tau + 1))."""
        learning_rate = 1.0 / (2.0 * damping * self.smoothness * (self.staleness + 1.0))
        return Stage(number, clip_norm, variance, damping, learning_rate, length)


def stage_lengths(updates: int, stages: int) -> tuple[int, ...]:
    """`updates` cut into stages of lengths about 1 : 2 : 4 ...; stages that would be empty are left out."""
    lengths, left = [], updates
    for remaining in range(stages, 0, -1):
        lengths.append(left // (2**remaining - 1))
        left -= lengths[-1]
    return tuple(length for length in lengths if length)


def even_lengths(updates: int, segments: int) -> tuple[int, ...]:
    """`updates` cut into as many equal pieces (but for one update), none of them empty."""
    ends = [updates * piece // segments for piece in range(segments + 1)]
    return tuple(end - begin for begin, end in itertools.pairwise(ends) if end > begin)
