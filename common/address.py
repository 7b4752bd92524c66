"""Where a broker is and how to talk to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from common.errors import ConfigError, Fault

Protocol = Literal["5", "3.1.1"]
PORT, TLS_PORT = 1883, 8883
"""The ports of MQTT without encryption, and with TLS."""


@dataclass(frozen=True)
class Tls:
    """Files of a TLS connection: whom to trust, and this side's own certificate and key if the broker asks."""

    ca: str
    certificate: str | None = None
    key: str | None = None


@dataclass(frozen=True)
class Address:
    """A broker's host and port, the credentials it wants, and the newest MQTT version to try."""

    host: str
    port: int = PORT
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: Tls | None = None
    protocol: Protocol = "5"

    @classmethod
    def parse(cls, text: str, port_by_default: int = PORT) -> Address:
        """Reads `host`, `host:port` or `[address]:port`.

        Raises:
            ConfigError: no host, or a port that is no number from 1 to 65535.
        """
        if text.startswith("["):
            host, _, rest = text[1:].partition("]")
            port = rest.removeprefix(":") if rest[:1] in {"", ":"} else "?"
        elif text.count(":") > 1:
            host, port = text, ""
        else:
            host, _, port = text.partition(":")
        if not host or (port and not (port.isdecimal() and 1 <= int(port) <= 65535)):
            raise ConfigError(Fault("broker", text, "host or host:port, the port from 1 to 65535"))
        return cls(host, int(port) if port else port_by_default)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
