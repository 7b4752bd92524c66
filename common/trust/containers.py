"""Which node a container is, from its address: the engine's name server knows the containers of a network by name.

A container cannot answer for another one's address, and gets no raw sockets with which it could pretend to.
"""

from __future__ import annotations

import re
import socket

PARTS = ("cloud", "edge", "broker")
DOMAIN = "mapa.internal"


def node_at(address: str, project: str, offset: int) -> str | None:
    """The node at this address: `cloud`, or `edge-0003` for the third replica; None for any other container."""
    try:
        return node_of(socket.gethostbyaddr(address)[0], project, offset)
    except OSError:
        return None


def node_of(container: str, project: str, offset: int) -> str | None:
    """The node in a container `<project>-<service>-<number>`, with or without the name of its network."""
    found = re.fullmatch(rf"{re.escape(project)}-(cloud|edge)-([1-9][0-9]{{0,5}})(\..*)?", container)
    if found is None:
        return None
    return "cloud" if found[1] == "cloud" else f"edge-{int(found[2]) + offset:04d}"


def anybody() -> bool:
    """Whether any part of the run has a name in this network. The final dot keeps search domains out."""
    return any(_is_there(f"{part}.{DOMAIN}.") for part in PARTS)


def _is_there(name: str) -> bool:
    try:
        socket.gethostbyname(name)
    except OSError:
        return False
    return True


def hosts_of(published: str) -> list[str]:
    """The names and addresses in a list such as `192.168.1.10:8883 fl.example.org`, without those that mean "all"."""
    found = []
    for word in published.replace(",", " ").split():
        host, colon, port = word.rpartition(":")
        name = (host if colon and (port.isdecimal() or not port) else word).strip("[]")
        if name and not name.isdecimal() and name not in ("0.0.0.0", "::"):  # noqa: S104 - not listened on
            found.append(name)
    return found
