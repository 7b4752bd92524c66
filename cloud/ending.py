"""Why a run is over, and whether that is a failure."""

from __future__ import annotations

from dataclasses import dataclass

from cloud.roster import Roster
from common.node import Seconds

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
    if not is_failure and _have_spent(roster):
        return Ending(f"{BUDGETS_SPENT} after {updates} updates")
    return Ending("no edge is left", is_failure)


def time_to_return(roster: Roster, edges: int, grace: Seconds, absence: Seconds) -> Seconds:
    """How long a run of so many edges, of which none is left, waits for one.

    One whose link broke may be on its way back, and one that said Bye, or never came, may be started. But nobody has
    more to give once the budgets of all are spent.
    """
    if not roster.is_gone():
        return absence
    is_spent = _have_spent(roster) and len(roster.departures()) == edges
    return 0.0 if is_spent else min(grace, absence)


def _have_spent(roster: Roster) -> bool:
    """Whether all who left did so with their budgets spent."""
    return all(bye.reason.startswith(BUDGET_SPENT) for _, bye in roster.departures())
