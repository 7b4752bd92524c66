"""`mapa sweep` at work: runs what is missing, tells how long that takes, then table, results.csv and picture."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from cloud.results import write
from common.answers import Answers
from common.errors import ConfigError, Fault
from common.experiment import read_yaml
from common.program import make_folder
from common.storage import held
from lab.countdown import Countdown
from lab.grid import read_grid
from lab.panels import Panel, draw, is_wide
from lab.plots import png_of
from lab.sweep import Result, Sweep, check_points, run_tasks
from lab.table import Spread, as_csv, print_table, rows_of
from lab.trial import Task
from lab.workers import LOCAL, Alone, Processes, Ray, Workers


@dataclass(frozen=True)
class Order:
    """What a person asked for on the command line."""

    file: Path
    overrides: tuple[str, ...]
    grid: tuple[str, ...]
    out: Path
    jobs: int | None = None
    ray: str | None = None
    cache: Path | None = None


def sweep(order: Order, stream: TextIO, *, quiet: bool = False) -> int:
    """Runs the sweep and gives 0.

    Raises:
        ConfigError: the file, the grid or the folder is wrong; nothing was run.
        DataError: the data set is missing.
        RecordError: results cannot be written.
    """
    grid = read_grid(order.grid)
    plan = Sweep(read_yaml(order.file), order.overrides, grid, order.out, cache=order.cache)
    workers = workers_for(order.jobs, order.ray, len(plan.missing()))
    check_points(plan, Answers(order.cache).ask, lambda text: print(text, file=stream))
    with held(make_folder(order.out) / "lock"):
        _carry_out(plan, order, workers, stream, quiet=quiet)
    return 0


def _carry_out(plan: Sweep, order: Order, workers: Workers, stream: TextIO, *, quiet: bool) -> None:
    """The sweep, once the folder is its own."""
    grid, tasks = plan.grid, plan.missing()  # asked again: another process may have been at work here
    plan.claim()
    print(f"sweep: {grid.size} points, {grid.size - len(tasks)} done before; {order.out}", file=stream, flush=True)
    run_all(tasks, workers, stream, quiet=quiet)
    results = plan.results()
    warn(results, stream)
    rows = rows_of(results)
    write(order.out / "results.csv", as_csv(rows))
    print_table(rows, grid.keys, stream)
    picture = order.out / "sweep.png"
    write(picture, png_of(draw(panels_of(rows, grid.keys), order.file.stem), dpi=150))
    print(f"table:   {order.out / 'results.csv'}\npicture: {picture}", file=stream)


def run_all(tasks: Sequence[Task], workers: Workers, stream: TextIO, *, quiet: bool = False) -> None:
    """Runs the tasks, with progress; raises as `sweep`."""
    countdown, done = None if quiet else Countdown("points", stream), 0
    try:
        for done, _ in enumerate(run_tasks(tasks, workers), 1):
            if countdown is not None:
                countdown.show(done, len(tasks))
    except KeyboardInterrupt:
        print(f"interrupted: {done} of {len(tasks)} done; the same command goes on from there", file=stream, flush=True)
        raise
    finally:
        if countdown is not None:
            countdown.close()


def warn(results: Sequence[Result], stream: TextIO) -> None:
    """Tells which runs did not come to their end, and why."""
    for result in results:
        if result.summary["state"] != "complete":
            print(f"warning: {result.point.name}: {result.summary['state']}: {result.summary['reason']}", file=stream)


def workers_for(jobs: int | None, ray: str | None, tasks: int) -> Workers:
    """Those who do so many tasks; a single task, or a single process, is for this one.

    Args:
        jobs: processes on this machine; none: one for each core.
        ray: address of a cluster, `local` for one of so many processes here.
        tasks: how many there are.

    Raises:
        ConfigError: no processes, processes of a cluster elsewhere, or Ray is not installed.
    """
    if jobs is not None and jobs < 1:
        raise ConfigError(Fault("--jobs", jobs, "at least 1"))
    if jobs is not None and ray not in (None, LOCAL):
        raise ConfigError(Fault("--jobs", jobs, f"none beside --ray {ray}, which has its own"))
    count = jobs or os.cpu_count() or 1
    if ray is not None and tasks > 0:
        return Ray(ray, count)
    return Alone() if min(count, tasks) <= 1 else Processes(min(count, tasks))


def panels_of(rows: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> list[Panel]:
    """Accuracy, loss and total epsilon against the first key with several numbers; the other keys make the series."""
    axis = next((key for key in keys if key != "seed" and _is_numeric(rows, key)), None)
    others = [key for key in keys if key not in (axis, "seed")]
    is_log = axis is not None and is_wide(float(row[axis]) for row in rows)
    panels = []
    measures = {"test accuracy": "test_accuracy", "test loss": "test_loss", "total epsilon": "epsilon_total"}
    for label, measure in measures.items():
        groups: dict[str, dict[float | None, list[float | None]]] = {}
        for row in rows:
            name = ", ".join(f"{key.rpartition('.')[2]} {row[key]}" for key in others) or label
            at = float(row[axis]) if axis is not None else None
            groups.setdefault(name, {}).setdefault(at, []).append(row[measure])
        series = {
            name: [(at, spread) for at, found in points.items() if (spread := Spread.of(found)) is not None]
            for name, points in groups.items()
        }
        if any(series.values()):
            panels.append(Panel("", axis or "", label, series, log_x=is_log))
    return panels


def _is_numeric(rows: Sequence[Mapping[str, Any]], key: str) -> bool:
    values = {row[key] for row in rows}
    return len(values) > 1 and all(
        isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) for value in values
    )
