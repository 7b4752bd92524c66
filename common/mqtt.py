"""The shell: runs one node on a broker. It knows no algorithm, and decides nothing.

The network thread drops what arrives into an inbox. The main thread takes one event at a time, calls the node and
performs its effects at once. A background thread evaluates.

The node is started when the first connection stands, its subscriptions are in force and no earlier process uses its
id; it hears of every later connection by the wake-up `CONNECTED`.
"""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from common.address import Address
from common.courier import Courier
from common.doorman import Doorman, Guests
from common.errors import FederationError, RecordError, TransportError, WireError
from common.identity import Identity
from common.inbox import Arrived, Broken, Denied, Down, Inbox, Interrupted, Ready, Refused
from common.link import Link
from common.machine import Machine
from common.mailbox import Mailbox
from common.measurer import Evaluate, Measured, Measurer
from common.membership import Membership, presence_of
from common.messages import Bye, Stop
from common.node import CLOUD, CONNECTED, INTERRUPTED, Effect, Node, NodeId, Seconds
from common.performer import Performer
from common.reception import Reception
from common.records import Recorder
from common.shaper import Away, Missed, Shaper
from common.tensors import Layout
from common.topics import Topics
from common.vigil import Vigil
from common.warden import Warden

LOG = logging.getLogger(__name__)
__all__ = ["Identity", "Shell"]

FLUSH = 5.0
"""Seconds that the last messages may take."""
EXIT_INTERRUPTED = 130
"""Exit code after Ctrl-C."""


