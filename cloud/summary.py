"""The result of a run on one page: folds the cloud's records into the content of `summary.json`.

Pure: rows in, mapping out. It works on the records of a run that broke off as well, as far as they go.

Symbols: tau -> staleness (`stale` in the mean), eps -> epsilon.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cloud.ending import BUDGETS_SPENT
from common.events import Event
from common.experiment import Experiment
from common.privacy.accountant import Total, total

Row = Mapping[str, Any]
_STAMP = frozenset({"run", "node", "time", "kind"})
UNIT = "one record"
CONTRADICTED = "ledger contradicted"
"""How the note begins of an edge whose ledger holds less than was received of it."""
OUTDATED = "no Bye of the last process"
"""How the note begins of an edge that was started again after its Bye, and released more than that tells of."""
SIMULATED = "simulated DP: the noise of {} follows from a seed, and whoever has it, the cloud included, can subtract it"


@dataclass
class _EdgeRows:
    """What the records say about one edge."""

    samples: int | None = None
    event: Event | None = None
    updates: int = 0
    dropped: int = 0
    answers: int = 0
    refused: int = 0
    boots: set[str | None] = field(default_factory=set)
    boot: str | None = None
    bye: Row = field(default_factory=dict)
    simulated: bool | None = None


@dataclass
class _RunRows:
    """What the records say about the run."""

    begun: float | None = None
    ended: float | None = None
    latest: float | None = None
    end: Row = field(default_factory=dict)
    score: Row = field(default_factory=dict)
    updates: int = 0
    staleness: Counter[int] = field(default_factory=Counter)
    stages: list[dict[str, Any]] = field(default_factory=list)
    probes: int = 0
    rollbacks: int = 0
    edges: dict[str, _EdgeRows] = field(default_factory=dict)

    def edge(self, row: Row) -> _EdgeRows:
        return self.edges.setdefault(str(row["edge"]), _EdgeRows())

    def add(self, row: Row) -> None:
        self.latest = row["time"]
        match row["kind"]:
            case "begin":
                self.begun = row["time"]
            case "joined":
                edge = self.edge(row)
                edge.boots.add(row["boot"])
                edge.boot = row["boot"]
                edge.samples = row["samples"]
                edge.event = Event.model_validate(row["event"])
            case "update" if row["applied"]:
                self.edge(row).updates += 1
                self.updates = row["update"]
                self.staleness[row["staleness"]] += 1
            case "update":
                self.edge(row).dropped += 1
            case "stage":
                self.stages.append({key: value for key, value in row.items() if key not in _STAMP})
            case "probe":
                self.probes += 1
                self.rollbacks += bool(row["rollback"])
            case "evaluation":
                self.score = row
            case "refused":
                self.edge(row).refused += 1
            case "answer":
                self.edge(row).answers += 1
            case "bye":
                edge = self.edge(row)
                edge.boots.add(row.get("boot"))
                edge.bye = row
                if "simulated" in row:  # of any process that ran it
                    edge.simulated = bool(edge.simulated) or bool(row["simulated"])
            case "end":
                self.end, self.ended = row, row["time"]


def summarise(experiment: Experiment, rows: Iterable[Row]) -> dict[str, Any]:
    """The summary of a run from the cloud's records, in the order they were written."""
    run = _RunRows()
    for row in rows:
        run.add(row)
    finish = run.ended if run.ended is not None else run.latest
    seconds = finish - run.begun if run.begun is not None and finish is not None else 0.0
    counts = run.staleness.total()
    costs = {edge.event: _cost(edge.event, experiment) for edge in run.edges.values() if edge.event is not None}
    return {
        "state": _state(run),
        "reason": run.end.get("reason"),
        "algorithm": experiment.algorithm.name,
        "mode": experiment.algorithm.mode,
        "rigour": experiment.algorithm.rigour,
        "dataset": experiment.data.name,
        "model": experiment.model.name,
        "updates": run.updates,
        "seconds": round(seconds, 3),
        "updates_per_second": round(run.updates / seconds, 3) if seconds > 0 else None,
        "test_accuracy": run.score.get("accuracy"),
        "test_loss": run.score.get("loss"),
        "dp": _promise(costs.values()),
        "dp_delta": experiment.privacy.dp_delta,
        "privacy": _privacy(experiment, run, costs),
        "staleness": {
            "mean": sum(stale * count for stale, count in run.staleness.items()) / counts if counts else None,
            "max": max(run.staleness) if counts else None,
        },
        "probes": run.probes,
        "rollbacks": run.rollbacks,
        "stages": run.stages,
        "edges": [_edge(name, run.edges[name], costs, experiment) for name in sorted(run.edges)],
    }


