"""An edge to talk to, message by message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from common.events import Event
from common.experiment import ModelChoice
from common.messages import (
    Bye,
    Directive,
    Hello,
    Message,
    Model,
    Probe,
)
from common.models import build_model
from common.node import CLOUD, Effect, Halt, Record, Send, Wake
from common.privacy.ledger import Budget, Ledger, Store
from common.privacy.plan import PrivacyPlan
from common.privacy.probes import ProbePlan
from common.seeds import stream
from common.tensors import Tensors
from edge.algorithms.asynchronous import AsynchronousEdge, Kept, Settings
from edge.learner import Learner, Probes, Randomness, Shard

MODEL = build_model(ModelChoice(name="softmax"), (4,), 3)
EVENT = Event(mechanism="gaussian", noise_multiplier=2.0, dimension=MODEL.layout.size, sampling="all")


class Talk:
    """An edge and the effects of the last event."""

    def __init__(
        self,
        most: int | None = None,
        ceiling: float | None = None,
        store: Store | None = None,
        kept: Kept | None = None,
    ) -> None:
        rng = np.random.default_rng(5)
        shard = Shard(MODEL.prepare(rng.normal(size=(20, 4)).astype(np.float32), 1.0), rng.integers(3, size=20))
        self.ledger = Ledger(Budget(most), store)
        probing = ProbePlan(Event(mechanism="gaussian", noise_multiplier=5.0, dimension=2), 20)
        learner = Learner(
            MODEL,
            shard,
            PrivacyPlan(EVENT, 20, 20, clip_norm_ceiling=ceiling),
            self.ledger,
            Randomness(stream(1, "sampling"), stream(1, "noise")),
            probes=Probes(probing, 3),
        )
        hello = Hello(digest="a" * 64, boot="b1", samples=20, event=EVENT)
        self.node = AsynchronousEdge(hello, learner, Settings(), 1e-5, kept)
        self.effects: Sequence[Effect] = self.node.start(0.0)

    def hear(self, message: Message, sender: str = CLOUD) -> Sequence[Effect]:
        self.effects = self.node.on_message(sender, message, 1.0)
        return self.effects

    def wake(self, name: str) -> Sequence[Effect]:
        self.effects = self.node.on_wake(name, 2.0)
        return self.effects

    def model(self, ticket: int, version: int = 1, clip_norm: float | None = 1.0) -> Sequence[Effect]:
        tensors = Tensors(MODEL.layout, MODEL.layout.zeros())
        return self.hear(
            Model(ticket=ticket, version=version, directive=Directive(clip_norm=clip_norm), tensors=tensors)
        )

    def probe(self, ticket: int) -> Sequence[Effect]:
        tensors = Tensors(MODEL.layout, MODEL.layout.zeros())
        return self.hear(Probe(ticket=ticket, version=1, cap=4.0, bound=1.0, tensors=tensors))

    def said(self) -> list[Message]:
        found = [effect for effect in self.effects if isinstance(effect, Send)]
        assert all(effect.to == CLOUD for effect in found)
        return [effect.message for effect in found]

    def rows(self, kind: str) -> list[Mapping[str, Any]]:
        return [effect.row for effect in self.effects if isinstance(effect, Record) and effect.kind == kind]

    def wakes(self) -> dict[str, float]:
        return {effect.name: effect.after for effect in self.effects if isinstance(effect, Wake)}

    def halt(self) -> Halt | None:
        return next((effect for effect in self.effects if isinstance(effect, Halt)), None)

    def bye(self) -> Bye:
        (message,) = self.said()
        assert isinstance(message, Bye)
        return message
