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
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from common.address import Address
from common.courier import Courier
from common.errors import FederationError, TransportError, WireError
from common.identity import Identity
from common.journal import Journal
from common.link import Arrived, Broken, Denied, Down, Inbox, Link, Ready, Refused
from common.mailbox import Mailbox
from common.measurer import Evaluate, Measured, Measurer
from common.membership import Membership, presence_of
from common.messages import Bye, Refusal, Stop
from common.node import (
    CLOUD,
    CONNECTED,
    EDGES,
    INTERRUPTED,
    Effect,
    Halt,
    Measure,
    Node,
    NodeId,
    Record,
    Seconds,
    Send,
    Wake,
)
from common.reception import Reception
from common.records import Recorder
from common.tensors import Layout, Tensors
from common.timers import Timers
from common.topics import Topics
from common.vigil import Vigil

LOG = logging.getLogger(__name__)
__all__ = ["Identity", "Shell", "run"]

FLUSH = 5.0
"""Seconds that the last messages may take."""
EXIT_INTERRUPTED = 130
"""Exit code after Ctrl-C."""


class Interrupted:
    """Somebody wants this process to end in good order."""


def run(
    node: Node,
    identity: Identity,
    address: Address,
    recorder: Recorder,
    *,
    evaluate: Evaluate | None = None,
    layout: Layout | None = None,
    patience: Seconds = 30.0,
    patience_lost: Seconds = 300.0,
) -> int:
    """Runs a node until it halts, and returns the exit code of its process.

    Args:
        node: what decides.
        identity: who it is.
        address: the broker.
        recorder: where its rows go.
        evaluate: scores of parameters, for a node that asks for measurements.
        layout: what tensors of this run look like; others are refused.
        patience: how long a broker may be unreachable at the start.
        patience_lost: how long a connection may be lost later.

    An error of ours (`FederationError`) is logged, recorded, told to the other side (an edge says Bye, the cloud
    Stop) and becomes its exit code; an interrupt becomes 130. Anything else is a bug: recorded, told, raised.
    """
    return Shell(node, identity, address, recorder, evaluate, layout, patience, patience_lost).run()


