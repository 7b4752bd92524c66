"""How long a connection may be down, and how often one says so."""

from __future__ import annotations

from common.address import Address
from common.errors import TransportError
from common.node import Seconds

NOTE = 3.0
"""Seconds between two lines about the same trouble."""
BRIEF, STABLE = 3.0, 30.0
"""Seconds: a connection that lasts less was cut off at once; one that lasts more had no rival until then."""
FEW, MANY = 10, 40
"""Connections in a row that may be cut off at once: for a process that never had a stable one, and for one that had.
So of two that cut each other off, about once a second, the one that came later gives up. A line that breaks as often as
that is of no use to anybody; one that breaks less often is not meant."""


class Vigil:
    """Watches over one connection."""

    def __init__(self, address: Address, patience: Seconds, patience_lost: Seconds, now: Seconds) -> None:
        """`patience`: seconds until the first connection stands; `patience_lost`: seconds it may be lost later."""
        self._address, self._patience, self._patience_lost = address, patience, patience_lost
        self._since: Seconds | None = now
        self._noted = now
        self._reason = "no answer"
        self._up_at: Seconds = now
        self._is_tried = False
        self._brief = 0

    @property
    def is_up(self) -> bool:
        """Whether the connection stands."""
        return self._since is None

    def up(self, now: Seconds) -> None:
        """The connection stands."""
        self._since, self._patience = None, self._patience_lost
        self._up_at = now

    def down(self, now: Seconds, reason: str) -> bool:
        """There is no connection. True if there was one."""
        self._reason = reason
        if self._since is not None:
            return False
        self._is_tried |= now - self._up_at > STABLE
        self._brief = self._brief + 1 if now - self._up_at < BRIEF else 0
        self._since = self._noted = now
        return True

    def excuse(self, until: Seconds) -> None:
        """There will be no connection until then, and nothing is wrong with that: patience counts from there on."""
        self._since = self._noted = until
        self._brief = 0

    def check(self, now: Seconds) -> str | None:
        """A line to log if it is time for one.

        Raises:
            TransportError: there has been no connection for too long, or it is cut off again and again.
        """
        if self._brief >= (MANY if self._is_tried else FEW):
            raise TransportError(
                f"broker {self._address}: {self._brief} connections in a row cut off at once ({self._reason}): "
                "expected one process for each identity (does another one, or another run, use this certificate?)"
            )
        if self._since is None:
            return None
        if now - self._since > self._patience:
            raise TransportError(
                f"broker {self._address}: {self._reason} for {self._patience:g} s: expected an MQTT broker there"
            )
        if now - self._noted < NOTE:
            return None
        self._noted = now
        return f"broker={self._address} state=trying reason={self._reason!r} seconds={now - self._since:.0f}"
