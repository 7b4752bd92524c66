"""How often an edge may do what leaves a row in the records, or makes the cloud send a model: come, go, and report.

Honest edges never reach it. It is part of the node's state all the same: who goes through the events again has to come
to the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cloud.roster import Presence, Seat
from common.allowance import Allowance
from common.node import NodeId, Seconds

MOVES, MOVE = 40, 5.0
"""So often an edge may come, or say Bye again, at once; and once more every so many seconds."""
REPORTS, REPORT = 20, 1.0
"""The same of reports that are kept."""


@dataclass
class Allowances:
    """What one edge has left."""

    moves: Allowance = field(default_factory=lambda: Allowance(MOVES, 1 / MOVE))
    reports: Allowance = field(default_factory=lambda: Allowance(REPORTS, 1 / REPORT))


class Conduct:
    """What the edges have left of both. Only edges with a seat are remembered."""

    STATE = ("_edges",)

    def __init__(self) -> None:
        self._edges: dict[NodeId, Allowances] = {}

    def keeps(self, seat: Seat | None, now: Seconds) -> bool:
        """Whether to keep a report of this edge."""
        return seat is not None and self._of(seat).reports.take(now)

    def fault_of_move(self, seat: Seat | None, boot: str | None, now: Seconds) -> str | None:
        """What is wrong with an edge that comes, as process `boot` if it says so, or that says Bye a second time."""
        is_there = seat is not None and seat.presence is Presence.ONLINE and boot in (None, seat.boot)
        if seat is None or is_there or self._of(seat).moves.take(now):
            return None
        return f"{seat.edge} comes and goes: expected it to do so {MOVES} times, and once more every {MOVE:g} s"

    def _of(self, seat: Seat) -> Allowances:
        edge = self._edges.get(seat.edge)
        if edge is None:
            edge = self._edges[seat.edge] = Allowances()
        return edge
