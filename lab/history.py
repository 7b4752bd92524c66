"""What happened in a run, folded from the cloud's records one row at a time.

The live display folds rows as they are written, the report folds a finished (or broken off) file: both read
the same numbers. A row of a kind or with a field this page does not know is passed over, so that newer records
stay readable.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Row = Mapping[str, Any]
RATE_WINDOW = 15.0
"""Seconds over which the pace of a run is measured."""


@dataclass(frozen=True)
class Score:
    """One look at the public test set. `seconds` counts from the first update's model going out.

    `gradient_norm`: of the mean gradient there, None where it was not asked for.
    """

    updates: int
    seconds: float
    accuracy: float
    loss: float
    gradient_norm: float | None = None


@dataclass
class EdgeHistory:
    """One edge as the cloud saw it.

    `event`: the public description of one of its training releases. `epsilon` and `releases` are what its ledger
    last reported, so far; what may be claimed in the end is for the run's summary to say.
    """

    id: str
    samples: int | None = None
    event: Mapping[str, Any] | None = None
    updates: int = 0
    dropped: int = 0
    refused: int = 0
    online: bool = False
    releases: int | None = None
    epsilon: float | None = None
    boots: set[str] = field(default_factory=set)


@dataclass
class History:
    """The fold. Create an empty one and `add` every row in order."""

    updates: int = 0
    started: float | None = None
    latest: float | None = None
    reason: str | None = None
    scores: list[Score] = field(default_factory=list)
    stages: list[dict[str, Any]] = field(default_factory=list)
    staleness: Counter[int] = field(default_factory=Counter)
    edges: dict[str, EdgeHistory] = field(default_factory=dict)
    _pace: deque[tuple[float, int]] = field(default_factory=deque)
    _moments: dict[int, tuple[int, float]] = field(default_factory=dict)

    def add(self, row: object) -> bool:
        """Folds one row in; False if it is damaged: what cannot be read of it is passed over."""
        try:
            self._fold(row)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            return False
        return True

    def _fold(self, row: Any) -> None:
        time, kind = float(row["time"]), str(row["kind"])
        if not math.isfinite(time):
            raise ValueError(f"time: {time}: expected a finite number")
        fold = _FOLDS.get(kind)
        if fold is not None:
            fold(self, row)
            self.latest = time if self.latest is None else max(time, self.latest)

    @property
    def seconds(self) -> float:
        """Seconds from the start of training to the latest row."""
        return 0.0 if self.started is None or self.latest is None else self.latest - self.started

    @property
    def online(self) -> int:
        """How many edges the cloud sees at present."""
        return sum(edge.online for edge in self.edges.values())

    def pace(self, now: float) -> float | None:
        """Updates per second over the last `RATE_WINDOW` seconds (None: too early to say)."""
        while len(self._pace) > 2 and now - self._pace[1][0] > RATE_WINDOW:
            self._pace.popleft()
        if len(self._pace) < 2 or now - self._pace[0][0] < 0.5:
            return None
        return (self.updates - self._pace[0][1]) / (now - self._pace[0][0])

    def edge(self, name: str) -> EdgeHistory:
        """The edge of this id, known from now on."""
        return self.edges.setdefault(name, EdgeHistory(name))


def _begin(history: History, row: Row) -> None:
    if history.started is None:
        history.started = float(row["time"])


def _joined(history: History, row: Row) -> None:
    edge = history.edge(str(row["edge"]))
    edge.online = True
    edge.boots.add(str(row.get("boot")))
    if len(edge.boots) > 1:  # its ledger lives in its process: what the ones before released is not in it
        edge.epsilon = edge.releases = None
    edge.samples = row.get("samples", edge.samples)
    edge.event = row.get("event", edge.event)


def _left(history: History, row: Row) -> None:
    history.edge(str(row["edge"])).online = False


def _update(history: History, row: Row) -> None:
    edge = history.edge(str(row["edge"]))
    if not row.get("applied", True):  # too old, or computed on parameters that were rolled back
        edge.dropped += 1
        return
    time, staleness, update = float(row["time"]), int(row["staleness"]), int(row["update"])
    # An evaluation is recorded when it is done; it belongs where its parameters were made.
    before = int(row["version"]) + staleness
    edge.updates += 1
    history.staleness[staleness] += 1
    history.updates = update
    history._moments.setdefault(before, (history.updates - 1, history.started or time))
    history._moments[before + 1] = (history.updates, time)
    if not history._pace or time - history._pace[-1][0] >= 0.25:
        history._pace.append((time, history.updates))


def _evaluation(history: History, row: Row) -> None:
    now = float(row["time"])
    updates, made = history._moments.get(int(row["version"]), (history.updates, now))
    started = history.started if history.started is not None else made
    norm = _real(row["gradient_norm"]) if "gradient_norm" in row else None
    history.scores.append(Score(updates, max(0.0, made - started), _real(row["accuracy"]), _real(row["loss"]), norm))


def _real(value: object) -> float:
    """The number; NaN for the null that stands in records for a number that is not finite."""
    return float(value) if isinstance(value, int | float) else math.nan


def _stage(history: History, row: Row) -> None:
    outer = ("run", "node", "time", "kind")
    history.stages.append({key: value for key, value in row.items() if key not in outer})


def _refused(history: History, row: Row) -> None:
    if row.get("edge"):
        history.edge(str(row["edge"])).refused += 1


def _report(history: History, row: Row) -> None:
    edge, metrics = history.edge(str(row["edge"])), row.get("metrics") or {}
    if len(edge.boots) > 1:
        return
    epsilon = metrics.get("epsilon")
    releases = int(metrics["releases"]) if "releases" in metrics else edge.releases
    edge.epsilon, edge.releases = None if epsilon is None else float(epsilon), releases


def _bye(history: History, row: Row) -> None:
    history.edge(str(row["edge"])).online = False


def _end(history: History, row: Row) -> None:
    history.reason = str(row.get("reason", ""))


_FOLDS = {
    "begin": _begin,
    "joined": _joined,
    "left": _left,
    "update": _update,
    "evaluation": _evaluation,
    "stage": _stage,
    "refused": _refused,
    "report": _report,
    "bye": _bye,
    "end": _end,
}