@dataclass
class Shell:
    """One node, one connection, one inbox, one loop."""

    node: Node
    identity: Identity
    address: Address
    recorder: Recorder
    evaluate: Evaluate | None = None
    layout: Layout | None = None
    patience: Seconds = 30.0
    patience_lost: Seconds = 300.0

    def __post_init__(self) -> None:
        self._is_cloud = self.identity.node_id == CLOUD
        self._epoch = time.time() - time.monotonic()
        self._inbox: Inbox = queue.SimpleQueue()
        self._topics = Topics(self.identity.run, self.identity.node_id)
        self._link = Link(self.address, self.identity, self._topics, presence_of(self.identity, "offline"), self._inbox)
        self._courier = Courier(self.identity, self._topics, self._link.publish, lambda: self._link.room, self.layout)
        self._mailbox = Mailbox(self.identity.run)
        self._reception = Reception(self.identity.node_id, self._topics, self._courier, self._mailbox)
        self._membership = Membership(self.identity, self._link)
        self._measurer = Measurer(self.evaluate, self._inbox.put)
        self._journal = Journal(self.recorder)
        self._vigil = Vigil(self.address, self.patience, self.patience_lost, self._now())
        self._timers = Timers()
        self._halt: Halt | None = None
        self._is_started = False
        self._watch_at = 0.0

    def run(self) -> int:
        """Joins, starts the node, and serves it until it halts."""
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
        self._link.start()
        self._join()
        self._is_started = True
        self._perform(self.node.start(self._now()))
        while self._halt is None:
            self._step()
        self._link.close(FLUSH, leave=True)
        self._measurer.finish()
        while not self._inbox.empty():
            event = self._inbox.get_nowait()
            if isinstance(event, Measured | Broken):
                self._take_in(event)
        LOG.info("halt reason=%r exit_code=%d", self._halt.reason, self._halt.exit_code)
        return self._halt.exit_code

    def _now(self) -> Seconds:
        """Unix seconds that never go back."""
        return self._epoch + time.monotonic()

    def _join(self) -> None:
        """Waits for the connection, for what is retained, and for the answer of an earlier process, if there is one."""
        while not (self._vigil.is_up and self._membership.is_clear(self._now())):
            self._collect(0.05)
        self._membership.join()

    def _step(self) -> None:
        """Takes in what has arrived, then gives the node one event of each sort."""
        now = self._now()
        until = min(self._timers.due, self._courier.due, now + 1.0)
        self._collect(0.0 if len(self._mailbox) else max(0.0, until - now))
        now = self._now()
        name = self._timers.take(now)
        if name is not None:
            self._perform(self.node.on_wake(name, now))
        item = self._mailbox.take() if self._halt is None else None
        if item is not None:
            self._perform(self.node.on_message(*item, now))
        if self._courier.due <= now and self._vigil.is_up:
            for peer, error in self._courier.resend(now):
                self._drop(peer, error, tell=False)

    def _collect(self, timeout: Seconds) -> None:
        """Takes in all that is in the inbox, waiting up to `timeout` for the first."""
        if timeout > 0.0:
            with suppress(queue.Empty):
                self._take_in(self._inbox.get(timeout=timeout))
        for _ in range(self._inbox.qsize()):
            self._take_in(self._inbox.get_nowait())
        now = self._now()
        if now >= self._watch_at:
            self._watch_at = now + 0.1
            self._watch(now)

    def _watch(self, now: Seconds) -> None:
        note = self._vigil.check(now)
        if note is not None:
            LOG.warning("connection %s", note)
        lost = self._link.take_lost()
        if lost:
            self._drop(self.identity.node_id, WireError(f"inbox: {lost} payloads: expected them to come more slowly"))
        if self._link.is_misunderstood:
            self._note("connection", {"state": "downgraded", "reason": "no MQTT 5 here"}, logging.WARNING)
            self._link.downgrade()
        if not self._link.is_alive:
            raise TransportError("network thread: ended: expected it to run as long as this process")

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
                self._perform(self.node.on_wake(INTERRUPTED, self._now()))
            case Denied(reason):
                self._drop(self.identity.node_id, WireError(f"publication: {reason}: expected the broker to take it"))
            case Refused(reason):
                raise TransportError(f"broker {self.address}: {reason}: expected it to serve {self.identity.node_id}")
            case Broken(error):
                raise error

    def _arrived(self, event: Arrived) -> None:
        self._link.took(len(event.payload))
        try:
            presence = self._reception.admit(event.topic, event.payload, self._now())
        except WireError as error:
            self._drop(self._reception.sender_of(event.topic), error)
            return
        if presence is not None:
            self._membership.judge(presence, retained=event.retained)

    def _connected(self, protocol: str) -> None:
        self._vigil.up()
        self._membership.connected(self._now())
        self._note("connection", {"state": "up", "broker": str(self.address), "protocol": protocol})
        if self._is_started:
            self._courier.repeat_state()
            self._perform(self.node.on_wake(CONNECTED, self._now()))

    def _perform(self, effects: Sequence[Effect]) -> None:
        """Performs effects at once: their tensors are valid until the node's next event only."""
        now = self._now()
        for effect in effects:
            match effect:
                case Send(to, message):
                    try:
                        self._courier.send(to, message, now)
                    except WireError as error:
                        self._drop(self.identity.node_id, error, tell=False)
                case Wake(name, after):
                    self._timers.set(name, now + after)
                case Record(kind, row):
                    self.recorder.append(kind, row, now)
                case Measure(version, tensors):
                    self._measure(version, tensors)
                case Halt():
                    self._halt = effect

    def _measure(self, version: int, tensors: Tensors) -> None:
        skipped = self._measurer.submit(version, tensors)
        if skipped is not None:
            self._note("skipped", {"version": skipped, "reason": "evaluations are asked for faster than made"})

    def _drop(self, sender: NodeId, error: WireError, *, tell: bool = True) -> None:
        """Records what was thrown away, and has the cloud tell the edge that sent it."""
        now = self._now()
        if self._journal.dropped(sender, str(error), now) and tell and self._topics.is_edge(sender) and self._is_cloud:
            self._courier.send(sender, Refusal(reason=str(error)[:500]), now)

    def _note(self, kind: str, row: Mapping[str, object], level: int = logging.INFO) -> None:
        self._journal.note(kind, row, self._now(), level)

    def _fail(self, error: BaseException, *, tell: bool) -> None:
        """Records why this process ends before its time, tells the other side, and disconnects."""
        reason = self._journal.failed(error, self._now())[:500]
        if tell and self._vigil.is_up:
            is_failure = not isinstance(error, KeyboardInterrupt)
            bye = Bye(reason=reason, boot=self.identity.boot, failed=is_failure)
            self._perform([Send(EDGES, Stop(reason=reason, failed=True)) if self._is_cloud else Send(CLOUD, bye)])
        self._link.close(FLUSH if tell else 0.0, leave=tell)
        self._measurer.finish(discard=True)
