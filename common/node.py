"""Nodes decide, shells act: the seam between an algorithm half and whatever runs it.

A node reacts to one event with a list of effects. It never waits, sends, reads a clock, or draws from a global
random source. A shell (broker, simulator, test harness) does exactly that and nothing else.

Tensors inside an effect are valid only until the node's next event: a shell encodes or copies them at once, so
that a node may hand out its live parameter buffer without a copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from common.messages import Message
from common.tensors import Tensors

Seconds = float
NodeId = str

CLOUD: NodeId = "cloud"
CONNECTED = "connected"
"""Name of the wake-up by which a shell tells that the link to the broker is up (again)."""
INTERRUPTED = "interrupted"
"""Name of the wake-up by which a shell tells that a person (SIGINT, SIGTERM) wants the node to end in good order."""


class Group(Enum):
    """A destination that is more than one node."""

    EDGES = "edges"


EDGES = Group.EDGES


@dataclass(frozen=True, slots=True)
class Send:
    """Hand `message` to one node, or to a group."""

    to: NodeId | Group
    message: Message


@dataclass(frozen=True, slots=True)
class Wake:
    """Call `on_wake(name)` in `after` seconds; a newer wake-up of the same name replaces this one."""

    name: str
    after: Seconds


@dataclass(frozen=True, slots=True)
class Record:
    """Append a row to this node's records; the shell adds run, node and time."""

    kind: str
    row: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Measure:
    """Evaluate these parameters on the public test set, off the update path; the shell records the result."""

    version: int
    tensors: Tensors


@dataclass(frozen=True, slots=True)
class Halt:
    """This node is done; the process exits with `exit_code`."""

    reason: str
    exit_code: int = 0


Effect = Send | Wake | Record | Measure | Halt


class Node(Protocol):
    """One half of an algorithm. Deterministic: same seed and same events, same effects."""

    def start(self, now: Seconds) -> Sequence[Effect]:
        """Called once, before any event."""
        ...

    def on_message(self, sender: NodeId, message: Message, now: Seconds) -> Sequence[Effect]:
        """A message arrived; its sender is authenticated and it was not delivered before."""
        ...

    def on_wake(self, name: str, now: Seconds) -> Sequence[Effect]:
        """A wake-up asked for earlier is due, or the shell tells of `CONNECTED`."""
        ...
