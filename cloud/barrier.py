"""Which updates make the next step: each by itself (asynchronous), or one of every edge (synchronous)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from cloud.roster import Roster
from common.messages import Update
from common.node import NodeId


@dataclass(frozen=True, slots=True)
class Arrival:
    """An update and who sent it."""

    edge: NodeId
    update: Update


class Collector(Protocol):
    """Holds accepted updates until they are due."""

    has_deadline: bool
    """Whether a silent edge can hold up the others, so that somebody has to watch the clock."""

    def put(self, arrival: Arrival) -> None:
        """Adds an update."""
        ...

    def take(self, roster: Roster) -> Sequence[Arrival]:
        """The updates of the next step, removed; none if it is not due yet."""
        ...

    def holds(self, edge: NodeId) -> bool:
        """Whether this edge has to wait for the step its update is in."""
        ...

    def expire(self, roster: Roster) -> None:
        """The deadline passed: the updates that are here are due, if there are any; who is missing counts as silent."""
        ...


class Line:
    """First in, first out, one update a step."""

    has_deadline = False
    STATE = ("_arrivals",)

    def __init__(self) -> None:
        self._arrivals: deque[Arrival] = deque()

    def put(self, arrival: Arrival) -> None:
        """Adds an update at the end of the line."""
        self._arrivals.append(arrival)

    def take(self, roster: Roster) -> Sequence[Arrival]:
        """The oldest update."""
        return (self._arrivals.popleft(),) if self._arrivals else ()

    def holds(self, edge: NodeId) -> bool:
        """No edge waits for another."""
        return False

    def expire(self, roster: Roster) -> None:
        """Nothing to do: updates are due as they come."""


class Barrier:
    """One update of every edge that is worth waiting for, in order of the edges' names; closes once for each step."""

    has_deadline = True
    STATE = ("_arrivals", "_is_expired")

    def __init__(self) -> None:
        self._arrivals: dict[NodeId, Arrival] = {}
        self._is_expired = False

    def put(self, arrival: Arrival) -> None:
        """Adds an edge's update; a newer one of the same edge replaces it."""
        self._arrivals[arrival.edge] = arrival

    def take(self, roster: Roster) -> Sequence[Arrival]:
        """All updates, if none is missing or the deadline passed; the order never depends on the delivery."""
        if not self._arrivals:
            return ()
        if not (self._is_expired or roster.have_all_been_heard(self._arrivals)):
            return ()
        batch = [self._arrivals[edge] for edge in sorted(self._arrivals)]
        self._arrivals.clear()
        self._is_expired = False
        return batch

    def holds(self, edge: NodeId) -> bool:
        """An edge whose update is in waits for the step."""
        return edge in self._arrivals

    def expire(self, roster: Roster) -> None:
        """Closes with the updates that are here; with none, the next deadline counts."""
        self._is_expired = bool(self._arrivals)
        if self._is_expired:
            roster.silence(self._arrivals)
