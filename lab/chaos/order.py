"""What a person asked for, checked before anything starts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from common.experiment import Experiment
from common.privacy.calibration import Ask, fresh
from lab.chaos.scenario import Scenario, Step, read_scenario
from lab.chaos.schedule import steps_of
from lab.check import check
from lab.folder import RunFolder
from lab.launch import Request, check_presence, run_id


@dataclass(frozen=True)
class Order:
    """The command line. `project`: the folder of docker-compose.yml; `seed`: instead of the scenario's."""

    file: Path
    out: Path | None
    run: str | None
    seed: int | None
    project: Path
    environment: Mapping[str, str]
    ask: Ask = fresh


@dataclass(frozen=True)
class Plan:
    """A scenario in order, with all of its steps."""

    scenario: Scenario
    experiment: Experiment
    cautions: Sequence[str]
    steps: Sequence[Step]
    run: str
    folder: RunFolder


def plan_of(order: Order) -> Plan:
    """Reads and checks; makes the run folder.

    Raises:
        ConfigError: the scenario, its experiment, or the run folder is not in order.
        DataError: data are missing.
        RecordError: the run folder cannot be written.
    """
    scenario = read_scenario(order.file)
    if order.seed is not None:
        scenario = scenario.model_copy(update={"seed": order.seed})
    overrides = tuple(f"{key}={json.dumps(value)}" for key, value in scenario.overrides.items())
    checked = check(Path(scenario.experiment), overrides, order.ask)
    check_presence(checked.experiment)
    steps = steps_of(scenario, checked.experiment.data.edges)
    request = Request(file=order.file, run=order.run)
    run = run_id(request, checked.experiment.model_copy(update={"name": scenario.name}))
    folder = RunFolder(order.out or Path("runs") / run)
    folder.create()
    return Plan(scenario, checked.experiment, checked.cautions, steps, run, folder)
