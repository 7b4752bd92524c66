"""Runs an experiment in this process under a virtual clock, with progress, and tells the result."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from common.experiment import Experiment
from lab.check import check
from lab.closing import print_closing
from lab.folder import RunFolder, read_run
from lab.history import History
from lab.launch import Request, check_presence, run_id
from lab.progress import Status, screen_for, status_of
from lab.signals import Signals
from lab.virtual import cautions_of, run_virtually
from lab.watch import EXIT_INTERRUPTED


def simulate(request: Request, stream: TextIO) -> int:
    """Simulates the experiment and gives the exit code of its cloud, or 130 if a person stopped it.

    Raises:
        ConfigError, DataError: the experiment cannot run; nothing was started.
        RecordError: the run folder cannot be written.
    """
    begun = time.time()
    checked = check(request.file, request.overrides, request.ask)
    experiment = checked.experiment
    check_presence(experiment)
    run = run_id(request, experiment)
    folder = RunFolder(request.out or Path("runs") / run)
    folder.create()
    screen = screen_for(stream, f"{experiment.name} ({run}), simulated", request.quiet)
    for caution in (*checked.cautions, *cautions_of(experiment)):
        screen.say(f"warning: {caution}")
    history = History()

    def look(row: Mapping[str, object]) -> None:
        history.add({**row, "time": time.time()})  # how far the run is, is a matter of real time

    with Signals().listening() as signals, screen:

        def pause(now: float, clock: float) -> int:
            screen.show(_status(history, experiment, now, clock), now)
            return signals.count

        outcome = run_virtually(experiment, folder, run, look=look, pause=pause, ask=request.ask)
    print_closing(read_run(folder.path), stream)
    seconds = time.time() - begun
    print(f"simulated:  {outcome.messages:,} messages, {outcome.clock:,.1f} s in {seconds:,.1f} s", file=stream)
    return EXIT_INTERRUPTED if signals.count > 0 else outcome.code


def _status(history: History, experiment: Experiment, now: float, clock: float) -> Status:
    """How far the run is in real time; `clock`: the virtual time, by which a run of so many seconds ends."""
    stop = experiment.stop
    status = status_of(history, experiment.model_copy(update={"stop": stop.model_copy(update={"seconds": None})}), now)
    if stop.seconds is None or clock <= 0 or (share := min(1.0, clock / stop.seconds)) <= status.share:
        return status
    return replace(status, share=share, left=None if history.reason else status.seconds * (1 - share) / share)
