"""A private look at an edge's loss: two noisy numbers for the stage controller.

Source: design of the closed-loop controller (no paper): for the model at hand, a cap B and a bound c,

    p = ( mean_i min(F_i, B)/B ,  w * mean_i 1[|grad F_i| <= c] ) + N(0, (z_q * sqrt(1 + w^2)/m)^2 I),   w = 1/2

over all n records (m = n) or over a Poisson sample of rate q (divisor m = q n), which is cheaper to compute.

Guarantee: one record contributes a point of [0, 1/m] x [0, w/m], so p moves by at most sqrt(1 + w^2)/m and one
answer is a Gaussian release of multiplier z_q, sampled at rate q. (Under replace_one the accountant halves the
multiplier, as for every Gaussian event; here that overstates the cost.)
Symbols: n -> records, F -> losses, B -> cap, c -> bound, z_q -> noise_multiplier of a probe, z -> of training,
q -> sampling_rate.

| input | result |
|---|---|
| a loss that is not finite, or above the cap | counts as the cap |
| a negative loss | counts as 0 |
| a norm that is not finite | counts as above the bound |
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.errors import ConfigError, Fault, SensitivityError
from common.events import LARGEST, SMALLEST, Event
from common.privacy import lattice
from common.privacy.noise import noise_of
from common.privacy.renyi import curve, epsilon_of
from common.privacy.sampling import SAMPLERS

WEIGHT = 0.5
"""Weight w of the share of small gradients in the answer."""

SMALLEST_SHARE = 1e-6
"""Of the budget, for probes or for training: less buys nothing."""

PURE_NOISE_MULTIPLIER = 15.0
"""Probe noise z_q beside the spherical Laplace mechanism, whose budget has no Renyi share to take."""


def answer_std(event: Event, records: int) -> float:
    """Standard deviation of the noise in each component of one edge's answer; 0 without noise."""
    noise = noise_of(event)
    return 0.0 if noise is None else noise.scale(_sensitivity(records * event.sampling_rate))


@dataclass(frozen=True)
class ProbePlan:
    """How one edge answers probes over its `records`: all of them, or a Poisson sample at the event's rate."""

    event: Event
    records: int

    @property
    def expected(self) -> float:
        """M = q n, the public divisor of the means: records in a sample, on average."""
        return self.records * self.event.sampling_rate

    def draw(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """The records of one answer."""
        return SAMPLERS[self.event.sampling](self.records, round(self.expected), rng)

    def answer(
        self, losses: NDArray[Any], norms: NDArray[Any], cap: float, bound: float, rng: np.random.Generator
    ) -> tuple[Event, tuple[float, float]]:
        """The released answer and what it costs.

        Args:
            losses: [drawn] loss of every record that was drawn.
            norms: [drawn] norm of its gradient.
            cap: loss above which a record counts as this.
            bound: norm up to which a record counts into the share.
            rng: the edge's own noise stream.

        Returns:
            The event, and (mean capped loss over cap, w * share of small gradients), both noisy.

        Raises:
            SensitivityError: not one loss and one norm for each record, or a cap that is not positive.
        """
        drawn = self.records if self.event.sampling == "all" else min(len(losses), self.records)
        for name, values in (("losses", losses), ("norms", norms)):
            if values.shape != (drawn,):
                raise SensitivityError(f"{name}: shape {values.shape}: expected ({drawn},), one for each record")
        if not (math.isfinite(cap) and cap > 0):
            raise SensitivityError(f"cap: {cap!r}: expected finite and positive")
        capped = np.clip(np.nan_to_num(losses.astype(np.float64), nan=cap, posinf=cap, neginf=0.0), 0.0, cap) / cap
        small = np.isfinite(norms) & (norms <= bound)
        query = np.array([capped.sum(), WEIGHT * small.sum()]) / self.expected
        noise = noise_of(self.event)
        if noise is not None:
            unit = _sensitivity(self.expected) * (1 + lattice.rounding_apart(self.records))
            grid = lattice.grid_below(noise.scale(unit), self.records * _sensitivity(self.expected))
            scale = noise.scale(lattice.inflated(unit, grid, query.size))
            query = lattice.add(query, noise.draw(query.size, scale / grid, rng), grid)
        return self.event, (float(query[0]), float(query[1]))


def _sensitivity(records: float) -> float:
    return math.sqrt(1 + WEIGHT**2) / records


def plan_probes(
    noise_multiplier: float,
    sampling_rate: float,
    steps: int,
    probes: int,
    share: float,
    *,
    dp_delta: float = 1e-5,
) -> tuple[float, float]:
    """Noise multipliers (training, probe) that leave the total epsilon where it was without probes.

    Probes take `share` of the whole Renyi budget at order 2, and training gets quieter by being noisier: its
    multiplier grows until the epsilon of steps and probes, by integer-order RDP, is that of the steps alone.
    This only plans; what is paid is what the ledger books.

    Args:
        noise_multiplier: z of a training step without probes.
        sampling_rate: q of a training step, in (0, 1]; 1 where no amplification is claimed.
        steps: training steps of the edge.
        probes: most probes it answers.
        share: of the budget, in (0, 1).
        dp_delta: where epsilon is held.

    Raises:
        ConfigError: an argument out of range, a dp_delta of 0 at which Gaussian probes promise nothing, or a result
            beyond what an event may hold.
    """
    check_probes(steps, probes, share, dp_delta)
    target = epsilon_of(steps * curve(sampling_rate, noise_multiplier), dp_delta)

    def with_probes(multiplier: float) -> tuple[float, float]:
        training = steps * curve(sampling_rate, multiplier)
        probe_multiplier = math.sqrt(probes * (1 - share) / (share * float(training[0])))
        return epsilon_of(training + probes * curve(1.0, probe_multiplier), dp_delta), probe_multiplier

    low, high = noise_multiplier, 2 * noise_multiplier
    while with_probes(high)[0] > target and high <= LARGEST:
        low, high = high, 2 * high
    while high - low > 1e-10 * high:
        middle = (low + high) / 2
        if with_probes(middle)[0] > target:
            low = middle
        else:
            high = middle
    planned = {"probes: training noise multiplier": high, "probes: noise multiplier": with_probes(high)[1]}
    expected = f"{SMALLEST:g} to {LARGEST:g}: other noise, probes or share"
    faults = [Fault(name, value, expected) for name, value in planned.items() if not SMALLEST <= value <= LARGEST]
    if faults:
        raise ConfigError(faults)
    return high, planned["probes: noise multiplier"]


def check_probes(steps: int, probes: int, share: float, dp_delta: float) -> None:
    """Raises ConfigError, with a fault for each argument of `plan_probes` that is out of range."""
    counts = (("steps", steps), ("probes", probes))
    faults = [Fault(f"probes: {name}", value, "at least 1") for name, value in counts if value < 1]
    if not SMALLEST_SHARE <= share <= 1 - SMALLEST_SHARE:
        faults.append(Fault("probes: share", share, f"between 0 and 1, by {SMALLEST_SHARE:g} at least"))
    if not 0 < dp_delta < 1:
        faults.append(Fault("privacy.dp_delta", dp_delta, "between 0 and 1, for probes carry Gaussian noise"))
    if faults:
        raise ConfigError(faults)
