"""How one edge makes a release: draw a batch, bound what one record can move, add noise.

Unit: one record of one edge. With per-sample clipping at C, divisor b and public n:

    query    (1/b) * sum over the batch of clip(gradient, C)      C/b for a record in or out, 2C/b for another one
    release  query + noise of a scale set by C/b, on a lattice (`lattice`), as float32

Only the public b divides, never the size of the batch that was drawn (which is private), so an empty batch is
pure noise. Under sampling "all" the batch is the shard, and b is n. n is public: "removed" means that the record
contributes nothing, while rate and divisor stay.

`algorithm.rigour: paper` runs Algorithm 1 of MAPA (arXiv 1912.07902) as printed, for comparison: the average of
unclipped gradients is clipped at C, and the spherical Laplace noise has an exponential radius. Neither gives the
privacy claimed for it; the event is "paper" and the accountant answers "not established".

Symbols: C -> clip_norm, b -> batch_size, n -> records, z -> noise_multiplier, dS = 2C/b -> sensitivity.

| input | result |
|---|---|
| clip_norm of a request that is not finite and positive, or above the edge's ceiling | RemoteProtocolError |
| empty batch, or no finite gradient in it (sum 0) | pure noise, one release |
| a sum that is not finite, or longer than n clipped gradients can make it | SensitivityError |
| mechanism none | the average, without clipping and noise; the event says so |
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from common.errors import ConfigError, Fault, RemoteProtocolError, SensitivityError
from common.events import LARGEST, SMALLEST, Event
from common.experiment import EdgePrivacy, Experiment
from common.privacy import lattice
from common.privacy.clipping import clip
from common.privacy.declaration import PARAMETERS, adjacency_of, cautions_of, find_faults
from common.privacy.noise import Noise, noise_of
from common.privacy.probes import PURE_NOISE_MULTIPLIER, ProbePlan, check_probes, plan_probes
from common.privacy.sampling import SAMPLERS
from common.tensors import Flat

_SMALLEST_CLIP, _LARGEST_CLIP = 1e-20, 1e20  # beyond, float32 cannot carry the noise
_MOST_GRAINS = 64  # clip norms remembered
_TOLERANCE = 1e-3  # of the length of a sum, which is only looked at to find mistakes


@dataclass(frozen=True)
class Bounded:
    """The average gradient [d] of one batch, and how far one record can move it (replaced: `sensitivity`)."""

    average: NDArray[np.float64]
    clip_norm: float
    sensitivity: float


@dataclass(frozen=True)
class Grain:
    """A law of noise on a lattice: the grid, and the noise's scale in steps of it."""

    noise: Noise
    grid: float
    scale: float


@dataclass(frozen=True)
class Release:
    """A vector [d] that may leave the edge, and what it costs."""

    flat: Flat
    event: Event


