"""This process's place in the run: it joins once nobody else uses its id, and says who is here from then on."""

from __future__ import annotations

import logging

from common.errors import TransportError
from common.identity import Identity
from common.link import KEEPALIVE, Link
from common.node import Seconds
from common.presence import Claim, Presence, State, Verdict

LOG = logging.getLogger(__name__)
SETTLE = 0.3
"""Seconds from the first subscription until what was retained has arrived."""
_ASK = 1.5 * KEEPALIVE + 5  # by then the broker has sent the last will of a process that is gone


class Membership:
    """The presence of one process on its own status topic."""

    def __init__(self, identity: Identity, link: Link) -> None:
        self._identity, self._link = identity, link
        self._claim = Claim(identity.boot)
        self._since: Seconds = 0.0

    def connected(self, now: Seconds) -> None:
        """The subscriptions are in force, what is retained will arrive."""
        self._since, self._claim.rival = now, None

    def is_clear(self, now: Seconds) -> bool:
        """Whether this process may join: nobody answers for an earlier one, and its last will has had its time."""
        return now >= self._since + (SETTLE if self._claim.rival is None else _ASK)

    def join(self) -> None:
        """Announces this process."""
        self._claim.announced = True
        self._link.announce(presence_of(self._identity, "online"))

    def judge(self, presence: Presence, *, retained: bool) -> None:
        """Reacts to what somebody said on this node's own status topic.

        Raises:
            TransportError: an earlier process uses this id.
        """
        match self._claim.judge(presence, retained=retained):
            case Verdict.ASK:
                LOG.warning("twin process=%s state=asked", presence.boot)
                self._link.ask(presence_of(self._identity, "asking"))
            case Verdict.ANNOUNCE:
                self._link.announce(presence_of(self._identity, "online"))
            case Verdict.STOP:
                raise self._twin(presence.boot)

    def _twin(self, boot: str) -> TransportError:
        return TransportError(
            f"{self._identity.node_id} is already running as process {boot}: expected one process for each id"
        )


def presence_of(identity: Identity, state: State) -> bytes:
    """What a status topic says of a process."""
    return Presence(state=state, boot=identity.boot).encode()