def _state(run: _RunRows) -> str:
    if not run.end:
        return "broken off"
    if run.end["reason"] == "interrupted":
        return "interrupted"
    if run.end["failed"]:
        return "failed"
    return BUDGETS_SPENT if run.end["reason"].startswith(BUDGETS_SPENT) else "complete"


def _cost(event: Event, experiment: Experiment) -> Total:
    """What one release costs by itself; whatever the accountant trips over is said, and the rest stays."""
    try:
        return total({event: 1}, experiment.privacy.dp_delta)
    except Exception as error:
        text = f"dp: not established: {type(error).__name__}: {error}"
        return Total(None, experiment.privacy.dp_delta, text)


def claim_of(edge: _EdgeRows) -> tuple[float | None, str]:
    """The epsilon that may be claimed for all that an edge released in this run (None: none), and a note.

    Several processes may have run the edge if its ledger outlives them; one that does not knows of no other process.
    Whichever it is, it counts only if the last process gave it, and if it holds at least what this edge was seen to
    release.
    """
    if not edge.bye:
        return None, "no Bye: what this edge released is not known"
    note, seen = edge.bye.get("note", ""), edge.updates + edge.dropped + edge.answers
    if len(edge.boots) != 1 and edge.bye.get("ledger_releases") is None:
        text = f"ledger restarted: {len(edge.boots)} processes ran this edge, each knows its own releases only"
        return None, f"{text}; {note}"
    if edge.bye.get("boot") != edge.boot:
        return None, f"{OUTDATED}, {edge.boot}: what it released is not known"
    if edge.bye["releases"] < seen:
        return None, f"{CONTRADICTED}: it holds {edge.bye['releases']} releases, {seen} were received; {note}"
    epsilon: float | None = edge.bye["epsilon"]
    return epsilon, note


def _promise(costs: Iterable[Total]) -> str:
    """What may be said of the whole run: the weakest of its edges decides."""
    notes = [cost.note for cost in costs if cost.epsilon is None]
    if not notes:
        return "established"
    return "none" if "no privacy" in notes else "not established"


def _privacy(experiment: Experiment, run: _RunRows, costs: Mapping[Event, Total]) -> dict[str, Any]:
    events = [edge.event for edge in run.edges.values() if edge.event is not None]
    claims = [claim_of(edge) for edge in run.edges.values()]
    claimed = {note for epsilon, note in claims if epsilon is not None}
    notes = sorted(claimed or {cost.note for cost in costs.values()})
    simulated = [name for name in sorted(run.edges) if _is_simulated(run.edges[name], experiment)]
    if simulated:
        notes.append(SIMULATED.format("every edge" if len(simulated) == len(run.edges) else ", ".join(simulated)))
    return {
        "unit": UNIT,
        "adjacency": events[0].adjacency if events else experiment.privacy.adjacency,
        "mechanism": experiment.privacy.mechanism,
        "simulated": bool(simulated) if run.edges else _is_simulated(_EdgeRows(), experiment),
        "note": "; ".join(notes),
    }


def _is_simulated(edge: _EdgeRows, experiment: Experiment) -> bool:
    """Whether its noise came from a seed: as it said on leaving, else as the experiment says."""
    if edge.simulated is not None:
        return edge.simulated
    return experiment.privacy.randomness == "reproducible" and experiment.privacy.mechanism != "none"


def _edge(name: str, edge: _EdgeRows, costs: Mapping[Event, Total], experiment: Experiment) -> dict[str, Any]:
    cost = costs.get(edge.event) if edge.event is not None else None
    epsilon, note = claim_of(edge)
    is_sound = not note.startswith((CONTRADICTED, OUTDATED))
    return {
        "id": name,
        "samples": edge.samples,
        "updates": edge.updates,
        "dropped": edge.dropped,
        "answers": edge.answers,
        "refused": edge.refused,
        "releases": edge.bye.get("releases"),
        "epsilon_per_release": cost.epsilon if cost is not None else None,
        "epsilon_total": epsilon,
        "ledger_releases": edge.bye.get("ledger_releases"),
        "ledger_epsilon": edge.bye.get("ledger_epsilon") if is_sound else None,
        "dp_delta": edge.bye.get("dp_delta"),
        "simulated": _is_simulated(edge, experiment),
        "note": note,
        "left": edge.bye.get("reason"),
    }
