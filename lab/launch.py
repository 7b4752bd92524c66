"""Runs an experiment on this machine: a broker, a cloud and its edges as processes, until the stop rule."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TextIO

import yaml

from common.broker import choose
from common.errors import ConfigError, Fault, RecordError
from common.experiment import Experiment, edge_ids
from lab.check import check
from lab.closing import print_closing
from lab.fleet import Fleet
from lab.folder import RunFolder, read_run
from lab.progress import screen_for
from lab.reach import wait_for
from lab.signals import Signals
from lab.watch import Ending, Watch

RUN_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


@dataclass(frozen=True)
class Request:
    """What a person asked for on the command line."""

    file: Path
    overrides: tuple[str, ...] = ()
    broker: str | None = None
    out: Path | None = None
    run: str | None = None
    quiet: bool = False


def launch(request: Request, stream: TextIO) -> int:
    """Runs the experiment and gives its exit code: the cloud's, or 130 if a person stopped it.

    Raises:
        ConfigError, DataError: the experiment cannot run; nothing was started.
        TransportError: no broker.
        DeployError, RecordError: a process or the run folder failed.
    """
    checked = check(request.file, request.overrides)
    experiment = checked.experiment
    run = _run_id(request, experiment)
    folder = RunFolder(request.out or Path("runs") / run)
    folder.create()
    # With every default and override written out, as cloud and edges will read it.
    _store(folder.experiment, yaml.safe_dump(experiment.model_dump(mode="json"), sort_keys=False))
    screen = screen_for(stream, f"{experiment.name} ({run})", request.quiet)
    for caution in checked.cautions:
        screen.say(f"warning: {caution}")
    address, logs = _address(request, experiment), folder.path / "broker"
    with Signals().listening() as signals, choose(address, logs, screen.say) as broker:
        wait_for(broker.address, screen.say, lambda: signals.count > 0)
        arguments = ["--experiment", str(folder.experiment), "--broker", str(broker.address)]
        arguments += ["--run", run, "--out", str(folder.path)]
        with Fleet(folder, edge_ids(experiment.data.edges), arguments) as fleet, screen:
            ending = Watch(fleet, folder, experiment, screen, signals).follow()
    if ending.is_interrupted or folder.records.is_file():
        complete(folder, ending)
        print_closing(read_run(folder.path), stream)
    return ending.code


def _run_id(request: Request, experiment: Experiment) -> str:
    run = request.run or f"{experiment.name}-{datetime.now():%Y%m%d-%H%M%S}"
    if not RUN_ID.fullmatch(run):
        raise ConfigError(Fault("--run", run, "up to 64 of a-z, 0-9 and -, such as demo-20250101"))
    return run


def _address(request: Request, experiment: Experiment) -> str | None:
    """The broker that was asked for: by the command line, else by the file, else none."""
    if request.broker is None and experiment.broker.host is not None:
        return f"{experiment.broker.host}:{experiment.broker.port}"
    return request.broker


def _store(path: Path, text: str) -> None:
    """Writes a file as a whole: whoever reads it sees the old content or the new."""
    part = path.with_name(path.name + ".part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        raise RecordError(f"run folder: {path}: {error}: expected a folder that can be written") from error


def complete(folder: RunFolder, ending: Ending) -> None:
    """Makes the summary say how the run ended: a cloud which died wrote none, and does not know who stopped it.

    A summary that the cloud has written stays, but for state and reason of a run that did not come to its end.
    """
    run = read_run(folder.path)
    content = dict(run.summary)
    if not content:  # records too damaged to be summed up: the closing words say so
        return
    state = content.get("state")
    if ending.is_interrupted and state == "broken off":
        content |= {"state": "interrupted", "reason": "interrupted"}
    elif ending.fault is not None and state in ("broken off", "interrupted"):
        content |= {"state": "failed", "reason": ending.fault}
    if content != run.summary or not run.is_summed_up:
        _store(folder.summary, json.dumps(content, indent=2) + "\n")
