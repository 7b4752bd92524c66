"""Waits for a broker that somebody else runs, so that nothing is started against one that is not there."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from common.address import Address
from common.errors import TransportError

PATIENCE = 10.0
"""Seconds that a broker may take to answer, e.g. while it is being restarted."""
_PAUSE, _NOTE = 0.5, 3.0


def wait_for(address: Address, say: Callable[[str], None], is_stopped: Callable[[], bool]) -> None:
    """Returns as soon as the broker's port accepts a connection; tells every few seconds that it does not.

    Raises:
        TransportError: it did not within `PATIENCE`.
        KeyboardInterrupt: a person wants to stop.
    """
    began = noted = time.monotonic()
    while not is_stopped():
        try:
            socket.create_connection((address.host, address.port), timeout=_NOTE).close()
        except OSError as error:
            now = time.monotonic()
            if now - began > PATIENCE:
                text = f"broker {address}: {error} for {PATIENCE:.0f} s: expected an MQTT broker there"
                raise TransportError(text) from error
            if now - noted > _NOTE:
                noted = now
                say(f"broker {address}: {error}; trying again")
            time.sleep(_PAUSE)
        else:
            return
    raise KeyboardInterrupt