@dataclass
class Shell:
    """One node, one connection, one inbox, one loop.

    Args:
        node: what decides.
        identity: who it is.
        address: the broker.
        recorder: where its rows go.
        evaluate: scores of parameters, for a node that asks for measurements.
        layout: what tensors of this run look like; others are refused.
        patience: how long a broker may be unreachable at the start.
        patience_lost: how long a connection may be lost later.
        machine: what the node pretends to run on: it is not faster, nor better connected; none: as it comes.
        guests: whom the node expects, and what it takes from each; none: whoever the broker lets write to it.
        pulse: called about once a second while the node is at such work, in which it is not woken.
    """

    node: Node
    identity: Identity
    address: Address
    recorder: Recorder
    evaluate: Evaluate | None = None
    layout: Layout | None = None
    patience: Seconds = 30.0
    patience_lost: Seconds = 300.0
    machine: Machine | None = None
    guests: Guests | None = None
    pulse: Callable[[], object] | None = None

    def __post_init__(self) -> None:
        self._is_cloud = self.identity.node_id == CLOUD
        self._epoch = time.time() - time.monotonic()
        self._inbox: Inbox = queue.SimpleQueue()
        self._topics = Topics(self.identity.run, self.identity.node_id)
        offline, machine = presence_of(self.identity, "offline"), self.machine
        self._shaper = None if machine is None else Shaper(machine, self._topics.status, self._inbox)
        inlet = self._inbox if self._shaper is None else self._shaper.inlet
        self._doorman = Doorman(self._topics, self._now, self.guests)
        self._link = Link(self.address, self.identity, self._topics, offline, inlet, self._doorman.lets_in)
        publish = self._link.publish if self._shaper is None else self._shaper.publish
        asked = self._doorman.asked
        self._courier = Courier(self.identity, self._topics, publish, lambda: self._link.room, self.layout, asked)
        self._mailbox = Mailbox(self.identity.run)
        self._reception = Reception(self.identity.node_id, self._topics, self._courier, self._mailbox)
        self._membership = Membership(self.identity, self._link)
        self._measurer = Measurer(self.evaluate, self._inbox.put)
        name = self.identity.node_id
        self._performer = Performer(name, self._doorman, self._courier, self.recorder, self._measurer)
        self._vigil = Vigil(self.address, self.patience, self.patience_lost, self._now())
        self._warden = Warden(name, self._link, self._vigil, self._doorman)
        self._timers = self._performer.timers
        self._is_started = self._is_busy = self._is_asked = False

    def run(self) -> int:
        """Joins, starts the node, serves it until it halts, and returns the exit code of its process.

        An error of ours (`FederationError`) is logged, recorded, told to the other side (an edge says Bye, the cloud
        Stop) and becomes the exit code; an interrupt becomes 130. Anything else is a bug: recorded, told, raised.
        """
        try:
            return self._live()
        except TransportError as error:
            self._fail(error, tell=False)
            return error.exit_code
        except FederationError as error:
            self._fail(error, tell=True)
            return error.exit_code
        except KeyboardInterrupt as error:
            self._fail(error, tell=True)
            return EXIT_INTERRUPTED
        except Exception as error:
            self._fail(error, tell=True)
            raise

    def interrupt(self) -> None:
        """Asks the node to end in good order. For signal handlers and other threads."""
        self._inbox.put(Interrupted())

    def _live(self) -> int:
        if self._shaper is not None:
            self._shaper.start(self._link)
        self._link.start()
        self._join()
        self._is_started = True
        if self._shaper is not None:
            self._shaper.begin()
        self._perform(self.node.start(self._now()))
        while (halt := self._performer.halt) is None:
            self._step()
        if self.machine is not None and self.machine.steps:
            self._note("machine", {"steps": self.machine.steps, "slower": self.machine.slower})
        self._warden.close(self._reception, self._performer, self._now())
        self._close(FLUSH, leave=True)
        self._measurer.finish()
        while not self._inbox.empty():
            event = self._inbox.get_nowait()
            if isinstance(event, Measured | Broken):
                self._take_in(event)
        LOG.info("halt reason=%r exit_code=%d", halt.reason, halt.exit_code)
        return halt.exit_code

    def _now(self) -> Seconds:
        """Unix seconds that never go back."""
        return self._epoch + time.monotonic()

    def _join(self) -> None:
        """Waits for the connection, for what is retained, and for the answer of an earlier process, if there is one."""
        while not (self._vigil.is_up and self._membership.is_clear(self._now())):
            self._collect(0.05)
        self._membership.join()

    def _step(self) -> None:
        """Takes in what has arrived, waiting for it if nothing else is to be done, then has the node react."""
        now = self._now()
        self._collect(0.0 if len(self._mailbox) else max(0.0, min(self._due, now + 1.0) - now))
        self._turn()

    @property
    def _due(self) -> Seconds:
        return min(self._timers.due, self._courier.due) if self._vigil.is_up else self._timers.due

    def _turn(self) -> None:
        """Gives the node one event of each sort."""
        now = self._now()
        name = self._timers.take(now)
        if name is not None:
            self._perform(self.node.on_wake(name, now))
        item = self._mailbox.take() if self._performer.halt is None else None
        if item is not None:
            finish = self.machine.finish(item[1], now) if self.machine is not None else None
            effects = self.node.on_message(*item, now)
            if self.machine is not None and finish is not None:
                self._work(self.machine, now, finish)
            self._perform(effects)
        if self._courier.due <= now and self._vigil.is_up:
            for peer, error in self._courier.resend(now):
                self._drop(peer, error, tell=False)

    def _work(self, machine: Machine, start: Seconds, finish: Seconds) -> None:
        """Waits until the machine would have done the work. What arrives is taken in, but the node is at work.

        Nobody waits for work that nobody needs: a Stop, and a person's wish to end, cut it short.
        """
        now = self._now()
        if machine.lag(finish, now):
            row = {"reason": "slower than its profile", "took": now - start, "profile": finish - start}
            self._note("slower", row, logging.WARNING)
        self._is_busy = True
        while (left := finish - self._now()) > 0 and not (self._is_asked or self._mailbox.has_stop):
            self._collect(min(left, 1.0))
            if self.pulse is not None:
                self.pulse()
        self._is_busy = False

    def _wake(self, name: str) -> None:
        """Wakes the node, now or when it has done its work."""
        if self._is_busy:
            self._timers.set(name, 0.0)
        else:
            self._perform(self.node.on_wake(name, self._now()))

    def _collect(self, timeout: Seconds) -> None:
        """Takes in all that is in the inbox, waiting up to `timeout` for the first."""
        if timeout > 0.0:
            with suppress(queue.Empty):
                self._take_in(self._inbox.get(timeout=timeout))
        for _ in range(self._inbox.qsize()):
            self._take_in(self._inbox.get_nowait())
        self._warden.watch(self._reception, self._performer, self._now())

    def _take_in(self, event: Any) -> None:
        """Reacts to one event of the link or of the measurer."""
        match event:
            case Arrived():
                self._arrived(event)
            case Ready(protocol):
                self._connected(protocol)
            case Down(reason):
                if self._vigil.down(self._now(), reason):
                    self._note("connection", {"state": "down", "reason": reason}, logging.WARNING)
            case Measured(version, scores):
                self._note("evaluation", {"version": version, **scores})
            case Interrupted():
                if not self._is_started:
                    raise KeyboardInterrupt
                self._is_asked = True
                self._wake(INTERRUPTED)
            case Away(seconds):
                self._vigil.excuse(self._now() + seconds)
                self._note("connection", {"state": "away", "seconds": seconds})
            case Missed(topic, size):
                self._doorman.took(topic, size)
            case Denied(reason):
                self._drop(self.identity.node_id, WireError(f"publication: {reason}: expected the broker to take it"))
            case Refused(reason, expected):
                raise TransportError(f"broker {self.address}: {reason}: expected {expected}")
            case Broken(error):
                raise error

    def _arrived(self, event: Arrived) -> None:
        if not self._doorman.took(event.topic, len(event.payload)):
            return
        try:
            presence = self._reception.admit(event.topic, event.payload, self._now())
        except WireError as error:
            self._drop(self._reception.sender_of(event.topic), error)
            return
        if presence is not None:
            self._membership.judge(presence, retained=event.retained)

    def _connected(self, protocol: str) -> None:
        self._vigil.up(self._now())
        self._membership.connected(self._now())
        self._note("connection", {"state": "up", "broker": str(self.address), "protocol": protocol})
        if self._is_started:
            self._courier.repeat_state()
            if not self._is_cloud:
                self._courier.retract()
            self._wake(CONNECTED)

    def _perform(self, effects: Sequence[Effect]) -> None:
        self._performer.perform(effects, self._now())

    def _drop(self, sender: NodeId, error: WireError, *, tell: bool = True) -> None:
        self._performer.drop(sender, error, self._now(), tell=tell)

    def _note(self, kind: str, row: Mapping[str, object], level: int = logging.INFO) -> None:
        self._performer.note(kind, row, self._now(), level)

    def _fail(self, error: BaseException, *, tell: bool) -> None:
        """Records why this process ends before its time, tells the other side, and disconnects."""
        reason = self._performer.journal.failed(error, self._now())[:500]
        with suppress(RecordError):  # no room for rows is no reason to end without a word
            self._warden.close(self._reception, self._performer, self._now())
        if tell and self._is_started and self._vigil.is_up:  # before, an earlier process may speak for this node
            is_failure = not isinstance(error, KeyboardInterrupt)
            bye = Bye(reason=reason, boot=self.identity.boot, failed=is_failure)
            last = Stop(reason=reason, failed=True) if self._is_cloud else bye
            # A cloud may go on after a failure: edges that come later are not to hear of this one.
            self._performer.part(last, self._now(), stays=not is_failure)
        self._close(FLUSH if tell else 0.0, leave=tell)
        self._measurer.finish(discard=True)

    def _close(self, flush: Seconds, *, leave: bool) -> None:
        """Says what is left to say, within `flush` seconds, and disconnects."""
        if self._shaper is not None and (away := self._shaper.close()) > 0:
            # Last words wait until the edge is back, unless a person wants it to end.
            flush = 0.0 if self._is_asked else flush + away
        self._link.close(flush, leave=leave)
