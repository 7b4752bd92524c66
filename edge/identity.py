"""Which edge a process is: told by its environment, or read from the name of its container.

Replicas of one compose service are started from one description, so nothing they are given tells them apart.
Their container names do (`<project>-edge-3`), and the engine's name server answers a reverse lookup of a container's
own address with that name. The number is as stable as the name: a killed and restarted replica keeps both.
"""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Callable, Mapping
from pathlib import Path

from common.errors import ConfigError, Fault

SLUG = re.compile(r"[a-z0-9][a-z0-9-]{0,47}")
REPLICA = re.compile(r"-(\d+)(?:\.|$)")
RESOLVERS = Path("/etc/resolv.conf")
POINTER = 12
INTERNET = 1
COMPRESSED = 0xC0
ATTEMPTS = 3
TIMEOUT = 2.0
"""Seconds for one answer of the name server."""


def identify(environment: Mapping[str, str], own_name: Callable[[], str | None] | None = None) -> str:
    """The id of this edge, such as `edge-0003`.

    Args:
        environment: `EDGE_ID` names the edge; else `EDGE_INDEX` (1, 2, ...) numbers it; else the number is that of
            the container. `EDGE_OFFSET` (default 0) is added to a number, so that a second host's edges differ
            from the first's.
        own_name: gives the name of this container, or None outside one; by default the name server is asked.

    Raises:
        ConfigError: a variable is malformed, or nothing tells which edge this is.
    """
    if name := environment.get("EDGE_ID"):
        if not SLUG.fullmatch(name):
            raise ConfigError(Fault("EDGE_ID", name, "up to 48 of a-z, 0-9 and -, such as edge-0001"))
        return name
    if environment.get("EDGE_INDEX"):
        index = _whole(environment, "EDGE_INDEX", 1)
    else:
        name = (own_name or container_name)()
        found = REPLICA.search(name or "")
        if not found:
            expected = "a container name that ends in a number, as compose gives; or set EDGE_ID or EDGE_INDEX"
            raise ConfigError(Fault("edge identity", name, expected))
        index = int(found[1])
    return f"edge-{index + _whole(environment, 'EDGE_OFFSET', 0):04d}"


def container_name(resolvers: Path = RESOLVERS, port: int = 53) -> str | None:
    """The name that the network's name server has for this machine's own address; None if it has none.

    The system's own resolver cannot be asked: /etc/hosts, which it reads first, gives the container's id.
    """
    try:
        servers = re.findall(r"^nameserver\s+([\d.]+)\s*$", resolvers.read_text(encoding="utf-8"), re.MULTILINE)
        address = socket.gethostbyname(socket.gethostname())
    except OSError:
        return None
    question = _question(address)
    for server in servers[:1] * ATTEMPTS:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
            link.settimeout(TIMEOUT)
            try:
                link.connect((server, port))
                link.send(question)
                return _answer(link.recv(512), question)
            except OSError:
                continue
    return None


def _question(address: str) -> bytes:
    """A reverse query for an IPv4 address (RFC 1035, section 4.1)."""
    labels = [*reversed(address.split(".")), "in-addr", "arpa"]
    name = b"".join(bytes([len(label)]) + label.encode("ascii") for label in labels)
    return struct.pack(">6H", 1, 0x0100, 1, 0, 0, 0) + name + b"\0" + struct.pack(">2H", POINTER, INTERNET)


def _answer(reply: bytes, question: bytes) -> str | None:
    """The name in the reply's first answer, or None if that is no pointer record."""
    try:
        _, offset = _name(reply, len(question))
        (kind,) = struct.unpack_from(">H", reply, offset)
        return _name(reply, offset + 10)[0] if kind == POINTER else None
    except (struct.error, IndexError, UnicodeDecodeError):
        return None


def _name(reply: bytes, offset: int) -> tuple[str, int]:
    """The name at `offset` and the offset after it; names may end in a pointer to an earlier one (section 4.1.4)."""
    labels: list[str] = []
    end = 0
    for _ in range(len(reply)):  # more labels than bytes: a pointer leads back to itself
        length = reply[offset]
        if length == 0:
            return ".".join(labels), end or offset + 1
        if length >= COMPRESSED:
            end = end or offset + 2
            offset = (length - COMPRESSED) << 8 | reply[offset + 1]
        else:
            labels.append(reply[offset + 1 : offset + 1 + length].decode("ascii"))
            offset += 1 + length
    raise IndexError(offset)


def _whole(environment: Mapping[str, str], variable: str, least: int) -> int:
    text = environment.get(variable) or str(least)
    if not re.fullmatch(r"[0-9]{1,6}", text) or int(text) < least:
        raise ConfigError(Fault(variable, text, f"a whole number, {least} or more"))
    return int(text)
