"""Who is let in, by topic and size alone, before anything is read: room, rate, strangers, and who is muted.

One edge must not be able to take the others' place, whatever it sends. So each sender has

    an allowance of payloads: `burst` at once and `rate` a second unasked, and as many again as it was asked for;
    so many bytes that wait to be read (`waiting`);
    an allowance of faults: `faults` at once and one again every `FORGIVE` seconds.

A fault is a payload that is too large, or came too fast, or could not be read, or was refused by the node. A sender
without faults left is muted: it is told once, the node hears that it left, and from then on its payloads are dropped
unread, by their topic. Who is not of this run may say a little (it has to hear why it is turned away), up to a number
of names; of all others nothing is read, or kept.

`lets_in` is called in the network thread, all else in the main thread.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Container
from dataclasses import dataclass, field

from pydantic import Field

from common.allowance import Allowance
from common.node import NodeId, Seconds
from common.section import Positive, Section
from common.topics import Topics
from common.transfer import CHUNK, FRAME

MOST_WAITING, MOST_BYTES = 65_536, 1 << 30
"""Payloads of all senders that may wait to be read, and their bytes; the rest is dropped, and asked for again."""
LARGEST = CHUNK + FRAME + 1024
"""Bytes of one payload: what is larger travels in chunks."""
FORGIVE: Seconds = 60.0
"""Seconds after which a fault is forgotten."""
STRANGE = (8.0, 0.2)
"""What a stranger may send: so much at once, so much a second; and so many faults."""


class Manners(Section):
    """What the cloud takes from one edge: `algorithm.cloud.manners`."""

    rate: Positive = Field(default=20.0, description="messages a second that nobody asked it for")
    burst: int = Field(default=500, ge=8, description="such messages at once, as after a lost connection")
    waiting: int = Field(default=8 * CHUNK, ge=2 * CHUNK, description="bytes that may wait to be read")
    faults: int = Field(default=100, ge=1, description="malformed or refused messages until it is muted")
    strangers: int = Field(default=16, ge=0, description="names that are none of the run's edges and may say Hello")


@dataclass(frozen=True)
class Guests:
    """Whom a node expects, and what it takes from each."""

    members: Container[NodeId]
    manners: Manners


@dataclass(frozen=True, slots=True)
class Muted:
    """A sender was muted for its last fault, `why`, after so many faults."""

    sender: NodeId
    why: str
    faults: int


@dataclass(slots=True)
class _Guest:
    """One sender. `unread`: payloads dropped by their topic alone."""

    payloads: Allowance
    patience: Allowance
    waiting: int = 0
    faults: int = 0
    unread: int = 0
    is_muted: bool = False


@dataclass
class _News:
    muted: list[Muted] = field(default_factory=list)
    lost: int = 0
    strange: int = 0


class Doorman:
    """The way in to one node. Without `guests` only the room of all senders together is bounded."""

    def __init__(self, topics: Topics, clock: Callable[[], Seconds], guests: Guests | None = None) -> None:
        self._topics, self._clock, self._guests = topics, clock, guests
        self._lock = threading.Lock()
        self._known: dict[NodeId, _Guest] = {}
        self._strangers = 0
        self._payloads = self._bytes = 0
        self._news = _News()

    # In the network thread

    def lets_in(self, topic: str, size: int) -> bool:
        """Whether a payload of `size` bytes may be read; whoever reads it calls `took`."""
        with self._lock:
            if self._payloads >= MOST_WAITING or self._bytes + size > MOST_BYTES:
                self._news.lost += 1
                return False
            if self._guests is not None and not self._is_welcome(topic, size, self._clock()):
                return False
            self._payloads += 1
            self._bytes += size
            return True

    def _is_welcome(self, topic: str, size: int, now: Seconds) -> bool:
        sender = self._sender_of(topic)
        if sender == self._topics.node:
            return True
        guest = self._guest(sender) if sender is not None else None
        if sender is None or guest is None:
            self._news.strange += 1
            return False
        if guest.is_muted:
            guest.unread += 1
            return False
        if size > LARGEST:
            fault = f"payload: {size} bytes: expected at most {LARGEST}, and the rest in chunks"
        elif guest.waiting + size > self._manners.waiting:
            fault = f"payloads: {guest.waiting + size} bytes wait: expected at most {self._manners.waiting} of one edge"
        elif not guest.payloads.take(now):
            fault = f"messages: more than {self._manners.rate:g} a second unasked: expected them to come more slowly"
        else:
            guest.waiting += size
            return True
        guest.unread += 1
        self._blame(sender, guest, fault, now)
        return False

    # In the main thread

    def took(self, topic: str, size: int) -> bool:
        """A payload that was let in is about to be read. False: its sender was muted since, so it is not."""
        with self._lock:
            self._payloads -= 1
            self._bytes -= size
            sender = self._sender_of(topic)
            guest = self._known.get(sender) if sender is not None else None
            if guest is None:
                return True
            guest.waiting -= size
            guest.unread += guest.is_muted
            return not guest.is_muted

    def asked(self, node: NodeId, answers: int) -> None:
        """This node was sent something that it may answer with so many payloads."""
        with self._lock:
            if self._guests is not None and (guest := self._guest(node)) is not None:
                guest.payloads.give(answers)

    def blame(self, sender: NodeId, why: str) -> None:
        """What this sender sent was of no use."""
        with self._lock:
            if self._guests is not None and (guest := self._known.get(sender)) is not None and not guest.is_muted:
                self._blame(sender, guest, why, self._clock())

    def is_muted(self, sender: NodeId) -> bool:
        """Whether nothing of this sender is read any more."""
        with self._lock:
            guest = self._known.get(sender)
            return guest is not None and guest.is_muted

    def take_muted(self) -> list[Muted]:
        """Who was muted since the last call."""
        with self._lock:
            muted, self._news.muted = self._news.muted, []
            return muted

    def take_lost(self) -> tuple[int, int]:
        """Payloads dropped since the last call for want of room, and those of strangers."""
        with self._lock:
            lost, self._news.lost = self._news.lost, 0
            strange, self._news.strange = self._news.strange, 0
            return lost, strange

    def unread(self) -> dict[NodeId, int]:
        """Of each muted sender the payloads that were dropped unread."""
        with self._lock:
            return {sender: guest.unread for sender, guest in self._known.items() if guest.is_muted}

    @property
    def _manners(self) -> Manners:
        assert self._guests is not None
        return self._guests.manners

    def _sender_of(self, topic: str) -> NodeId | None:
        origin = self._topics.origin(topic)
        return None if origin is None else origin.sender

    def _guest(self, sender: NodeId) -> _Guest | None:
        """What is known of a sender; None for one stranger too many."""
        guest = self._known.get(sender)
        if guest is not None:
            return guest
        manners, most, rate = self._manners, math.inf, math.inf
        if self._guests is not None and sender not in self._guests.members:
            if self._strangers >= manners.strangers:
                return None
            self._strangers += 1
            most, rate = STRANGE
        payloads = Allowance(min(manners.burst, most), min(manners.rate, rate))
        guest = _Guest(payloads, Allowance(min(manners.faults, most), 1 / FORGIVE))
        self._known[sender] = guest
        return guest

    def _blame(self, sender: NodeId, guest: _Guest, why: str, now: Seconds) -> None:
        guest.faults += 1
        if not guest.patience.take(now):
            guest.is_muted = True
            self._news.muted.append(Muted(sender, why, guest.faults))
