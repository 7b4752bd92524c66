"""Where a run's noise came from, in words: a seed that somebody has, or keys that nobody keeps.

Noise from a seed can be drawn again and subtracted, so what is printed then is the guarantee that the same run would
have with secret noise: simulated DP. Every report says so, for each edge, because hosts may differ in this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lab.folder import Run

LABEL = "simulated DP"
UNSEEDED = "secret"
MOST_NAMED = 5
"""Edges that a sentence names."""


def simulated_edges(run: Run) -> list[str]:
    """The edges whose noise came from a seed."""
    return [str(edge["id"]) for edge in run.summary.get("edges", []) if _is_simulated(edge, run)]


def is_simulated(run: Run) -> bool:
    """Whether this holds for any edge, or is declared where no edge is known yet."""
    return bool(simulated_edges(run)) or (not run.summary.get("edges") and _is_declared(run))


def noise_of(edge: Mapping[str, Any], run: Run) -> str | None:
    """Of one edge; None where there is no noise."""
    if _mechanism(run) == "none":
        return None
    return LABEL if _is_simulated(edge, run) else UNSEEDED


def reservation(run: Run) -> list[str]:
    """What comes before any statement about epsilon, if the noise of an edge came from a seed."""
    names, edges = simulated_edges(run), run.summary.get("edges", [])
    if not is_simulated(run):
        return []
    whose = "every edge" if len(names) == len(edges) else named(names)
    return [
        f"Simulated DP: the noise of {whose} follows from a seed, and whoever has it, the cloud included, can",
        "subtract the noise. What follows is what the same run would promise if nobody could.",
    ]


def named(names: Sequence[str]) -> str:
    """The names, or the first of many."""
    rest = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def _is_simulated(edge: Mapping[str, Any], run: Run) -> bool:
    return bool(edge.get("simulated", _is_declared(run)))


def _is_declared(run: Run) -> bool:
    """What the experiment says; folders of versions that did not ask hold seeded runs."""
    privacy = run.settings.get("privacy") or {}
    return _mechanism(run) != "none" and privacy.get("randomness", "reproducible") == "reproducible"


def _mechanism(run: Run) -> object:
    return (run.settings.get("privacy") or {}).get("mechanism")
