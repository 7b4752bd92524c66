"""How long a connection may be down, and how often one says so."""

from __future__ import annotations

from common.address import Address
from common.errors import TransportError
from common.node import Seconds

NOTE = 3.0
"""Seconds between two lines about the same trouble."""


class Vigil:
    """Watches over one connection."""

    def __init__(self, address: Address, patience: Seconds, patience_lost: Seconds, now: Seconds) -> None:
        """`patience`: seconds until the first connection stands; `patience_lost`: seconds it may be lost later."""
        self._address, self._patience, self._patience_lost = address, patience, patience_lost
        self._since: Seconds | None = now
        self._noted = now
        self._reason = "no answer"

    @property
    def is_up(self) -> bool:
        """Whether the connection stands."""
        return self._since is None

    def up(self) -> None:
        """The connection stands."""
        self._since, self._patience = None, self._patience_lost

    def down(self, now: Seconds, reason: str) -> bool:
        """There is no connection. True if there was one."""
        self._reason = reason
        if self._since is not None:
            return False
        self._since = self._noted = now
        return True

    def excuse(self, until: Seconds) -> None:
        """There will be no connection until then, and nothing is wrong with that: patience counts from there on."""
        self._since = self._noted = until

    def check(self, now: Seconds) -> str | None:
        """A line to log if it is time for one.

        Raises:
            TransportError: there has been no connection for too long.
        """
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
