"""One run of many: an experiment goes in, its summary and its curve come out; the run's folder is thrown away."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from cloud.results import write
from common.answers import Answers
from common.errors import DeployError
from common.experiment import Experiment, parse
from lab.folder import Run, RunFolder, read_run
from lab.launch import Request, launch
from lab.virtual import repeatable, run_virtually
from lab.watch import EXIT_INTERRUPTED

MEASURED = ("accuracy", "loss", "gradient_norm")
"""What a curve holds of each evaluation, besides the number of updates."""


@dataclass(frozen=True)
class Task:
    """One point to run: the whole experiment, where its result goes, and whether on a real broker.

    `cache`: folder of the accountant's answers, if there is one.
    """

    name: str
    experiment: Mapping[str, Any]
    path: Path
    on_broker: bool = False
    cache: Path | None = None


def perform(task: Task) -> dict[str, Any]:
    """Runs one point where it is called; its records are folded and then thrown away."""
    experiment = repeatable(parse(task.experiment))
    with tempfile.TemporaryDirectory(prefix="mapa-") as place:
        folder = RunFolder(Path(place) / "run")
        if task.on_broker:
            _launch(experiment, folder, task)
        else:
            folder.create()
            run_virtually(experiment, folder, "point", ask=Answers(task.cache).ask)
        run = read_run(folder.path)
    curve = [
        {"updates": score.updates, **{name: _finite(getattr(score, name)) for name in MEASURED}}
        for score in run.history.scores
    ]
    return {"summary": dict(run.summary), "curve": curve}


def _launch(experiment: Experiment, folder: RunFolder, task: Task) -> None:
    """The same on a real broker, which is started for it."""
    file = folder.path.with_name("experiment.yaml")
    write(file, yaml.safe_dump(experiment.model_dump(mode="json"), sort_keys=False))
    request = Request(file, out=folder.path, quiet=True, ask=Answers(task.cache).ask)
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        code = launch(request, nowhere)
    if code == EXIT_INTERRUPTED:
        raise KeyboardInterrupt
    if code != 0 and not _has_ended(read_run(folder.path)):
        raise DeployError(f"{task.name}: exit code {code}: expected the run to come to its end")


def _has_ended(run: Run) -> bool:
    """Whether the cloud itself ended the run, be it that the model diverged: that is a result, a dead process none."""
    return run.history.reason not in (None, "interrupted")


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
