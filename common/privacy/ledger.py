"""What one edge has released, counted per event; refuses what would pass the edge's own budget.

A budget is over everything that the ledger holds, since it was begun; the counts of the present run are kept apart,
for they are what the run claims.

| budget | refused is the release after which |
|---|---|
| max_releases | there were more releases, of any kind |
| max_epsilon | the accountant's total at dp_delta would be above it, or could not be told |

The accountant is not asked for every release: if many more fit, so many are reserved at once, by a bound that takes
microseconds if that suffices and by the exact one if not. The number is halved until it fits, so that the last
release that fits is made, and the one after it is not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from common.errors import BudgetExhausted, UnsupportedEvent
from common.events import Event
from common.privacy.accountant import Method, Total, total

Counts = Mapping[Event, int]
MOST_RESERVED = 4096
"""Releases of one kind that are found to fit at once."""


@dataclass(frozen=True)
class Budget:
    """What an edge may release at most, by its own declaration; None for no limit."""

    max_releases: int | None = None
    max_epsilon: float | None = None
    dp_delta: float = 1e-5


class Store(Protocol):
    """Where releases are written down, so that they outlive the process."""

    @property
    def is_simulated(self) -> bool:
        """Whether noise of releases that it holds came from a seed, which somebody may have."""
        ...

    def booked(self) -> tuple[Counts, Counts]:
        """What it holds when it is opened: of the present run, and of all runs together."""
        ...

    def write(self, event: Event, ticket: int, room: int | None = None) -> None:
        """Writes a release down for good, or raises.

        Args:
            event: what is released.
            ticket: the work that it answers.
            room: releases of this kind that the budget leaves, this one included; None for no limit.
        """
        ...


class Ledger:
    """The releases of one edge, training updates and probe answers alike.

    A charge comes before the release it pays for: an edge that dies in between has paid too much, never too
    little. A message that is sent again as it was costs nothing; one that is computed again costs a release.
    """

    def __init__(self, budget: Budget | None = None, store: Store | None = None) -> None:
        """Opens a ledger.

        Args:
            budget: what may be released at most.
            store: what outlives the process; without one, the ledger begins empty and is forgotten.
        """
        self.budget = budget if budget is not None else Budget()
        self.is_durable = store is not None
        self.is_simulated = store is not None and store.is_simulated
        own, whole = store.booked() if store is not None else ({}, {})
        self._own = Counter(own)
        self._whole = self._own if store is None else Counter(whole)
        self._store = store
        self._reserved: Counter[Event] = Counter()
        self._chunk, self._is_far = 1, True

    @property
    def events(self) -> Counts:
        """How often each event was charged in this run (a live, read-only view)."""
        return MappingProxyType(self._own)

    @property
    def releases(self) -> int:
        """Number of charges in this run."""
        return self._own.total()

    @property
    def held(self) -> Counts:
        """How often each event was charged since the ledger was begun (a live, read-only view)."""
        return MappingProxyType(self._whole)

    @property
    def held_releases(self) -> int:
        """Number of charges since the ledger was begun."""
        return self._whole.total()

    def charge(self, event: Event, ticket: int = 0) -> None:
        """Books one release, which may then be made.

        Args:
            event: what the release costs.
            ticket: the work that it answers, for whoever reads the ledger.

        Raises:
            BudgetExhausted: the release would pass the budget; nothing was booked.
            LedgerError: it could not be written down; nothing may be released.
        """
        most = self.budget.max_releases
        if most is not None and self.held_releases >= most:
            text = f"releases: {self.held_releases + 1}: expected at most {most} (max_releases)"
            raise BudgetExhausted(text)
        limit = self.budget.max_epsilon
        if limit is not None and self._reserved[event] <= 0:
            self._reserve(event, limit)
        if self._store is not None:
            self._store.write(event, ticket, self._room(event))
        if limit is not None:
            self._reserved[event] -= 1
        self._own[event] += 1
        if self._whole is not self._own:
            self._whole[event] += 1

    def total(self, dp_delta: float, method: Method = "pld") -> Total:
        """The cost of everything booked in this run (`accountant.total`)."""
        return total(self._own, dp_delta, method)

    def held_total(self, dp_delta: float, method: Method = "pld") -> Total:
        """The same of everything since the ledger was begun; what cannot be added up has no epsilon, and a note."""
        return cost_of(self._whole, dp_delta, method)

    def _room(self, event: Event) -> int | None:
        """How many releases of this kind are known to fit, the present one included; None for no limit."""
        limits = [self._reserved[event]] if self.budget.max_epsilon is not None else []
        if self.budget.max_releases is not None:
            limits.append(self.budget.max_releases - self.held_releases)
        return min(limits, default=None)

    def _reserve(self, event: Event, most: float) -> None:
        """Makes sure that one more release fits, and as many more as do."""
        chunk = self._chunk = self._next_chunk()
        while not self._fits(event, chunk, most):
            self._is_far = False
            if self._reserved.total() > 0:
                self._reserved.clear()  # what is set aside for releases of other kinds may be needed here
            elif chunk > 1:
                chunk = self._chunk = chunk // 2
            else:
                raise BudgetExhausted(self._refusal(event, most))
        self._reserved[event] += chunk

    def _next_chunk(self) -> int:
        """Twice as many as the last time, until the budget comes into sight."""
        chunk = min(2 * self._chunk, MOST_RESERVED) if self._is_far else self._chunk
        if self.budget.max_releases is not None:
            chunk = min(chunk, self.budget.max_releases - self.held_releases)
        return chunk

    def _fits(self, event: Event, count: int, most: float) -> bool:
        """Whether so many more stay within the budget, with all that is set aside already."""
        planned = self._whole + self._reserved
        planned[event] += count
        for method in ("quick", "pld"):
            epsilon = cost_of(planned, self.budget.dp_delta, method).epsilon
            if epsilon is not None and epsilon <= most:
                return True
        return False

    def _refusal(self, event: Event, most: float) -> str:
        planned = self._whole + Counter({event: 1})
        cost = cost_of(planned, self.budget.dp_delta, "pld")
        value = f"{cost.epsilon:.8g} with this release" if cost.epsilon is not None else f"not known ({cost.note})"
        return f"epsilon: {value}: expected at most {most:g} at dp_delta {self.budget.dp_delta:g} (max_epsilon)"


def cost_of(counts: Counts, dp_delta: float, method: Method = "pld") -> Total:
    """What these releases cost (`accountant.total`); those that cannot be added up have no epsilon, and a note."""
    try:
        return total(counts, dp_delta, method)
    except UnsupportedEvent as error:
        return Total(None, dp_delta, f"dp: not established: {error}")
