"""What a node has yet to read: each message once, the newest model only, Stop first.

Delivery may repeat (QoS 1, reconnects, resends) and overtake. A message is known by its sender, the sender's process
and its number there. All memory is bounded: of a process the newest numbers, of a sender a few processes, and a
limited number of senders.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush

from common.errors import WireError
from common.messages import Message, Model, Probe, Stop
from common.node import NodeId
from common.wire import Envelope

NUMBERS = 512
"""Numbers remembered of one process; those below a forgotten one count as seen."""
BOOTS = 4
"""Processes remembered of one sender."""
WAITING = 64
"""Messages that one sender may have waiting."""


class _Seen:
    """The numbers of one process that arrived: all up to a floor, and some beyond.

    What a process says to one other node is numbered without gaps, so of a thousand edges a cloud keeps a number each.
    """

    __slots__ = ("_beyond", "_floor", "_has_zero", "_known")

    def __init__(self) -> None:
        self._floor = 0
        self._has_zero = False  # which nobody has to begin with
        self._beyond: list[int] = []  # a heap
        self._known: set[int] = set()

    def add(self, number: int) -> bool:
        """Whether this number is new."""
        if number == 0:
            is_new, self._has_zero = not self._has_zero, True
            return is_new
        if number <= self._floor or number in self._known:
            return False
        heappush(self._beyond, number)
        self._known.add(number)
        if len(self._beyond) > NUMBERS:
            self._raise_floor()
        while self._beyond and self._beyond[0] == self._floor + 1:
            self._raise_floor()
        return True

    def _raise_floor(self) -> None:
        self._floor = heappop(self._beyond)
        self._known.remove(self._floor)


class Mailbox:
    """The messages of one run that one node has not read."""

    def __init__(self, run: str, senders: int = 100_000) -> None:
        self._run = run
        self._limit = senders
        self._seen: dict[NodeId, dict[str, _Seen]] = {}
        self._waiting: dict[NodeId, int] = {}
        self._queue: deque[tuple[NodeId, Envelope | None, Message]] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def has_stop(self) -> bool:
        """Whether the next message is a Stop."""
        return bool(self._queue) and isinstance(self._queue[0][2], Stop)

    def put(self, sender: NodeId, envelope: Envelope) -> bool:
        """Takes a message in. False: it came before, or a newer model of its sender waits already.

        Raises:
            WireError: another run's, one sender too many, or a sender that floods.
        """
        if envelope.run != self._run:
            raise WireError(f"run: {envelope.run}: expected {self._run}")
        if self._waiting.get(sender, 0) >= WAITING and not isinstance(envelope.message, Stop):
            raise WireError(f"{WAITING} messages of {sender} wait already: expected it to wait for an answer")
        if not self._is_new(sender, envelope):
            return False
        if isinstance(envelope.message, Model | Probe) and not self._supersede(sender, envelope):
            return False
        if isinstance(envelope.message, Stop):
            self._queue.appendleft((sender, envelope, envelope.message))
        else:
            self._queue.append((sender, envelope, envelope.message))
        self._waiting[sender] = self._waiting.get(sender, 0) + 1
        return True

    def add(self, sender: NodeId, message: Message) -> None:
        """Puts in what the shell itself has to say about a sender, behind all that the sender sent."""
        self._queue.append((sender, None, message))

    def take(self) -> tuple[NodeId, Message] | None:
        """The next message and its sender; None if nothing waits."""
        if not self._queue:
            return None
        sender, envelope, message = self._queue.popleft()
        if envelope is not None:
            self._release(sender)
        return sender, message

    def _is_new(self, sender: NodeId, envelope: Envelope) -> bool:
        boots = self._seen.get(sender)
        if boots is None:
            if len(self._seen) >= self._limit:
                raise WireError(f"sender: {sender}: expected at most {self._limit} senders")
            boots = self._seen[sender] = {}
        seen = boots.get(envelope.boot)
        if seen is None:
            if len(boots) >= BOOTS:
                del boots[next(iter(boots))]
            seen = boots[envelope.boot] = _Seen()
        return seen.add(envelope.number)

    def _supersede(self, sender: NodeId, envelope: Envelope) -> bool:
        """Removes what this work replaces; False if newer work of the same process waits."""
        for place, (other, waiting, message) in enumerate(self._queue):
            if waiting is not None and other == sender and isinstance(message, Model | Probe):
                if waiting.boot == envelope.boot and waiting.number > envelope.number:
                    return False
                del self._queue[place]
                self._release(sender)
                break
        return True

    def _release(self, sender: NodeId) -> None:
        left = self._waiting[sender] - 1
        if left:
            self._waiting[sender] = left
        else:
            del self._waiting[sender]
