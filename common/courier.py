"""Messages out and in: stamps, encodes and routes them; takes chunks apart and puts them together.

Pure: what it publishes goes through a function it is given, the time comes from its caller.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from common.errors import LocalProtocolError, WireError
from common.identity import Identity
from common.messages import Message, Model, Probe
from common.node import CLOUD, Group, NodeId, Seconds
from common.tensors import Layout
from common.topics import Origin, Topics
from common.transfer import CHUNK, FRAME, Incoming, Outgoing, count_of
from common.wire import Envelope, Limits, Payload, decode, encode


class Publish(Protocol):
    """Hands a payload to the network; False if there is no room for it."""

    def __call__(self, topic: str, payload: bytes, retained: bool = False) -> bool:
        """Publishes `payload` on `topic`."""
        ...


class Courier:
    """The messages between one node and the others."""

    def __init__(  # noqa: PLR0917 - what it works with
        self,
        identity: Identity,
        topics: Topics,
        publish: Publish,
        room: Callable[[], int],
        layout: Layout | None,
        asked: Callable[[NodeId, int], None] | None = None,
    ) -> None:
        """For one node.

        Args:
            identity: who it is.
            topics: its topics.
            publish: hands a payload to the network.
            room: bytes of a payload that the broker accepts.
            layout: what tensors must look like.
            asked: is told who was sent work, and of how many payloads the answer may be.
        """
        self._asked = asked
        self._run, self._boot = identity.run, identity.boot
        self._topics, self._publish, self._room = topics, publish, room
        self._layout, self._limits = layout, Limits.of(layout)
        self._number = 0
        self._going: dict[NodeId, Outgoing] = {}
        self._due: Seconds = math.inf  # no later than any of theirs
        self._coming = Incoming(self._limits.payload)
        self._state: bytes | None = None
        self._cloud: str | None = None

    def send(self, to: NodeId | Group, message: Message, now: Seconds, *, stays: bool = True) -> None:
        """Sends a message on its way. A large one that is on its way already is not sent a second time.

        `stays`: what is said to all is kept at the broker for those who come later.

        Raises:
            LocalProtocolError: this node may not say that to them.
            WireError: the message is too large, or there is no room for it.
        """
        route = self._topics.route(to, message)
        about = (message.kind, getattr(message, "ticket", None))
        going = self._going.get(route.peer) if route.peer is not None else None
        if going is not None and going.about == about:
            return
        self._number += 1
        payload = encode(Envelope(self._run, self._boot, self._number, now, message))
        room = min(CHUNK, self._room())
        if len(payload) <= room:
            if route.retained and stays:
                self._state = payload
            self._hand_over(route.topic, payload, route.retained and stays)
        elif route.peer is None:
            raise LocalProtocolError(f"{message.kind} to all: {len(payload)} bytes: expected at most {room}")
        else:
            self._going[route.peer] = Outgoing(payload, about, min(CHUNK, self._room() - FRAME))
            self._push(route.peer, now)
        if self._asked is not None and route.peer is not None and isinstance(message, Model | Probe):
            # An acknowledgement of each chunk there, each chunk of the answer, and all of it a second time.
            self._asked(route.peer, 2 + 4 * (count_of(self._limits.payload, room) if len(payload) > room else 0))

    def repeat_state(self) -> None:
        """Publishes the newest message to all again: a broker that restarted may have lost it."""
        if self._state is not None:
            self._hand_over(self._topics.state, self._state, True)

    def receive(self, origin: Origin, payload: Payload, now: Seconds) -> Envelope | None:
        """The message that a payload is, or completes.

        Raises:
            WireError: whatever is wrong with it.
        """
        if origin.part == "message":
            return self._known(origin, decode(payload, self._limits, self._layout))
        if origin.part == "chunk":
            answer, whole = self._coming.put(origin.sender, payload, now)
            self._hand_over(self._topics.lane(origin.sender, "ack"), answer, False)
            return None if whole is None else self._known(origin, decode(whole, self._limits, self._layout))
        going = self._going.get(origin.sender)
        if going is not None:
            going.acknowledge(payload, now)
            self._push(origin.sender, now)
        return None

    @property
    def due(self) -> Seconds:
        """When `resend` may have something to do, if nothing arrives before. Cheap for any number of peers."""
        return self._due if self._going else math.inf

    def resend(self, now: Seconds) -> list[tuple[NodeId, WireError]]:
        """Sends again what stayed unanswered. Gives what was given up, and why."""
        failed = []
        for peer in [peer for peer, going in self._going.items() if going.due <= now]:
            try:
                self._push(peer, now)
            except WireError as error:
                del self._going[peer]
                failed.append((peer, error))
        self._due = min((going.due for going in self._going.values()), default=math.inf)
        return failed

    def retract(self) -> None:
        """Gives up what is on its way to others: they have dropped what they had of it if they took this node for lost.

        An edge says its last words again on every connection, and this time all of them.
        """
        self._going.clear()

    def forget(self, peer: NodeId) -> None:
        """Drops unfinished transfers to and from a node that left."""
        self._going.pop(peer, None)
        self._coming.forget(peer)

    def _known(self, origin: Origin, envelope: Envelope) -> Envelope:
        """The envelope. Another process of the cloud has nothing of what is on its way to the one before."""
        if origin.sender == CLOUD and envelope.boot != self._cloud:
            self._cloud = envelope.boot
            self._going.pop(CLOUD, None)
        return envelope

    def _push(self, peer: NodeId, now: Seconds) -> None:
        going = self._going[peer]
        for frame in going.frames(now):
            self._hand_over(self._topics.lane(peer, "chunk"), frame, False)
        self._due = min(self._due, going.due)
        if going.is_done:
            del self._going[peer]

    def _hand_over(self, topic: str, payload: bytes, retained: bool) -> None:
        if not self._publish(topic, payload, retained):
            raise WireError(f"{topic}: {len(payload)} bytes: expected room in the queue to the broker")
