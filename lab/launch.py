"""Runs an experiment on this machine: a broker, a cloud and its edges as processes, until the stop rule."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TextIO

import yaml

from cloud.summary import summarise
from common.broker import choose
from common.errors import ConfigError, Fault, RecordError
from common.experiment import Experiment, edge_ids
from common.records import read
from lab.check import check
from lab.closing import print_closing
from lab.fleet import Fleet
from lab.folder import RunFolder, read_run
from lab.progress import screen_for
from lab.reach import wait_for
from lab.signals import Signals
from lab.watch import EXIT_INTERRUPTED, Watch

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
            code = Watch(fleet, folder, experiment, screen, signals).follow()
    if folder.records.is_file():
        _complete(folder, experiment, code == EXIT_INTERRUPTED)
        print_closing(read_run(folder.path), stream)
    return code


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
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RecordError(f"run folder: {path}: {error}: expected a folder that can be written") from error


def _complete(folder: RunFolder, experiment: Experiment, is_interrupted: bool) -> None:
    """Writes the summary that a cloud which died, or was killed, did not write."""
    if folder.summary.is_file():
        return
    content = summarise(experiment, read(folder.records))
    if is_interrupted:
        content["state"] = "interrupted"
    _store(folder.summary, json.dumps(content, indent=2) + "\n")