@dataclass(frozen=True)
class PrivacyPlan:
    """What one edge does to every training step; made by `plan_for`.

    Attributes:
        event: what one release costs.
        records: n, the records of this edge.
        batch_size: b, the divisor of the average and the (expected) size of a batch.
        dp_delta: where epsilon is stated.
        noise_multiplier_floor: the edge's own lower limit, if any.
        clip_norm_ceiling: the edge's own upper limit to what the cloud may ask for, if any.
        cautions: doubts about the declaration, for the log.
    """

    event: Event
    records: int
    batch_size: int
    dp_delta: float = 1e-5
    noise_multiplier_floor: float | None = None
    clip_norm_ceiling: float | None = None
    cautions: tuple[str, ...] = ()
    _grains: dict[float, Grain | None] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def sampling_rate(self) -> float:
        """Public rate q at which a record enters a batch."""
        return self.event.sampling_rate

    @property
    def private(self) -> bool:
        """True if anything is done to the gradient (which is not yet a guarantee: see `event`)."""
        return self.event.mechanism != "none"

    @property
    def clip_each(self) -> bool:
        """True if `bound` expects a sum of gradients each clipped at clip_norm; otherwise a plain sum."""
        return self.event.mechanism in ("gaussian", "spherical-laplace")

    @property
    def rounding_allowance(self) -> float:
        """How much further than C one record can move the average because float64 rounds it, as a share of C/b.

        For the largest batch, which under Poisson sampling is all records. No part of the literal reading, which
        promises nothing.
        """
        return lattice.rounding_apart(self._largest_batch()) if self.clip_each else 0.0

    def draw(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """The records of one step; empty batches happen under Poisson sampling."""
        return SAMPLERS[self.event.sampling](self.records, self.batch_size, rng)

    def accept(self, clip_norm: float | None) -> None:
        """Checks a bound that the cloud asks for.

        Raises:
            RemoteProtocolError: not finite, not positive, too extreme for float32, or above the edge's ceiling.
        """
        if not self.private:
            return
        if clip_norm is None or not (math.isfinite(clip_norm) and _SMALLEST_CLIP <= clip_norm <= _LARGEST_CLIP):
            expected = f"a number from {_SMALLEST_CLIP:g} to {_LARGEST_CLIP:g}"
            raise RemoteProtocolError(f"clip_norm: {clip_norm!r}: expected {expected}")
        if self.clip_norm_ceiling is not None and clip_norm > self.clip_norm_ceiling:
            raise RemoteProtocolError(f"clip_norm: {clip_norm!r}: expected at most {self.clip_norm_ceiling} (ceiling)")

    def bound(self, total: NDArray[np.floating], clip_norm: float | None) -> Bounded:
        """The average of a batch whose gradients sum to `total`.

        Args:
            total: [d] sum over the batch, of clipped gradients if `clip_each`, else of plain ones.
            clip_norm: the bound that was (or, for the literal reading, is to be) clipped at.

        Raises:
            RemoteProtocolError: as `accept`.
            SensitivityError: wrong shape, not finite, or longer than a sum of clipped gradients can be.
        """
        self.accept(clip_norm)
        if total.shape != (self.event.dimension,):
            raise SensitivityError(f"sum of gradients: shape {total.shape}: expected ({self.event.dimension},)")
        # the reciprocal, as a division of each number takes three times as long
        average = total.astype(np.float64, copy=False) * (1.0 / self.batch_size)
        norm = math.sqrt(average.dot(average))
        if not math.isfinite(norm):
            raise SensitivityError("sum of gradients: not finite: expected finite numbers")
        if not self.private or clip_norm is None:
            return Bounded(average, math.inf, math.inf)
        if not self.clip_each:
            return Bounded(clip(average, clip_norm), clip_norm, 2 * clip_norm / self.batch_size)
        most = self._longest(clip_norm)
        if norm > most:
            # the norm itself is private, and the text of an error may travel
            raise SensitivityError(f"average of clipped gradients: longer than possible: expected at most {most:g}")
        return Bounded(average, clip_norm, 2 * clip_norm / self.batch_size)

    def perturb(self, bounded: Bounded, rng: np.random.Generator) -> Release:
        """The release made of a bounded average: noise in float64 on a lattice, then float32.

        The noise pays for the rounding of the average and of the sum behind it (`rounding_allowance`).
        """
        grain = self.grain(bounded.clip_norm)
        if grain is None:
            return Release(bounded.average.astype(np.float32), self.event)
        steps = grain.noise.draw(bounded.average.size, grain.scale, rng)
        return Release(lattice.add(bounded.average, steps, grain.grid).astype(np.float32), self.event)

    def grain(self, clip_norm: float) -> Grain | None:
        """The noise of releases at this clip norm and the lattice that they lie on; None without noise."""
        if clip_norm not in self._grains:
            if len(self._grains) >= _MOST_GRAINS:
                self._grains.clear()
            self._grains[clip_norm] = self._grain(clip_norm)
        return self._grains[clip_norm]

    def _grain(self, clip_norm: float) -> Grain | None:
        noise = noise_of(self.event)
        if noise is None:
            return None
        assert self.event.dimension is not None  # as `plan_for` makes it, and `bound` checks it
        unit = clip_norm / self.batch_size * (1 + self.rounding_allowance)
        grid = lattice.grid_below(noise.scale(unit), self._longest(clip_norm))
        scale = noise.scale(lattice.inflated(unit, grid, self.event.dimension))
        return Grain(noise, grid, scale / grid)

    def with_noise_multiplier(self, noise_multiplier: float) -> PrivacyPlan:
        """The same plan with another Gaussian noise.

        Raises:
            ConfigError: the mechanism has no noise multiplier, or this one is out of range or below the floor.
        """
        if self.event.noise_multiplier is None:
            raise ConfigError(Fault("privacy.mechanism", self.event.mechanism, "gaussian, to set a noise multiplier"))
        floor = self.noise_multiplier_floor or 0.0
        if not (SMALLEST <= noise_multiplier <= LARGEST and noise_multiplier >= floor):
            expected = f"from {SMALLEST:g} to {LARGEST:g} and at least the floor, {floor}"
            raise ConfigError(Fault("privacy.noise_multiplier", noise_multiplier, expected))
        return replace(self, event=self.event.model_copy(update={"noise_multiplier": noise_multiplier}))

    def with_probes(
        self, steps: int, probes: int, share: float, sample: int | None = None
    ) -> tuple[PrivacyPlan, ProbePlan]:
        """This plan with room for up to `probes` probes over `steps` steps, and the plan of the probes.

        Gaussian training gets noisier so that the total stays (`plan_probes`); the spherical Laplace mechanism
        keeps its epsilon and the probes come on top. Without privacy the answers are exact. A probe looks at a Poisson
        sample of about `sample` records where there are more; what the sampling saves is not spent elsewhere.

        Raises:
            ConfigError: as `plan_probes`.
        """
        multiplier = self.event.noise_multiplier
        if multiplier is None:
            if self.private:
                check_probes(steps, probes, share, self.dp_delta)
            return self, self.probe_plan(PURE_NOISE_MULTIPLIER if self.private else None, sample)
        rate = self.sampling_rate if self.event.sampling == "poisson" else 1.0
        training, probe = plan_probes(multiplier, rate, steps, probes, share, dp_delta=self.dp_delta)
        return self.with_noise_multiplier(training), self.probe_plan(probe, sample)

    def probe_plan(self, noise_multiplier: float | None, sample: int | None) -> ProbePlan:
        """The plan of probes with this noise, over a Poisson sample of about `sample` records where there are more."""
        is_sampled = sample is not None and sample < self.records
        event = Event(
            mechanism="none" if noise_multiplier is None else "gaussian",
            noise_multiplier=noise_multiplier,
            dimension=2,
            sampling="poisson" if is_sampled else "all",
            sampling_rate=sample / self.records if sample is not None and is_sampled else 1.0,
            adjacency=self.event.adjacency,
        )
        return ProbePlan(event, self.records)

    def _longest(self, clip_norm: float) -> float:
        """How long an average of clipped gradients can be: public, and never reached but by a mistake."""
        return (1 + _TOLERANCE) * clip_norm * self._largest_batch() / self.batch_size

    def _largest_batch(self) -> int:
        return self.records if self.event.sampling == "poisson" else self.batch_size


def plan_for(
    experiment: Experiment, edge: str, records: int, dimension: int, *, strength: float | None = None
) -> PrivacyPlan:
    """The plan of `edge`, which holds `records` records, for a model of `dimension` parameters.

    Args:
        experiment: what is declared.
        edge: its id.
        records: how many it holds.
        dimension: parameters of the model.
        strength: where a target is declared, the noise multiplier or epsilon that follows from it (`target`).

    Raises:
        ConfigError: one fault for each thing that is wrong with the declaration.
    """
    faults = list(find_faults(experiment, edge, records))
    target = experiment.privacy_of(edge).target_epsilon
    if (target is None) != (strength is None):
        faults.append(Fault("privacy.target_epsilon", target, "together with noise that was calibrated for it"))
    if faults:
        raise ConfigError(faults)
    privacy, own = experiment.privacy, experiment.privacy_of(edge)
    if strength is not None:
        own = EdgePrivacy.model_validate({PARAMETERS[privacy.mechanism]: strength})
    literal = experiment.algorithm.rigour == "paper" and privacy.mechanism != "none"
    batch_size = records if privacy.sampling == "all" else experiment.algorithm.batch_size
    event = Event(
        mechanism="paper" if literal else privacy.mechanism,
        noise_multiplier=own.noise_multiplier,
        epsilon=own.epsilon,
        dimension=dimension,
        sampling=privacy.sampling,
        sampling_rate=batch_size / records,
        adjacency=adjacency_of(privacy),
    )
    return PrivacyPlan(
        event=event,
        records=records,
        batch_size=batch_size,
        dp_delta=privacy.dp_delta,
        noise_multiplier_floor=privacy.noise_multiplier_floor,
        clip_norm_ceiling=privacy.clip_norm_ceiling,
        cautions=cautions_of(experiment, edge, records, dimension),
    )
