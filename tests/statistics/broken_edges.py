"""Edges to audit: one of toy size with any plan, and edges that are broken in the ways the audit has to find."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np

from common.events import Event
from common.experiment import ModelChoice
from common.models import build_model
from common.privacy.ledger import Ledger
from common.privacy.plan import Bounded, PrivacyPlan, Release
from common.tensors import Flat
from edge.algorithms.asynchronous import Settings
from edge.build import Holding
from edge.learner import Learner, Randomness, Shard
from edge.owner import Owner
from lab.attacks.trials import Build


def toy(event: Event, records: int, batch_size: int, features: int = 0, label: int | None = None) -> Holding:
    """Logistic regression on so many features (0: a single parameter), all records of one label or in turn."""
    model = build_model(ModelChoice(name="logistic"), (features,), 2)
    raw = np.random.default_rng(1).normal(size=(records, features)).astype(np.float32)
    labels = np.arange(records) % 2 if label is None else np.full(records, label)
    own = event.model_copy(update={"dimension": model.layout.size, "sampling_rate": batch_size / records})
    plan = PrivacyPlan(own, records, batch_size)
    owner = Owner.of("edge-0001", "toy", raw, labels)
    return Holding(Settings(), model, Shard(model.prepare(raw, 1.0), labels), plan, None, owner)


class ExponentialRadius(PrivacyPlan):
    """The noise of the paper's literal reading, under the claim of the spherical Laplace mechanism."""

    def perturb(self, bounded: Bounded, rng: np.random.Generator) -> Release:
        literal = replace(self, event=self.event.model_copy(update={"mechanism": "paper"}))
        return Release(PrivacyPlan.perturb(literal, bounded, rng).flat, self.event)


class ClippedAverage(PrivacyPlan):
    """Clips the average of a batch, and not each gradient."""

    @property
    def clip_each(self) -> bool:
        return False


class HalfTheNoise(PrivacyPlan):
    """Noise of half the scale."""

    def perturb(self, bounded: Bounded, rng: np.random.Generator) -> Release:
        return super().perturb(replace(bounded, clip_norm=bounded.clip_norm / 2), rng)


class HardlyAnyNoise(PrivacyPlan):
    """Noise of a hundredth of the scale."""

    def perturb(self, bounded: Bounded, rng: np.random.Generator) -> Release:
        return super().perturb(replace(bounded, clip_norm=bounded.clip_norm / 100), rng)


class RealisedBatch(Learner):
    """Divides by the number of records that were drawn, and not by the expected one."""

    def gradient(self, flat: Flat, clip_norm: float | None, ticket: int = 0) -> tuple[Flat, Event]:
        assert clip_norm is not None
        indices = self.plan.draw(self._sampling)
        inputs, labels = self._shard.inputs[indices], self._shard.labels[indices]
        total = self._model.clipped_sum(flat, inputs, labels, clip_norm).astype(np.float64)
        bounded = Bounded(total / max(len(labels), 1), clip_norm, 2 * clip_norm / self.plan.batch_size)
        self.ledger.charge(self.plan.event, ticket)
        release = self.plan.perturb(bounded, self._noise)
        return release.flat, release.event


def planned(broken: type[PrivacyPlan]) -> Build:
    """What builds a learner with a broken plan in place of the shipped one."""

    def build(own: Holding, randomness: Randomness, l2: float) -> Learner:
        plan = broken(**{each.name: getattr(own.plan, each.name) for each in fields(own.plan) if each.init})
        return Learner(own.model, own.shard, plan, Ledger(), randomness, l2=l2)

    return build


def realised(own: Holding, randomness: Randomness, l2: float) -> Learner:
    """What builds a learner that divides by what was drawn."""
    return RealisedBatch(own.model, own.shard, own.plan, Ledger(), randomness, l2=l2)


def event_of(mechanism: str, sampling: str, adjacency: str, strength: float) -> Event:
    """An event of this strength: epsilon, or the inverse of the noise multiplier."""
    noise: dict[str, Any] = {"noise_multiplier": 1 / strength} if mechanism == "gaussian" else {"epsilon": strength}
    return Event.model_validate({"mechanism": mechanism, "sampling": sampling, "adjacency": adjacency, **noise})
