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
from common.models.spec import Inputs, Labels, ModelSpec, Sum
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

    `simulated`: they follow from a recorded seed, so that whoever has it can draw the noise again and subtract it.
    """

    sampling: np.random.Generator
    noise: np.random.Generator
    simulated: bool = True


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
        self.simulated = randomness.simulated and plan.private
        """What it releases is private only for those who do not have the seed."""
        self.drawn = 0
        """Records drawn so far. Private: for this edge's own records only."""
        self._probes = probes
        self._model = model
        self._shard = shard
        self._l2 = np.float32(l2)
        self._sampling, self._noise = randomness.sampling, randomness.noise

    def gradient(self, flat: Flat, clip_norm: float | None, ticket: int = 0) -> tuple[Flat, Event]:
        """A released gradient at these parameters [dimension]: bounded, averaged, noised; and its event.

        Args:
            flat: the parameters.
            clip_norm: the bound that the cloud asks for.
            ticket: the work that this answers, for the ledger.

        Raises:
            RemoteProtocolError: the plan refuses this clip norm.
            BudgetExhausted, LedgerError: nothing was released.
        """
        self.plan.accept(clip_norm)
        indices = self.plan.draw(self._sampling)
        self.drawn += indices.size
        inputs, labels = self._shard.inputs[indices], self._shard.labels[indices]
        if self.plan.clip_each and clip_norm is not None:
            total: Sum | Flat = self._model.clipped_sum(flat, inputs, labels, clip_norm)
        else:
            total = self._model.gradient_sum(flat, inputs, labels)
        bounded = self.plan.bound(total, clip_norm)
        self.ledger.charge(self.plan.event, ticket)
        release = self.plan.perturb(bounded, self._noise)
        if self._l2 == 0.0:
            return release.flat, release.event
        return release.flat + self._l2 * flat, release.event

    def look(self, flat: Flat, cap: float, bound: float, ticket: int = 0) -> tuple[Event, tuple[float, float]]:
        """A released answer to a probe at these parameters [dimension], and its event.

        Raises:
            RemoteProtocolError: more probes in this run than this edge has set noise aside for.
            BudgetExhausted, LedgerError: nothing was released.
        """
        if self._probes is None:
            raise RemoteProtocolError("probe: expected at most 0, for no noise was set aside for any")
        if (answered := self._answered(self._probes.plan)) >= self._probes.most:
            raise RemoteProtocolError(f"probe {answered + 1}: expected at most {self._probes.most}")
        losses, norms = self._through(flat, self._probes.plan.draw(self._sampling))
        self.ledger.charge(self._probes.plan.event, ticket)
        return self._probes.plan.answer(losses, norms, cap, bound, self._noise)

    def _answered(self, plan: ProbePlan) -> int:
        """Probes answered in this run, by earlier processes of this edge too, by what the ledger holds of them."""
        size, update = plan.event.dimension, self.plan.event
        return sum(count for event, count in self.ledger.events.items() if event.dimension == size and event != update)

    def _through(self, flat: Flat, indices: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Loss and gradient norm of these records, each [drawn]."""
        losses, norms = [np.empty(0)], [np.empty(0)]
        for start in range(0, indices.size, CHUNK):
            chunk = indices[start : start + CHUNK]
            inputs, labels = self._shard.inputs[chunk], self._shard.labels[chunk]
            losses.append(self._model.losses(flat, inputs, labels))
            norms.append(self._model.norms(flat, inputs, labels))
        return np.concatenate(losses), np.concatenate(norms)
