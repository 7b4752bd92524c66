"""What one edge has released, counted per event; refuses what would pass the edge's own budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType

from common.errors import BudgetExhausted
from common.events import Event
from common.privacy.accountant import Method, Total, total


class Ledger:
    """The releases of one edge, training updates and probe answers alike.

    A charge comes before the release it pays for: an edge that dies in between has paid too much, never too
    little. A message that is sent again as it was costs nothing; one that is computed again costs a release.
    """

    def __init__(
        self,
        max_releases: int | None = None,
        booked: Mapping[Event, int] | None = None,
        write: Callable[[Event], None] | None = None,
    ) -> None:
        """Opens a ledger.

        Args:
            max_releases: the budget, in releases of any kind; None for no limit.
            booked: releases of an earlier life, to go on from.
            write: called with every event before it counts; a ledger that outlives its process writes there.
        """
        self.max_releases = max_releases
        self._counts: Counter[Event] = Counter(booked or {})
        self._write = write

    @property
    def events(self) -> Mapping[Event, int]:
        """How often each event was charged (a live, read-only view)."""
        return MappingProxyType(self._counts)

    @property
    def releases(self) -> int:
        """Number of charges."""
        return sum(self._counts.values())

    def charge(self, event: Event) -> None:
        """Books one release, which may then be made.

        Raises:
            BudgetExhausted: the release would pass `max_releases`; nothing was booked.
        """
        if self.max_releases is not None and self.releases >= self.max_releases:
            raise BudgetExhausted(f"releases: {self.releases + 1}: expected at most {self.max_releases} (max_releases)")
        if self._write is not None:
            self._write(event)
        self._counts[event] += 1

    def total(self, dp_delta: float, method: Method = "pld") -> Total:
        """The cost of everything booked (`accountant.total`)."""
        return total(self._counts, dp_delta, method)
