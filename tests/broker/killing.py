"""Kills the processes of a run at random moments, and starts them again, until it has had enough."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from programs import Programs
from toys import Mosquitto

from common.experiment import Experiment, edge_ids
from lab.folder import RunFolder
from lab.invariants import Findings, examine

HASTE = 0.3
"""Share of kills that do not wait for the run to go on: these hit processes that are about to start."""


@dataclass
class Torment:
    """What was done to a run. `starts`: when the cloud's processes were started, in unix seconds."""

    kills: dict[str, int] = field(default_factory=lambda: {"cloud": 0, "edge": 0, "broker": 0})
    starts: list[float] = field(default_factory=list)
    codes: dict[str, int] = field(default_factory=dict)

    def of(self, victim: str) -> None:
        self.kills["edge" if victim.startswith("edge") else victim] += 1


def torment(
    run: Programs, broker: Mosquitto, rng: np.random.Generator, *, kills: int, pause: float, patience: float = 240.0
) -> Torment:
    """Runs it with so many SIGKILLs, `pause` seconds after each other on average, and waits for its end."""
    done = Torment()
    done.starts.append(time.time())
    run.start_all()
    victims = ["cloud", "cloud", *edge_ids(run.plan.data.edges), "broker"]
    deadline = time.monotonic() + patience
    for _ in range(kills):
        if rng.random() < HASTE:
            time.sleep(rng.exponential(pause))
        else:
            _go_on(run, int(rng.integers(1, 60)))
        if _is_over(run):
            break
        victim = str(rng.choice(victims))
        if victim == "broker":
            broker.kill()
            time.sleep(rng.uniform(0.0, 0.5))
            broker.start()
        else:
            process = run.processes[victim]
            if process.poll() is not None:
                continue
            process.kill()
            process.wait()
            if victim == "cloud":
                done.starts.append(time.time())
            run.start(victim)
        done.of(victim)
    for name, process in run.processes.items():
        done.codes[name] = process.wait(max(1.0, deadline - time.monotonic()))
    return done


def _go_on(run: Programs, updates: int, patience: float = 60.0) -> None:
    """Waits until so many more updates were counted, or the run is over: whoever was killed serves again by then."""
    wanted, end = len(run.rows("update")) + updates, time.monotonic() + patience
    while len(run.rows("update")) < wanted and not _is_over(run) and time.monotonic() < end:
        time.sleep(0.05)


def _is_over(run: Programs) -> bool:
    return (run.folder / "run" / "summary.json").exists() and run.processes["cloud"].poll() is not None


def judged(run: Programs) -> Findings:
    """What the records say about it."""
    return examine(RunFolder(run.folder / "run"))


def recoveries(run: Programs, done: Torment) -> list[dict[str, Any]]:
    """For each restart of the cloud: seconds until Python ran it, and from then until it served."""
    found = []
    for row in run.rows("resumed"):
        began = row["time"] - row["took"]
        start = max((at for at in done.starts if at <= began), default=began)
        found.append({"start": began - start, "serving": row["took"], "events": row["events"]})
    return found


def make(folder: Path, plan: Experiment, *settings: str) -> tuple[Programs, Mosquitto]:
    folder.mkdir(parents=True, exist_ok=True)
    broker = Mosquitto(folder, "allow_anonymous true", *settings)
    return Programs(folder, plan, broker.address), broker
