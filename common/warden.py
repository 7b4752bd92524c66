"""Looks ten times a second whether all is well with one node's connection and at its door, and acts where it is not."""

from __future__ import annotations

import logging

from common.doorman import Doorman
from common.errors import TransportError, WireError
from common.link import Link
from common.node import NodeId, Seconds
from common.performer import Performer
from common.reception import Reception
from common.vigil import Vigil

LOG = logging.getLogger(__name__)
_EVERY: Seconds = 0.1


class Warden:
    """What a shell has to see to besides events."""

    def __init__(self, node: NodeId, link: Link, vigil: Vigil, doorman: Doorman) -> None:
        self._node, self._link, self._vigil, self._doorman = node, link, vigil, doorman
        self._next: Seconds = 0.0

    def watch(self, reception: Reception, performer: Performer, now: Seconds) -> None:
        """Looks, if it is time.

        Raises:
            TransportError: the connection is lost for good, or the network thread has ended.
        """
        if now < self._next:
            return
        self._next = now + _EVERY
        note = self._vigil.check(now)
        if note is not None:
            LOG.warning("connection %s", note)
        self._clear(reception, performer, now)
        if self._link.is_misunderstood:
            row = {"state": "downgraded", "reason": "no MQTT 5 here"}
            performer.note("connection", row, now, logging.WARNING)
            self._link.downgrade()
        if not self._link.is_alive:
            raise TransportError("network thread: ended: expected it to run as long as this process")

    def close(self, reception: Reception, performer: Performer, now: Seconds) -> None:
        """Writes down what happened at the door since the last look, and what was never read."""
        self._clear(reception, performer, now)
        for sender, count in self._doorman.unread().items():
            performer.note("unread", {"sender": sender, "count": count}, now)

    def _clear(self, reception: Reception, performer: Performer, now: Seconds) -> None:
        lost, strange = self._doorman.take_lost()
        if lost:
            error = WireError(f"inbox: {lost} payloads: expected them to come more slowly")
            performer.drop(self._node, error, now, tell=False)
        if strange:
            error = WireError(f"topics: {strange} payloads of strangers: expected edges of this run")
            performer.drop("strangers", error, now, tell=False)
        for muted in self._doorman.take_muted():
            performer.mute(muted, now)
            reception.expel(muted.sender, muted.why)
