"""What arrives, sorted: messages into the mailbox, who comes and goes into the attendance list."""

from __future__ import annotations

from common.courier import Courier
from common.errors import WireError
from common.mailbox import Mailbox
from common.messages import Bye
from common.node import CLOUD, NodeId, Seconds
from common.presence import Attendance, Presence
from common.topics import Topics
from common.wire import Payload


class Reception:
    """The way in to one node."""

    def __init__(self, node: NodeId, topics: Topics, courier: Courier, mailbox: Mailbox) -> None:
        self._node, self._is_cloud = node, node == CLOUD
        self._topics, self._courier, self._mailbox = topics, courier, mailbox
        self._attendance = Attendance()

    def sender_of(self, topic: str) -> str:
        """Who wrote a topic; the topic itself if it is none of this run's."""
        origin = self._topics.origin(topic)
        return origin.sender if origin is not None else topic[:100]

    def admit(self, topic: str, payload: Payload, now: Seconds) -> Presence | None:
        """Takes in one payload. Gives back what somebody said about the presence of this very node.

        Raises:
            WireError: whatever is wrong with it.
        """
        origin = self._topics.origin(topic)
        if origin is None:
            raise WireError(f"topic: {topic[:100]!a}: expected one of this run")
        if origin.part == "status":
            presence = Presence.decode(payload)
            if origin.sender == self._node:
                return presence
            self._note(origin.sender, presence)
            return None
        envelope = self._courier.receive(origin, payload, now)
        if envelope is not None and self._mailbox.put(origin.sender, envelope) and self._is_cloud:
            if isinstance(envelope.message, Bye):
                self._attendance.left(origin.sender, envelope.boot)
            else:
                self._attendance.heard(origin.sender, envelope.boot)
        return None

    def expel(self, edge: NodeId, reason: str) -> None:
        """Nothing of this edge is read any more: for the node, it has left."""
        self._courier.forget(edge)
        self._mailbox.add(edge, Bye(reason=f"muted: {reason}"[:500]))

    def _note(self, edge: NodeId, presence: Presence) -> None:
        """An edge came or went; for one that went without a word, the node gets a `Bye`."""
        if presence.state == "online":
            self._attendance.heard(edge, presence.boot)
        elif presence.state == "offline" and self._attendance.left(edge, presence.boot):
            self._courier.forget(edge)
            self._mailbox.add(edge, Bye(reason="connection lost"))
