"""Why a run is over, and whether that is a failure."""

from __future__ import annotations

from dataclasses import dataclass

from cloud.roster import Roster

BUDGET_SPENT = "budget spent"
"""How the Bye of an edge begins that has released all it may."""
BUDGETS_SPENT = "budgets spent"
"""How the reason of a run begins that ended early because every edge had."""


@dataclass(frozen=True)
class Ending:
    """Why the training is over, and whether that is a failure."""

    reason: str
    failed: bool = False


def without_edges(roster: Roster, updates: int) -> Ending:
    """The ending of a run that no edge is left for, after so many updates: what the edges said decides."""
    failures = [f"{edge}: {bye.reason}" for edge, bye in roster.departures() if bye.failed]
    if failures:
        others = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        return Ending(f"no edge is left; {failures[0]}{others}"[:500], failed=True)
    is_failure = not roster.is_gone() or updates == 0
    if not is_failure and all(bye.reason.startswith(BUDGET_SPENT) for _, bye in roster.departures()):
        return Ending(f"{BUDGETS_SPENT} after {updates} updates")
    return Ending("no edge is left", is_failure)
