"""What is in a node's inbox: payloads, and news of its connection."""

from __future__ import annotations

from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from common.address import Protocol


@dataclass(slots=True)
class Arrived:
    """A payload arrived. `retained`: it is what was left on the topic, not news."""

    topic: str
    payload: bytes | bytearray
    retained: bool


@dataclass(slots=True)
class Ready:
    """The link is up and all subscriptions are in force."""

    protocol: Protocol


@dataclass(slots=True)
class Down:
    """There is no connection. The client goes on trying."""

    reason: str


@dataclass(slots=True)
class Refused:
    """There will be no connection, and trying again is of no use. `expected`: what would mend it."""

    reason: str
    expected: str


@dataclass(slots=True)
class Denied:
    """The broker took a publication and threw it away."""

    reason: str


@dataclass(slots=True)
class Broken:
    """Something of ours raised an exception in another thread."""

    error: BaseException


class Interrupted:
    """Somebody wants this process to end in good order."""


Inbox = SimpleQueue[Any]
"""What the threads of a process tell the one that runs its node."""
