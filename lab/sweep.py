"""Runs an experiment at every point of a grid, each in a simulation, and goes on where it was interrupted.

The folder of a sweep: sweep.json (the experiment that all points share, and which settings vary), points/<name>.json
(one result each), results.csv (one row each, for pandas).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cloud.build import check as check_cloud
from cloud.results import write
from common import data
from common.errors import ConfigError, Fault, RecordError
from common.experiment import Experiment, overridden
from common.privacy.calibration import Ask
from lab.check import check_experiment
from lab.grid import Grid, Point
from lab.trial import Task, perform
from lab.virtual import cautions_of
from lab.workers import Workers

SUMMED_UP = ("state", "reason", "test_accuracy", "test_loss", "updates", "seconds", "staleness", "edges")
"""What is read of a summary."""
_SWEEP = {"experiment": dict, "axes": list}
_POINT = {"experiment": dict, "summary": dict, "curve": list}


@dataclass(frozen=True)
class Result:
    """What came out at one point.

    `curve`: a mapping for each evaluation, with updates, accuracy, loss and whatever else was measured.
    """

    point: Point
    summary: Mapping[str, Any]
    curve: Sequence[Mapping[str, float | None]]

    @property
    def epsilon(self) -> float | None:
        """The worst edge's total; None where none is claimed."""
        totals = [edge["epsilon_total"] for edge in self.summary["edges"]]
        return None if not totals or None in totals else max(totals)


@dataclass(frozen=True)
class Sweep:
    """A grid over one experiment, in one folder. `content`: of its file; `overrides`: as `--set` has them."""

    content: Mapping[str, Any]
    overrides: tuple[str, ...]
    grid: Grid
    folder: Path
    on_broker: bool = False
    cache: Path | None = None

    def experiment(self, point: Point) -> Experiment:
        """The whole experiment at a point; ConfigError if it is none."""
        return overridden(self.content, (*self.overrides, *point.overrides))

    def missing(self) -> list[Task]:
        """What is still to do.

        Raises:
            ConfigError: a point is no sound experiment, or the folder holds something of another sweep.
            RecordError: a file of the folder cannot be read.
        """
        if self._file.is_file():
            known, wanted = _read(self._file, _SWEEP), self._content()
            _same(known["axes"], wanted["axes"], f"{self._file}: --grid")
            _same(known["experiment"], wanted["experiment"], str(self._file))
        done = {result.point.name for result in self.results()}
        return [self._task(point) for point in self.grid.points() if point.name not in done]

    def claim(self) -> None:
        """Makes the folder this sweep's.

        Raises:
            RecordError: it cannot be written.
        """
        try:
            (self.folder / "points").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RecordError(f"sweep: {self.folder}: {error}: expected a folder that can be written") from error
        write(self._file, json.dumps(self._content(), indent=2) + "\n")

    def results(self) -> list[Result]:
        """The results that are there, in the order of the grid.

        Raises:
            ConfigError: one was made from another experiment than this sweep's.
            RecordError: one cannot be read.
        """
        found = []
        for point in self.grid.points():
            path, wanted = self._path(point.name), self._task(point).experiment
            if path.is_file():
                content = _read(path, _POINT)
                _same(content["experiment"], wanted, str(path))
                if lost := [name for name in SUMMED_UP if name not in content["summary"]]:
                    raise RecordError(f"sweep: {path}: summary: no {lost[0]}: expected a file of this sweep")
                found.append(Result(point, content["summary"], content["curve"]))
        return found

    def _task(self, point: Point) -> Task:
        content = self.experiment(point).model_dump(mode="json")
        return Task(point.name, content, self._path(point.name), self.on_broker, self.cache)

    @property
    def _file(self) -> Path:
        return self.folder / "sweep.json"

    def _content(self) -> dict[str, Any]:
        """Of sweep.json. What the file says of a setting that varies has no meaning here."""
        keys = self.grid.keys
        first = next(self.grid.points())  # a file may leave out what the grid sets
        content = self.experiment(first).model_dump(mode="json")
        for key in keys:
            _forget(content, key.split("."))
        return {"experiment": content, "axes": keys}

    def _path(self, name: str) -> Path:
        return self.folder / "points" / f"{name}.json"


def check_points(sweep: Sweep, ask: Ask, say: Callable[[str], None]) -> None:
    """Checks the points before anything runs, and says what is doubtful about the first and the last.

    These two are checked against both halves, the others against the cloud's; each different data section is dealt.

    Raises:
        ConfigError: with one fault for each thing that is wrong at the first point where something is.
        DataError: a data set is missing or smaller than its edges need.
    """
    experiments = [(point, sweep.experiment(point)) for point in sweep.grid.points()]
    dealt: set[str] = set()
    for point, experiment in experiments:
        section = experiment.data.model_dump_json()
        if point in (experiments[0][0], experiments[-1][0]):
            checked = check_experiment(experiment, ask)
            for caution in (*checked.cautions, *cautions_of(experiment)):
                say(f"warning: {point.name}: {caution}")
        else:
            check_cloud(experiment)
            if section not in dealt:
                data.sizes(experiment.data, experiment.seed)
        dealt.add(section)


def run_tasks(tasks: Sequence[Task], workers: Workers) -> Iterator[Task]:
    """Runs the tasks of one sweep or several; each as its result is stored."""
    for task, content in workers.work(perform, tasks):
        write(task.path, json.dumps({"experiment": task.experiment, **content}))
        yield task


def _read(path: Path, parts: Mapping[str, type]) -> dict[str, Any]:
    """A file of the sweep, with all its parts."""
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RecordError(f"sweep: {path}: {error}: expected a file of this sweep") from error
    for name, kind in parts.items():
        if not (isinstance(content, dict) and isinstance(content.get(name), kind)):
            raise RecordError(f"sweep: {path}: no {name}: expected a file of this sweep")
    return content


def _same(known: Any, wanted: Any, where: str) -> None:
    faults = [
        Fault(f"{where}: {key}" if key else where, now, f"{before!r}, as when the sweep began; or another --out")
        for key, before, now in _differences(known, wanted, "")
    ]
    if faults:
        raise ConfigError(faults)


def _differences(one: Any, other: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in [*one, *(key for key in other if key not in one)]:
            yield from _differences(one.get(key), other.get(key), f"{path}.{key}" if path else str(key))
    elif one != other:
        yield path, one, other


def _forget(content: dict[str, Any], keys: Sequence[str]) -> None:
    for key in keys[:-1]:
        content = content.get(key) or {}
    content.pop(keys[-1], None)
