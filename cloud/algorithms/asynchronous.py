"""The cloud of family 1: one update in, one model out (CSGD, ASGD, AUDP, MAPA; asynchronous or synchronous).

Source: MAPA, arXiv 1912.07902, Algorithm 1; `docs/algorithms/asynchronous.md` describes the protocol.

The conversation. An edge says Hello and gets a Model; it answers with an Update and gets the next Model, and so on
until Stop. Each Model or Probe has a ticket; only the answer to the ticket an edge has in hand counts, so that
repeats and duplicates do nothing. The edge that sent an update, and no other, is answered.

Deviations: the run stops at T updates whatever the stage (the paper's inner loop tests the stage only).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from cloud.charter import RESUMED, RETURN, Charter, Control, Phase, Settings
from cloud.conduct import Conduct
from cloud.controller import Controller
from cloud.ending import Ending, time_to_return, without_edges
from cloud.roster import Presence, Roster, Seat, Welcome, Work
from cloud.training import Training
from common.messages import Answer, Bye, Hello, Message, Refusal, Report, Running, Stop, Update
from common.node import CONNECTED, EDGES, INTERRUPTED, Effect, Group, Halt, NodeId, Record, Seconds, Send, Wake
from common.tensors import Tensors

RESEND_PAUSE: Seconds = 1.0
"""A model just sent is not sent again: an edge that asks twice within this time gets one copy."""


class AsynchronousCloud:
    """Talks with the edges; `Training` has the model, a `Controller` decides rates, clip norms and probes."""

    STATE = ("_training", "_roster", "_conduct", "_waiting", "_phase", "_ending", "_numbers", "_unheard")

    def __init__(
        self, charter: Charter, settings: Settings, training: Training, control: Control, outbox: list[Effect]
    ) -> None:
        """`control` makes the controller when the run begins."""
        self._charter = charter
        self._settings = settings
        self._training = training
        self._control = control
        self._outbox = outbox
        self._roster, self._conduct = Roster(), Conduct()
        self._waiting: dict[NodeId, None] = {}  # in order; whose seat has no work
        self._numbers: Mapping[str, object] | None = None
        self._unheard: set[NodeId] = set()
        self._phase = Phase.GATHERING
        self._ending = Ending("not over yet", failed=True)

    @property
    def tensors(self) -> Tensors:
        """The parameters as they are now."""
        return self._training.tensors

    @property
    def controller(self) -> Controller | None:
        """What decides, from the beginning of the run on; made anew where the node came back without it."""
        if self._numbers is not None and self._training.controller is None:
            self._training.controller = self._control.make(self._numbers)
        return self._training.controller

    def start(self, now: Seconds) -> Sequence[Effect]:
        """Opens the run and waits for the quorum."""
        self._announce()
        self._outbox.append(Wake("quorum", self._settings.quorum_patience))
        return self._flush()

    def on_message(self, sender: NodeId, message: Message, now: Seconds) -> Sequence[Effect]:
        """Reacts to what an edge said; what only a cloud says is refused."""
        self._unheard.discard(sender)
        match message:
            case _ if self._phase is Phase.OVER:
                pass
            case Update() | Answer():
                self._receive(sender, message, now)
            case Hello():
                self._greet(sender, message, now)
            case Report():
                if self._conduct.keeps(self._roster.find(sender), now):
                    self._record("report", edge=sender, metrics=dict(message.metrics))
            case Bye():
                self._farewell(sender, message, now)
            case _:
                self._refuse(sender, f"{message.kind}: expected a message of an edge")
        return self._flush()

    def on_wake(self, name: str, now: Seconds) -> Sequence[Effect]:
        """Deadlines, the link, and a person's wish to end."""
        if self._phase is Phase.OVER:
            return ()
        if name == CONNECTED:
            self._announce()
        elif name == RESUMED:
            self._resume()
        elif name == "return":
            unheard, self._unheard = sorted(self._unheard), set()
            for edge in unheard:
                self._farewell(edge, Bye(reason="not heard of since the cloud was restarted"), now)
        elif name == INTERRUPTED:
            self._end(Ending("interrupted"))
        elif name == "quorum" and self._phase is Phase.GATHERING:
            self._start_without_quorum(now)
        elif name == "seconds" and self._phase is Phase.RUNNING:
            self._end(Ending("seconds reached"))
        elif name == "patience" and self._phase is Phase.RUNNING:
            self._training.expire(self._roster)
            self._advance(now, None)
        elif name == "absence" and self._phase is not Phase.CLOSING and not self._roster.present:
            self._end(without_edges(self._roster, self._training.updates))
        elif name == "grace" and self._phase is Phase.CLOSING:
            self._halt()
        return self._flush()

    # Who is here

    def _greet(self, edge: NodeId, hello: Hello, now: Seconds) -> None:
        reason = self._charter.admission.fault_of(edge, hello)
        if reason is not None:
            self._record("refused", edge=edge, reason=reason)
            self._send(edge, Stop(reason=reason, failed=True, boot=hello.boot))
            return
        if self._phase is Phase.CLOSING:
            self._send(edge, self._stop(hello.boot))
            return
        if self._is_restless(edge, hello.boot, now):
            return
        seat, welcome = self._roster.welcome(edge, hello, keeps=hello.holds == self._charter.lineage)
        if welcome is not Welcome.KNOWN:
            self._record_joined(seat)
        if welcome is Welcome.REBORN and seat.work is None:
            self._training.replace(edge)
        if seat.work is None:
            self._waiting[edge] = None
        elif hello.ticket < seat.work.ticket or hello.holds is not None:
            self._resend(seat, seat.work, now)
        if self._phase is Phase.RUNNING:
            self._advance(now, seat)
        elif self._roster.present >= self._charter.quorum:
            self._begin(now)

    def _farewell(self, edge: NodeId, bye: Bye, now: Seconds) -> None:
        if self._is_restless(edge, None, now):
            return
        if bye.releases is not None and self._roster.find(edge) is not None:
            self._record("bye", edge=edge, **bye.model_dump(mode="json", exclude={"kind"}))
        if self._roster.leave(edge, bye) is None:
            return
        self._record("left", edge=edge, reason=bye.reason)
        self._waiting.pop(edge, None)
        if self._phase is Phase.RUNNING:
            self._advance(now, None)
        if self._roster.present:
            return
        if self._phase is Phase.CLOSING:
            self._halt()
        elif self._phase is Phase.RUNNING:
            edges, settings = len(self._charter.admission.edges), self._settings
            after = time_to_return(self._roster, edges, settings.grace, settings.absence)
            self._outbox.append(Wake("absence", after))

    def _resume(self) -> None:
        """Another process goes on: what this one's predecessor sent may be lost, so that edges may ask for it at once.

        An edge that left or died meanwhile was heard by nobody, so those that were here have to speak.
        """
        self._announce()
        self._unheard = {seat.edge for seat in self._roster.online()}
        for seat in self._roster.online():
            if seat.work is not None:
                seat.work = replace(seat.work, sent=-math.inf)
        self._outbox.append(Wake("return", RETURN))

    def _start_without_quorum(self, now: Seconds) -> None:
        if self._roster.present:
            self._begin(now)
        else:
            self._outbox.append(Wake("quorum", self._settings.quorum_patience))
            self._outbox.append(Wake("absence", self._settings.absence))

    def _is_restless(self, edge: NodeId, boot: str | None, now: Seconds) -> bool:
        fault = self._conduct.fault_of_move(self._roster.find(edge), boot, now)
        if fault is not None:
            self._refuse(edge, fault)
        return fault is not None

    # Work

    def _receive(self, edge: NodeId, message: Update | Answer, now: Seconds) -> None:
        seat = self._roster.find(edge)
        if seat is None or seat.presence is Presence.GONE or self._phase is not Phase.RUNNING:
            return
        if seat.presence is Presence.LOST:
            if self._is_restless(edge, None, now):
                return
            self._record_joined(seat)
            self._roster.hear(seat)
        seat.is_silent, seat.bye = False, None
        work = seat.work
        if work is not None and message.ticket >= work.ticket and message.lineage == self._charter.lineage:
            fault = self._charter.admission.fault_in(seat, work, self._training.version, message)
            if fault is not None:
                self._refuse(edge, fault, message.ticket)
                return
            seat.work = None
            if isinstance(message, Update):
                self._training.accept(seat, message)
            else:
                self._training.answer(seat, message)
        elif work is not None:
            self._resend(seat, work, now)
        if seat.work is None:
            self._waiting[edge] = None
        self._advance(now, seat)

    def _begin(self, now: Seconds) -> None:
        self._phase = Phase.RUNNING
        self._numbers = self._control.numbers(self._roster)
        controller = self._control.make(self._numbers)
        self._record("begin", **self._numbers)
        self._training.begin(controller)
        self._advance(now, None)

    def _advance(self, now: Seconds, seat: Seat | None) -> None:
        """Lets the training do what has become possible, then hands out work; `seat`: whose event this is."""
        has_moved = self._training.advance(self._roster)
        if self._training.ending is not None:
            self._end(self._training.ending)
            return
        for edge in list(self._waiting) if has_moved or seat is None else (seat.edge,):
            free = self._roster.find(edge) if edge in self._waiting else None
            work = self._training.work_for(free, now) if free is not None else None
            if free is not None and work is not None:
                del self._waiting[free.edge]
                self._deliver(free, work)

    def _deliver(self, seat: Seat, work: Work) -> bool:
        message = self._training.message_for(seat, work, self._charter.lineage)
        if message is not None:
            seat.work = self._charter.admission.bounded(seat, work, message)
            self._send(seat.edge, message)
        return message is not None

    def _resend(self, seat: Seat, work: Work, now: Seconds) -> None:
        """The edge has not seen its work: sends it again under the same ticket, with the newest parameters."""
        if now - work.sent < RESEND_PAUSE:
            return
        if not self._deliver(seat, replace(work, sent=now)):  # a probe that was decided without this edge
            seat.work = None
            self._waiting[seat.edge] = None

    # The end

    def _end(self, ending: Ending) -> None:
        """Ends the training, has the final model evaluated, and waits for the edges' last words."""
        if self._phase is Phase.CLOSING:
            self._halt()  # a second wish to end: do not wait for the edges
            return
        self._phase = Phase.CLOSING
        self._ending = ending
        self._record("end", reason=ending.reason, updates=self._training.updates, failed=ending.failed)
        self._training.measure()
        self._send(EDGES, self._stop())
        if self._roster.present:
            self._outbox.append(Wake("grace", self._settings.grace))
        else:
            self._halt()

    def _stop(self, boot: str | None = None) -> Stop:
        return Stop(reason=self._ending.reason, failed=self._ending.failed, boot=boot)

    def _halt(self) -> None:
        self._phase = Phase.OVER
        self._outbox.append(Halt(self._ending.reason, 1 if self._ending.failed else 0))

    def _announce(self) -> None:
        is_closing = self._phase is Phase.CLOSING
        boot, lineage, digest = self._charter.boot, self._charter.lineage, self._charter.admission.digest
        self._send(EDGES, self._stop() if is_closing else Running(boot=boot, lineage=lineage, digest=digest))

    def _send(self, to: NodeId | Group, message: Message) -> None:
        self._outbox.append(Send(to, message))

    def _refuse(self, edge: NodeId, reason: str, ticket: int | None = None) -> None:
        self._record("refused", edge=edge, reason=reason)
        self._send(edge, Refusal(reason=reason[:500], ticket=ticket))

    def _record_joined(self, seat: Seat) -> None:
        event = seat.event.model_dump(mode="json", exclude_none=True)
        self._record("joined", edge=seat.edge, samples=seat.samples, event=event, boot=seat.boot)

    def _record(self, kind: str, **row: object) -> None:
        self._outbox.append(Record(kind, row))

    def _flush(self) -> Sequence[Effect]:
        effects = tuple(self._outbox)
        self._outbox.clear()
        return effects
