"""What an edge knows and does with it: its records, and the private gradients and probe answers made from them.

The only place where records meet the model. Downwards: draw a batch, clip and sum, charge the ledger, add noise;
nothing un-noised leaves this file. The l2 term depends on public parameters only, so it is added after the noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from common.errors import RemoteProtocolError
from common.events import Event
from common.models.spec import Inputs, Labels, ModelSpec
from common.privacy.ledger import Ledger
from common.privacy.plan import PrivacyPlan
from common.privacy.probes import ProbePlan
from common.tensors import Flat

CHUNK = 1024
"""Records looked at in one go by a probe."""


@dataclass(frozen=True)
class Shard:
    """An edge's records: what the model's `prepare` made of its inputs, and the labels."""

    inputs: Inputs
    labels: Labels

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Randomness:
    """Where batches and noise come from: two generators that nothing else draws from.

    From a recorded seed, as here, the noise can be recomputed and subtracted: that is simulated privacy. A secure
    source goes in at the same place.
    """

    sampling: np.random.Generator
    noise: np.random.Generator


@dataclass(frozen=True)
class Probes:
    """How this edge answers probes, and how many at most."""

    plan: ProbePlan
    most: int


class Learner:
    """One edge's data, model, privacy plan and ledger."""

    def __init__(
        self,
        model: ModelSpec,
        shard: Shard,
        plan: PrivacyPlan,
        ledger: Ledger,
        randomness: Randomness,
        *,
        probes: Probes | None = None,
        l2: float = 0.0,
    ) -> None:
        self.plan = plan
        self.ledger = ledger
        self.drawn = 0
        """Records drawn so far. Private: for this edge's own records only."""
        self._probes = probes
        self._answered = 0
        self._model = model
        self._shard = shard
        self._l2 = np.float32(l2)
        self._sampling, self._noise = randomness.sampling, randomness.noise

    def gradient(self, flat: Flat, clip_norm: float | None) -> tuple[Flat, Event]:
        """A released gradient at these parameters [dimension]: bounded, averaged, noised; and its event.

        Raises:
            RemoteProtocolError: the plan refuses this clip norm.
            BudgetExhausted: nothing was released.
        """
        self.plan.accept(clip_norm)
        indices = self.plan.draw(self._sampling)
        self.drawn += indices.size
        inputs, labels = self._shard.inputs[indices], self._shard.labels[indices]
        if self.plan.clip_each and clip_norm is not None:
            total = self._model.clipped_sum(flat, inputs, labels, clip_norm)
        else:
            total = self._model.gradient_sum(flat, inputs, labels)
        bounded = self.plan.bound(total, clip_norm)
        self.ledger.charge(self.plan.event)
        release = self.plan.perturb(bounded, self._noise)
        if self._l2 == 0.0:
            return release.flat, release.event
        return release.flat + self._l2 * flat, release.event

    def look(self, flat: Flat, cap: float, bound: float) -> tuple[Event, tuple[float, float]]:
        """A released answer to a probe at these parameters [dimension], and its event.

        Raises:
            RemoteProtocolError: more probes than this edge has set noise aside for.
            BudgetExhausted: nothing was released.
        """
        if self._probes is None or self._answered >= self._probes.most:
            most = 0 if self._probes is None else self._probes.most
            raise RemoteProtocolError(f"probe {self._answered + 1}: expected at most {most}")
        self._answered += 1
        losses, norms = self._through(flat, self._probes.plan.draw(self._sampling))
        self.ledger.charge(self._probes.plan.event)
        return self._probes.plan.answer(losses, norms, cap, bound, self._noise)

    def _through(self, flat: Flat, indices: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Loss and gradient norm of these records, each [drawn]."""
        losses, norms = [np.empty(0)], [np.empty(0)]
        for start in range(0, indices.size, CHUNK):
            chunk = indices[start : start + CHUNK]
            inputs, labels = self._shard.inputs[chunk], self._shard.labels[chunk]
            losses.append(self._model.losses(flat, inputs, labels))
            norms.append(self._model.norms(flat, inputs, labels))
        return np.concatenate(losses), np.concatenate(norms)
