"""The edge of family 1: one private gradient for each model received (CSGD, ASGD, AUDP, MAPA).

Source: MAPA, arXiv 1912.07902, Algorithm 1; `docs/algorithms/asynchronous.md` describes the protocol.

The conversation. The edge says Hello until the cloud gives it work. Each Model or Probe has a ticket and is answered
once; the answer is kept and sent again, the same message, after `patience` without newer work. Nothing is computed
twice: a second answer to one ticket would be a second release of the same records. Out of budget, the edge says Bye,
and the run goes on without it.

Two things outlive a process. An answer is kept (`Kept`) before it leaves: the next process of this edge holds it, says
so with its Hello, and if the cloud asks for that very ticket again, it says the same once more, for no further release.
And a cloud that goes on after a restart has the same lineage: it hears at once what it may have missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pydantic import Field

from common.errors import BudgetExhausted, LedgerError, RemoteProtocolError, TransportError
from common.events import Event
from common.messages import Answer, Bye, Hello, Message, Model, Probe, Refusal, Report, Running, Stop, Update
from common.node import CLOUD, CONNECTED, INTERRUPTED, Effect, Halt, NodeId, Record, Seconds, Send, Wake
from common.section import Positive, Section
from common.tensors import Tensors
from edge.learner import Learner

MOST_REFUSALS = 4
"""Refusals of one answer after which the edge gives up: the same bytes are sent again, never other ones."""
MOST_UNREAD = 50
"""The same of what the cloud could not even read. Whose payload that was nobody knows, so much has to come together."""


class Settings(Section):
    """What the edge's node reads of `algorithm.edge`; times in seconds."""

    hello_every: Positive = Field(
        default=1.0, description="Hello is repeated until the cloud gives work, ever more seldom"
    )
    patience: Positive = Field(default=15.0, description="without newer work the last answer is sent again")
    absence: Positive = Field(default=600.0, description="without any word from the cloud the edge gives up")
    report_every: Positive = Field(default=5.0, description="the ledger's total so far goes to the cloud")
    probes: int = Field(default=24, ge=0, description="most probes that this edge answers")
    probe_records: int = Field(default=2000, ge=1, description="a probe looks at about so many, if there are more")
    probe_share: float = Field(default=0.1, gt=0, lt=1, description="of the privacy budget, set aside for probes")


class Kept(Protocol):
    """Keeps the newest answer for the next process of this edge."""

    def read(self) -> Update | Answer | None:
        """What the process before this one left; None if there is nothing, or nothing whole."""
        ...

    def write(self, answer: Update | Answer) -> None:
        """Keeps an answer in place of the one before; it has left nothing yet."""
        ...


