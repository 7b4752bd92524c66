"""How long an update can be that an honest edge sends: a bound that it breaks once in 10^13 updates.

Source: this project's; the laws are those of `common.privacy`.
Symbols: C -> clip_norm, b -> batch_size, n -> records, d -> dimension, x -> parameters, t -> NATS.

An honest update is the average of clipped gradients, its noise, and the gradient of the penalty on the parameters. By
the triangle inequality its norm is at most

    C * B / b  +  R  +  l2 * |x|          B: records in the batch; R: norm of the noise, of a scale set by C/b

    B  b, except under Poisson sampling, where B is binomial with mean b: more than b + sqrt(2 b t) + t/3 with
       probability at most exp(-t) (Bernstein), and never more than n. The literal reading clips the average: B = b.
    R  `Noise.longest`: Gaussian s * (sqrt(d) + sqrt(2t)), spherical Laplace lam * (d + sqrt(2 d t) + t).

With t = 32 both tails together have 2 exp(-32) < 3e-14. The rest, a thousandth, is for what is not exact: the lattice,
whose grid is 2^-30 of the noise's scale, the rounding allowance, float32.

Where nothing is clipped (mechanism none) a gradient can have any length, and so can an honest update: no bound exists,
and none is made up. `algorithm.cloud.longest_update` sets one.

The bound holds for the noise that the edge declared. So that it means something, and so that no edge alone slows the
whole run down (MAPA's rates follow the strongest noise), the cloud takes no noise beyond `algorithm.cloud.noisiest`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from common.events import Event
from common.messages import Answer, Model
from common.privacy.noise import noise_of
from common.privacy.probes import WEIGHT, answer_std
from common.tensors import Flat

NATS = 32.0
"""Minus the logarithm of the probability with which an honest edge breaks one of the bounds."""
_SLACK, _ROUNDING = 1.001, 1e-6


@dataclass(frozen=True)
class Reach:
    """The bounds of one run. `batch_size`: b, None where a batch is all records; `l2`: of the penalty.

    `longest_update`: a bound that the experiment sets, which counts where it is lower.
    """

    batch_size: int | None
    l2: float = 0.0
    longest_update: float | None = None

    def of(self, event: Event, records: int, model: Model) -> float | None:
        """Norm of an honest update at most, made at this model by an edge with these records; None: no bound."""
        longest = math.inf if self.longest_update is None else self.longest_update
        if event.mechanism != "none" and model.directive.clip_norm is not None:
            released = _released(event, model.directive.clip_norm, self.batch_size or records, records)
            penalty = self.l2 * norm_of(model.tensors.flat) if self.l2 else 0.0
            longest = min(longest, _SLACK * (released + penalty))
        return longest if longest < math.inf else None


@lru_cache(maxsize=4096)
def _released(event: Event, clip_norm: float, batch_size: int, records: int) -> float:
    noise, unit = noise_of(event), clip_norm / batch_size
    assert noise is not None  # only "none" has none
    assert event.dimension is not None  # as `Admission` demands it
    is_random = event.sampling == "poisson" and event.mechanism != "paper"
    largest = _most_drawn(batch_size, records) if is_random else batch_size
    return unit * largest + noise.longest(event.dimension, noise.scale(unit), NATS)


def _most_drawn(expected: float, records: int) -> float:
    """Records in a Poisson sample at most."""
    return max(expected, min(records, expected + math.sqrt(2 * expected * NATS) + NATS / 3))


def fault_of_update(flat: Flat, reach: float | None) -> str | None:
    """What is wrong with the length of an update [d], in words; None if an honest edge can have made it."""
    if reach is None or (length := norm_of(flat)) <= reach:
        return None
    return f"norm of the update {length:.6g}: expected at most {reach:.6g}"


def fault_of_answer(answer: Answer, records: int) -> str | None:
    """What is wrong with a probe's answer: means over a sample, of up to 1 and `WEIGHT` a record, and normal noise."""
    event = answer.event
    expected = records * event.sampling_rate
    if expected < 1 - _ROUNDING:
        return f"sampling_rate {event.sampling_rate:g}: expected one record of {records} at least"
    noise = answer_std(event, records) * math.sqrt(2 * NATS)
    share = _most_drawn(expected, records) / expected if event.sampling == "poisson" else 1.0
    for value, whole in zip(answer.values, (share, WEIGHT * share), strict=True):
        if not -noise - _ROUNDING <= value <= whole + noise + _ROUNDING:
            return f"value {value:.6g}: expected from {-noise:.6g} to {whole + noise:.6g}"
    return None


def fault_of_noise(event: Event, noisiest: Mapping[str, float]) -> str | None:
    """What is wrong with the noise that an edge declares; `noisiest`: the bounds on what tells its strength."""
    multiplier, epsilon = noisiest.get("noise_multiplier", math.inf), noisiest.get("epsilon", 0.0)
    if event.noise_multiplier is not None and event.noise_multiplier > multiplier:
        return f"noise_multiplier {event.noise_multiplier:g}: expected at most {multiplier:g}"
    if event.epsilon is not None and event.epsilon < epsilon:
        return f"epsilon {event.epsilon:g}: expected at least {epsilon:g}"
    return None


def norm_of(flat: Flat) -> float:
    """The norm of a finite vector, which may be larger than float32 holds."""
    square = float(np.vdot(flat, flat))  # which, other than `dot`, overflows without a warning
    if math.isfinite(square):
        return math.sqrt(square)
    whole = flat.astype(np.float64)
    return math.sqrt(float(whole.dot(whole)))
