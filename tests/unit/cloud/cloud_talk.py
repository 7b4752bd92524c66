"""A cloud to talk to, message by message, with a controller that does as it is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np

from cloud.admission import Admission, Form
from cloud.algorithms.asynchronous import AsynchronousCloud
from cloud.barrier import Barrier, Line
from cloud.charter import Charter, Settings
from cloud.controller import Ask, Continue
from cloud.parameters import Parameters
from cloud.progress import Progress
from cloud.reach import Reach
from cloud.roster import Roster
from cloud.training import Training
from common.events import Event
from common.experiment import Evaluation, edge_ids
from common.experiment import Stop as StopRule
from common.messages import (
    Answer,
    Hello,
    Message,
    Update,
)
from common.node import Effect, Halt, Record, Send, Wake
from common.tensors import Layout, Tensors

DIGEST = "a" * 64
LAYOUT = Layout.of({"w": (2,)})
EVENT = Event(mechanism="none")
PROBED = Event(mechanism="gaussian", noise_multiplier=1.0, dimension=2)
TRAINING = Form("none", None, ("all",), "add_remove", None)
PROBING = Form("gaussian", "noise_multiplier", ("all", "poisson"), "add_remove", 2)
Kind = TypeVar("Kind")


@dataclass
class Scripted:
    """A controller that asks when it is told to, and goes where it is told to."""

    STATE: ClassVar[tuple[str, ...]] = ("clip_norm", "stage", "count")

    asks: dict[int, float] = field(default_factory=dict)
    replies: list[Ask | Continue] = field(default_factory=list)
    clip_norm: float | None = 1.0
    stage: int = 1
    answers: list[tuple[float, float, float]] = field(default_factory=list)
    count: int = 0
    refuge: np.ndarray[Any, Any] | None = None

    def begin(self, flat: np.ndarray[Any, Any]) -> Ask | None:
        return self._ask(flat)

    def rate(self) -> float:
        return 0.5

    def applied(self, flat: np.ndarray[Any, Any]) -> Ask | None:
        self.count += 1
        return self._ask(flat)

    def answered(self, loss: float, share: float, noise_std: float) -> Ask | Continue:
        self.answers.append((loss, share, noise_std))
        return self.replies.pop(0) if self.replies else Continue()

    def diverged(self) -> np.ndarray[Any, Any] | None:
        return self.refuge

    def describe(self) -> Mapping[str, float]:
        return {"learning_rate": 0.5}

    def _ask(self, flat: np.ndarray[Any, Any]) -> Ask | None:
        cap = self.asks.get(self.count)
        return None if cap is None else Ask(flat.copy(), cap=cap, bound=1.0)


@dataclass(frozen=True)
class Control:
    """Makes the controller that it is given."""

    controller: Scripted

    def numbers(self, roster: Roster) -> Mapping[str, object]:
        return {"edges": len(roster.online())}

    def make(self, numbers: Mapping[str, object]) -> Scripted:
        return self.controller


class Talk:
    """A cloud and the effects of the last event."""

    def __init__(
        self,
        controller: Scripted | None = None,
        *,
        edges: int = 8,
        quorum: int = 1,
        updates: int | None = 10,
        seconds: float | None = None,
        every: int = 0,
        cap: int = 8,
        sync: bool = False,
        lineage: str | None = None,
        **settings: Any,
    ) -> None:
        outbox: list[Effect] = []
        self.controller = controller or Scripted()
        self.training = Training(
            Parameters(Tensors(LAYOUT, LAYOUT.zeros())),
            Progress(StopRule(updates=updates, seconds=seconds), Evaluation(every=every)),
            Barrier() if sync else Line(),
            outbox,
            staleness_cap=0 if sync else cap,
            patience=60.0,
        )
        charter = Charter(
            Admission(DIGEST, frozenset(edge_ids(edges)), TRAINING, PROBING, Reach(None)), "cloud-1", quorum, lineage
        )
        self.node = AsynchronousCloud(charter, Settings(**settings), self.training, Control(self.controller), outbox)
        self.now = 0.0
        self.effects: Sequence[Effect] = self.node.start(0.0)

    def hear(self, edge: str, message: Message) -> Sequence[Effect]:
        self.effects = self.node.on_message(edge, message, self.now)
        return self.effects

    def wake(self, name: str) -> Sequence[Effect]:
        self.effects = self.node.on_wake(name, self.now)
        return self.effects

    def hello(
        self, edge: str, boot: str = "b1", ticket: int = 0, digest: str = DIGEST, event: Event = EVENT
    ) -> Sequence[Effect]:
        return self.hear(edge, Hello(digest=digest, boot=boot, samples=10, event=event, ticket=ticket))

    def update(
        self, edge: str, ticket: int, version: int, value: float = 1.0, event: Event = EVENT
    ) -> Sequence[Effect]:
        tensors = Tensors(LAYOUT, np.full(2, value, dtype=np.float32))
        return self.hear(edge, Update(ticket=ticket, version=version, work=1.0, event=event, tensors=tensors))

    def answer(
        self, edge: str, ticket: int, values: tuple[float, float] = (0.5, 0.25), event: Event = PROBED
    ) -> Sequence[Effect]:
        return self.hear(edge, Answer(ticket=ticket, version=self.training.version, event=event, values=values))

    def sent(self, edge: object, kind: type[Kind]) -> list[Kind]:
        """What the last event sent to an edge, of one kind."""
        found = [effect.message for effect in self.effects if isinstance(effect, Send) and effect.to == edge]
        return [message for message in found if isinstance(message, kind)]

    def rows(self, kind: str) -> list[Mapping[str, Any]]:
        return [effect.row for effect in self.effects if isinstance(effect, Record) and effect.kind == kind]

    def wakes(self) -> set[str]:
        return {effect.name for effect in self.effects if isinstance(effect, Wake)}

    def halts(self) -> list[Halt]:
        return [effect for effect in self.effects if isinstance(effect, Halt)]

    @property
    def flat(self) -> list[float]:
        return [float(value) for value in self.node.tensors.flat]