class AsynchronousEdge:
    """Answers tickets, each once; the `Learner` has the records and the ledger."""

    def __init__(
        self, hello: Hello, learner: Learner, settings: Settings, dp_delta: float, kept: Kept | None = None
    ) -> None:
        self._kept = kept
        self._held = None if kept is None else _usable(kept.read(), hello)
        if self._held is not None:
            hello = hello.model_copy(update={"ticket": self._held.ticket, "holds": self._held.lineage})
        self._hello = hello
        self._learner = learner
        self._settings = settings
        self._dp_delta = dp_delta
        self._ticket = hello.ticket
        self._last: Hello | Update | Answer = hello
        self._cloud: Running | None = None
        self._refusals = self._unread = self._hellos = 0
        self._is_said = False
        """Something was said that no refusal was taken to be about."""
        self._heard: Seconds = 0.0
        self._is_over = False
        self._rows: dict[Event, dict[str, object]] = {}

    def start(self, now: Seconds) -> Sequence[Effect]:
        """Says Hello."""
        self._heard = now
        ledger = self._learner.ledger
        row = {"boot": self._hello.boot, "releases": ledger.releases, "ledger_releases": ledger.held_releases}
        return [Record("start", row), *self._say(), Wake("report", self._settings.report_every)]

    def on_message(self, sender: NodeId, message: Message, now: Seconds) -> Sequence[Effect]:
        """Does the work the cloud asks for, once per ticket, until it says Stop."""
        if self._is_over or sender != CLOUD:
            return ()
        self._heard = now
        match message:
            case Model() | Probe():
                return self._take(message)
            case Stop():
                return self._stop(message)
            case Running():
                return self._meet(message)
            case Refusal():
                return self._refused(message)
            case _:
                return [Record("refused", {"reason": f"{message.kind}: expected a message of the cloud"})]

    def on_wake(self, name: str, now: Seconds) -> Sequence[Effect]:
        """Repeats what was not answered, and reports."""
        if self._is_over:
            return ()
        if name in ("repeat", CONNECTED):
            silence = now - self._heard
            if silence > self._settings.absence:
                return self._leave(f"no word from the cloud for {silence:.0f} s", TransportError.exit_code)
            self._hellos = 0 if name == CONNECTED else self._hellos
            return self._say()
        if name == "report":
            return self._report()
        return self._leave("interrupted", 0) if name == INTERRUPTED else ()

    def _say(self) -> list[Effect]:
        """Says the last thing (again), and once more if nothing comes back."""
        self._is_said = True
        return [Send(CLOUD, self._last), Wake("repeat", self._pause())]

    def _pause(self) -> Seconds:
        """Until the last thing is said again; a Hello ever more seldom, for those of a crowd can hold up the cloud."""
        settings = self._settings
        if not isinstance(self._last, Hello):
            return settings.patience
        pause = min(settings.hello_every * 2.0**self._hellos, max(settings.hello_every, settings.patience))
        self._hellos = min(self._hellos + 1, 30)
        return pause

    def _meet(self, running: Running) -> Sequence[Effect]:
        """Another cloud process answers for the run.

        If it goes on with the state of the one before, it may not have heard the last thing said. If not, it does not
        know this edge, and its model is another.
        """
        known, self._cloud = self._cloud, running
        if known is not None and running.boot == known.boot:
            return ()
        met = Record("met", {"cloud": running.boot, "lineage": running.lineage})
        if known is None:
            return [met]
        self._hellos = 0
        if running.lineage is None or running.lineage != known.lineage:
            self._held = None
            self._last = self._hello.model_copy(update={"ticket": self._ticket, "holds": None})
        return [met, *self._say()]

    def _take(self, message: Model | Probe) -> Sequence[Effect]:
        """Work that is new, or what is known of it; what a cloud that is gone asked, or of one that is, is nobody's."""
        if message.boot not in (None, self._hello.boot):
            return ()  # asked of the process before this one, whose answer the cloud does not wait for any more
        if self._cloud is not None and message.lineage != self._cloud.lineage:
            return ()
        return self._work(message) if message.ticket > self._ticket else self._repeat(message)

    def _repeat(self, message: Model | Probe) -> Sequence[Effect]:
        """The cloud waits for what the process before this one has answered: here it is, for no further release."""
        held = self._held
        if held is None or (message.ticket, message.lineage) != (held.ticket, held.lineage):
            return ()
        self._last, self._held = held, None
        row = {"ticket": held.ticket, "version": held.version, "event": self._row(held.event)}
        return [Record("held", row), *self._say()]

    def _stop(self, stop: Stop) -> Sequence[Effect]:
        if stop.boot not in (None, self._hello.boot):
            return ()  # another process of this edge is meant
        if stop.failed and stop.boot is not None:
            # Turned away. A Bye from here could be taken for one of the process that rightly runs this edge.
            self._is_over = True
            return [Record("refused", {"reason": stop.reason}), Halt(f"turned away: {stop.reason}", 1)]
        return self._leave(stop.reason, 1 if stop.failed else 0)

    def _refused(self, refusal: Refusal) -> Sequence[Effect]:
        """What was damaged on its way comes again, as it was; what is wrong in itself never gets better.

        A refusal counts if it names the answer in hand. One without a ticket may be about a stranger's payload, so
        it counts once for each time that something was said.
        """
        if refusal.ticket is None:
            self._unread += self._is_said
            self._is_said = False
        elif not isinstance(self._last, Hello) and refusal.ticket == self._last.ticket:
            self._refusals += 1
        record = Record("refused", {"reason": refusal.reason, "ticket": refusal.ticket})
        if self._refusals < MOST_REFUSALS and self._unread < MOST_UNREAD:
            return [record]
        return [record, *self._leave(f"refused {self._refusals + self._unread} times: {refusal.reason}", 1)]

    def _work(self, message: Model | Probe) -> Sequence[Effect]:
        self._ticket, self._refusals, self._unread, self._held = message.ticket, 0, 0, None
        try:
            answer = self._update(message) if isinstance(message, Model) else self._answer(message)
        except BudgetExhausted as error:  # a promise kept, not broken: nothing was released
            return self._leave(f"budget spent: {error}", 0)
        except (RemoteProtocolError, LedgerError) as error:  # so was nothing here
            return self._leave(str(error), error.exit_code)
        if self._kept is not None:
            self._kept.write(answer)
        self._last = answer
        row = {"ticket": answer.ticket, "version": answer.version, "event": self._row(answer.event)}
        return [Record("release", row), *self._say()]

    def _update(self, model: Model) -> Update:
        flat, event = self._learner.gradient(model.tensors.flat, model.directive.clip_norm, model.ticket)
        return Update(
            ticket=model.ticket,
            lineage=model.lineage,
            version=model.version,
            work=float(self._learner.plan.batch_size),
            event=event,
            tensors=Tensors(model.tensors.layout, flat),
        )

    def _answer(self, probe: Probe) -> Answer:
        event, values = self._learner.look(probe.tensors.flat, probe.cap, probe.bound, probe.ticket)
        return Answer(ticket=probe.ticket, lineage=probe.lineage, version=probe.version, event=event, values=values)

    def _row(self, event: Event) -> dict[str, object]:
        row = self._rows.get(event)
        if row is None:
            row = self._rows[event] = event.model_dump(mode="json", exclude_none=True)
        return row

    def _report(self) -> Sequence[Effect]:
        """Numbers that are public (the total of releases) to the cloud; private ones to this edge's records only."""
        ledger = self._learner.ledger
        metrics = {"releases": float(ledger.releases)}
        total = ledger.total(self._dp_delta, "quick") if self._is_quick() else None
        if total is not None and total.epsilon is not None:
            metrics["epsilon"] = total.epsilon
        return [
            Send(CLOUD, Report(iteration=self._ticket, metrics=metrics)),
            Record("local", {"releases": ledger.releases, "records_drawn": self._learner.drawn}),
            Wake("report", self._settings.report_every),
        ]

    def _is_quick(self) -> bool:
        """Whether there is a bound on epsilon that does not hold up the next release."""
        slow = ("gaussian", "poisson", "replace_one")
        return all((event.mechanism, event.sampling, event.adjacency) != slow for event in self._learner.ledger.events)

    def _leave(self, reason: str, exit_code: int) -> Sequence[Effect]:
        self._is_over = True
        bye = self._bye(reason, failed=exit_code != 0)
        return [Record("bye", bye.model_dump(mode="json", exclude={"kind"})), Send(CLOUD, bye), Halt(reason, exit_code)]

    def _bye(self, reason: str, failed: bool) -> Bye:
        """The account of what was released: in this run, and, if the ledger outlives it, since the ledger was begun."""
        ledger = self._learner.ledger
        total = ledger.total(self._dp_delta)
        bye = Bye(
            reason=reason[:500],
            boot=self._hello.boot,
            failed=failed,
            releases=ledger.releases,
            epsilon=total.epsilon,
            dp_delta=total.dp_delta,
            simulated=self._learner.simulated,
            note=total.note[:500],
        )
        if not ledger.is_durable:
            return bye
        held = total if ledger.held == ledger.events else ledger.held_total(self._dp_delta)
        notes = [total.note]
        if held.epsilon is None and total.epsilon is not None:
            notes.append(f"since the ledger was begun: {held.note}")
        if held.epsilon is not None and ledger.is_simulated and not self._learner.simulated:
            notes.append("since the ledger was begun: simulated, for noise of earlier runs came from a seed")
        found = {"ledger_releases": ledger.held_releases, "ledger_epsilon": held.epsilon}
        return bye.model_copy(update=found | {"note": "; ".join(notes)[:500]})


def _usable(answer: Update | Answer | None, hello: Hello) -> Update | Answer | None:
    """An answer that a process which says this Hello may give: an update with other noise than it declares is none."""
    is_other = isinstance(answer, Update) and answer.event != hello.event
    return None if answer is None or answer.lineage is None or is_other else answer
