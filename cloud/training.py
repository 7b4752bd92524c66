"""The model's side of a run: which update is applied when, when the loss is looked at, and when it is over.

Symbols: x -> parameters, t -> version, tau -> staleness. An update's staleness is the version now minus the
    version it was computed on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from cloud.barrier import Arrival, Collector
from cloud.controller import Ask, Controller
from cloud.ending import Ending
from cloud.parameters import Parameters
from cloud.probing import Probing
from cloud.progress import Progress
from cloud.roster import Roster, Seat, Work
from common.messages import Answer, Directive, Model, Probe, Update
from common.node import Effect, Measure, Record, Seconds, Wake
from common.tensors import Flat, Tensors


class Given(TypedDict):
    """What all work that is handed out says of itself."""

    ticket: int
    lineage: str | None
    boot: str


class Training:
    """Applies updates first in, first out, except while a probe is out: then they wait for its decision.

    If the controller goes back to older parameters, updates computed on what came after those are dropped.
    Effects are appended to `outbox`, which its owner empties. The controller's state is no part of `STATE`: it can be
    taken back only when there is a controller.
    """

    STATE = ("ending", "_parameters", "_progress", "_collector", "_probing", "_floor", "_stage")

    def __init__(
        self,
        parameters: Parameters,
        progress: Progress,
        collector: Collector,
        outbox: list[Effect],
        *,
        staleness_cap: int,
        patience: Seconds,
    ) -> None:
        self.ending: Ending | None = None
        self.controller: Controller | None = None
        self._parameters = parameters
        self._progress = progress
        self._collector = collector
        self._staleness_cap = staleness_cap
        self._patience = patience
        self._outbox = outbox
        self._probing: Probing | None = None
        self._floor = 0
        self._stage: tuple[int, float | None] | None = None
        self._directive = Directive()

    @property
    def version(self) -> int:
        """The version of the parameters now."""
        return self._parameters.version

    @property
    def tensors(self) -> Tensors:
        """The live parameters."""
        return self._parameters.tensors

    @property
    def updates(self) -> int:
        """How many updates were applied."""
        return self._progress.updates

    def begin(self, controller: Controller) -> None:
        """Starts; must be the first call."""
        self.controller = controller
        if self._progress.seconds is not None:
            self._outbox.append(Wake("seconds", self._progress.seconds))
        self._wait()
        if self._progress.is_evaluated:
            self.measure()
        ask = controller.begin(self._parameters.flat)
        self._record_stage()
        if ask is not None:
            self._open(ask)

    def accept(self, seat: Seat, update: Update) -> None:
        """Takes in an update; one too old for its mode is dropped at once, so that its edge need not wait."""
        arrival = Arrival(seat.edge, update)
        if self._is_fresh(arrival):
            self._collector.put(arrival)
        else:
            self._record_update(arrival, self.version, is_applied=False)

    def answer(self, seat: Seat, answer: Answer) -> None:
        """Takes in the answer to a probe; one that comes after the decision has no use any more."""
        is_used = self._probing is not None and self._probing.covers(seat.edge, answer.ticket)
        if self._probing is not None and is_used:
            self._probing.add(seat, answer)
        row = {"edge": seat.edge, "ticket": answer.ticket, "version": answer.version, "used": is_used}
        self._outbox.append(Record("answer", row))

    def replace(self, edge: str) -> None:
        """Another process runs this edge now."""
        if self._probing is not None:
            self._probing.forget(edge)

    def advance(self, roster: Roster) -> bool:
        """Does everything that has become possible; True if anything changed."""
        has_moved = False
        while self.ending is None:
            if self._probing is not None:
                if not self._probing.is_complete(roster):
                    break
                self._decide(self._probing)
            elif batch := self._collector.take(roster):
                self._step(batch)
            else:
                break
            has_moved = True
        return has_moved

    def expire(self, roster: Roster) -> None:
        """The patience with silent edges is over: whoever has delivered by now will do."""
        if self._probing is not None:
            self._probing.expire(roster)
        else:
            self._collector.expire(roster)
        self._wait()

    def work_for(self, seat: Seat, now: Seconds) -> Work | None:
        """Hands the seat its next piece of work; None if there is none for it now."""
        if self._probing is not None:
            if not self._probing.wants(seat.edge):
                return None
            work = seat.hand("probe", self._probing.version, now)
            self._probing.asked(seat)
            return work
        return None if self._collector.holds(seat.edge) else seat.hand("model", self.version, now)

    def message_for(self, seat: Seat, work: Work, lineage: str | None = None) -> Model | Probe | None:
        """What to send for a piece of work: always the newest parameters; None for a probe that was decided on."""
        given: Given = {"ticket": work.ticket, "lineage": lineage, "boot": seat.boot}
        if work.kind == "model":
            return Model(**given, version=self.version, directive=self._ask_for(), tensors=self.tensors)
        probing = self._probing
        if probing is None or not probing.covers(seat.edge, work.ticket):
            return None
        ask, tensors = probing.ask, Tensors(self.tensors.layout, probing.ask.flat)
        return Probe(**given, version=probing.version, cap=ask.cap, bound=ask.bound, tensors=tensors)

    @property
    def _control(self) -> Controller:
        assert self.controller is not None, "begin comes first"
        return self.controller

    def measure(self) -> None:
        """Has the parameters evaluated as they are now."""
        self._outbox.append(Measure(self.version, self.tensors))

    def _ask_for(self) -> Directive:
        control = self._control
        stage, clip_norm, rate = control.stage, control.clip_norm, control.rate()
        known = self._directive
        if (known.stage, known.clip_norm, known.learning_rate) != (stage, clip_norm, rate):
            self._directive = Directive(stage=stage, clip_norm=clip_norm, learning_rate=rate)
        return self._directive

    def _is_fresh(self, arrival: Arrival) -> bool:
        version = arrival.update.version
        return version >= self._floor and self._parameters.version - version <= self._staleness_cap

    def _step(self, batch: Sequence[Arrival]) -> None:
        version, control = self.version, self._control
        fresh = []
        for arrival in batch:
            if self._is_fresh(arrival):
                fresh.append(arrival)
            else:
                self._record_update(arrival, version, is_applied=False)
        if not fresh:
            return
        rate = control.rate()
        is_finite = self._parameters.step([arrival.update.tensors.flat for arrival in fresh], rate)
        is_due = self._progress.count()
        for arrival in fresh:
            self._record_update(arrival, version, is_applied=True)
        ask = None
        if is_finite:
            ask = control.applied(self._parameters.flat)
        else:
            self._leave(rate)
            if self.ending is not None:
                return
        self._record_stage()
        if is_due:
            self.measure()
        if ask is not None:
            self._open(ask)
        elif self._progress.is_complete:
            self.ending = Ending("updates reached")
        elif self._collector.has_deadline:
            self._wait()

    def _leave(self, rate: float) -> None:
        """The parameters overflow: nobody can compute with them, so back to older ones, or the run has failed."""
        flat = self._control.diverged()
        if flat is None:
            self.ending = Ending(f"diverged: the parameters overflow at update {self.updates}, rate {rate:g}", True)
            return
        self._go_back(flat)
        self._outbox.append(Record("diverged", {"update": self.updates, "learning_rate": rate}))

    def _go_back(self, flat: Flat) -> None:
        """Goes on from older parameters; what was computed on those that came after them is dropped."""
        self._parameters.restore(flat)
        self._floor = self.version

    def _open(self, ask: Ask) -> None:
        self._probing = Probing(ask, self.version)
        self._wait()

    def _decide(self, probing: Probing) -> None:
        loss, share, noise_std = probing.result()
        self._probing = None
        reply = self._control.answered(loss, share, noise_std)
        rollback = False
        if isinstance(reply, Ask):
            self._open(reply)
        else:
            if reply.flat is not None:
                self._go_back(reply.flat)
                rollback = True
            self._wait()
        row = {"version": probing.version, "loss": loss, "share": share, "answers": probing.count, "std": noise_std}
        self._outbox.append(Record("probe", row | {"rollback": rollback}))
        self._record_stage()
        if self._probing is None and self._progress.is_complete:
            self.ending = Ending("updates reached")

    def _wait(self) -> None:
        self._outbox.append(Wake("patience", self._patience))

    def _record_stage(self) -> None:
        controller = self._control
        if self._stage != (controller.stage, controller.clip_norm):
            self._stage = (controller.stage, controller.clip_norm)
            row = {"stage": controller.stage, "from_update": self.updates, **controller.describe()}
            self._outbox.append(Record("stage", row))

    def _record_update(self, arrival: Arrival, version: int, is_applied: bool) -> None:
        update = arrival.update
        row = {
            "edge": arrival.edge,
            "ticket": update.ticket,
            "version": update.version,
            "staleness": version - update.version,
            "stage": self._control.stage,
            "applied": is_applied,
            "update": self.updates,
        }
        self._outbox.append(Record("update", row))
