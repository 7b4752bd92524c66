"""`mapa reproduce` at work: makes the runs of a paper's figure, goes on where it was interrupted, and draws it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, TextIO

from cloud.build import check as check_cloud
from cloud.results import write
from common.errors import ConfigError, Fault
from common.program import make_folder
from common.storage import held
from lab.curves import Results, panels_of, tell
from lab.design import EVERYTHING, Choice, Design, design
from lab.figure import Figure, Mechanism, read_figure
from lab.grid import word_of
from lab.panels import draw
from lab.plots import png_of
from lab.recovery import NUMBER, Recovery, recover
from lab.sweep import Sweep
from lab.sweeping import run_all, warn, workers_for
from lab.table import as_csv, rows_of
from lab.trial import Task
from lab.workers import Workers

Sweeps = Mapping[tuple[str, str], Sweep]
"""By panel and variant."""


@dataclass(frozen=True)
class Order:
    """What a person asked for: figures by number (`all`: every one), and how."""

    figure: str
    figures: Path
    mechanism: Mechanism
    out: Path
    data: Path
    quick: bool = False
    choice: Choice = EVERYTHING
    jobs: int | None = None
    ray: str | None = None
    cache: Path | None = None

    def folder(self, number: str) -> Path:
        """Where this figure's results go."""
        return self.out / f"figure-{number}" / (f"{self.mechanism}-quick" if self.quick else self.mechanism)


def figures_in(folder: Path) -> dict[str, Path]:
    """The files of the figures, by number, in order.

    Raises:
        ConfigError: there are none.
    """
    paths = sorted(folder.glob("figure-*.yaml"), key=lambda path: (len(path.stem), path.stem))
    if not paths:
        raise ConfigError(Fault("--figures", str(folder), "a folder with figure-<number>.yaml"))
    return {path.stem.removeprefix("figure-"): path for path in paths}


def reproduce(order: Order, stream: TextIO) -> int:
    """Reproduces figures and gives 0.

    Raises:
        ConfigError: there is no such figure, or it does not fit the folder that it is to go on in.
        DataError: a data set is missing.
        RecordError: results cannot be written.
    """
    found = figures_in(order.figures)
    numbers = [NUMBER, *found]
    if order.figure != "all" and order.figure not in numbers:
        raise ConfigError(Fault("figure", order.figure, f"one of {', '.join(numbers)}, or all"))
    if order.choice != EVERYTHING and order.figure in ("all", NUMBER):
        raise ConfigError(Fault("figure", order.figure, f"one of {', '.join(found)} with --panels or --seeds"))
    chosen = numbers if order.figure == "all" else [order.figure]
    figures = [read_figure(found[number]) for number in chosen if number != NUMBER]
    if NUMBER in chosen:
        recover(Recovery(order.folder(NUMBER), order.mechanism, order.data, order.quick), stream)
    for figure in figures:
        _one(order, figure, stream)
    return 0


def _one(order: Order, figure: Figure, stream: TextIO) -> None:
    folder, is_real = order.folder(figure.figure), figure.runs == "broker"
    plan = design(figure, order.mechanism, {"data.download": False}, quick=order.quick, choice=order.choice)
    sweeps = _sweeps(order, plan)
    tasks = _missing(sweeps)
    workers = workers_for(1 if is_real else order.jobs, None if is_real else order.ray, len(tasks))
    if tasks:
        for sweep in sweeps.values():
            check_cloud(sweep.experiment(next(sweep.grid.points())))
    with held(make_folder(folder) / "lock"):
        _carry_out(order, plan, sweeps, workers, stream)


def _missing(sweeps: Sweeps) -> list[Task]:
    return list(in_turn([sweep.missing() for sweep in sweeps.values()]))


def _carry_out(order: Order, plan: Design, sweeps: Sweeps, workers: Workers, stream: TextIO) -> None:
    """The figure, once its folder is this process's own."""
    figure, tasks = plan.figure, _missing(sweeps)  # asked again: another process may have been at work here
    number, folder = figure.figure, order.folder(figure.figure)
    for sweep in sweeps.values() if tasks else ():
        sweep.claim()
    whole = sum(sweep.grid.size for sweep in sweeps.values())
    print(f"figure {number}: {figure.title}: {whole} runs, {whole - len(tasks)} made before", file=stream, flush=True)
    run_all(tasks, workers, stream)
    results = {key: sweep.results() for key, sweep in sweeps.items()}
    for found in results.values():
        warn(found, stream)
    write(folder / "results.csv", as_csv(list(_rows(results))))
    for index, plot in enumerate(figure.plots, 1):
        panels = list(panels_of(plan, plot, results))
        picture = folder / (f"figure-{number}.png" if len(figure.plots) == 1 else f"figure-{number}-{index}.png")
        title = f"{figure.title} ({order.mechanism}{', quick' if order.quick else ''})"
        write(picture, png_of(draw(panels, title), dpi=150))
        for panel in panels:
            tell(panel, stream)
        print(f"picture: {picture}", file=stream, flush=True)
    print(f"table:   {folder / 'results.csv'}", file=stream, flush=True)


def in_turn(sweeps: Iterable[Iterable[Task]]) -> Iterator[Task]:
    """One run of each, then another one of each: so many runs take about so long, whatever a model costs."""
    for row in zip_longest(*sweeps):
        yield from (task for task in row if task is not None)


def _sweeps(order: Order, plan: Design) -> Sweeps:
    return {
        (series.panel, series.variant): Sweep(
            plan.figure.experiment,
            (*series.overrides, *_root(order, plan, series.panel)),
            series.grid,
            order.folder(plan.figure.figure) / word_of(f"{series.panel}-{series.variant}"),
            on_broker=plan.figure.runs == "broker",
            cache=order.cache,
        )
        for series in plan.series
    }


def _rows(results: Results) -> Iterator[dict[str, Any]]:
    """The rows of all sweeps, which may vary different settings."""
    rows = [
        {"panel": panel, "variant": variant, **row}
        for (panel, variant), found in results.items()
        for row in rows_of(found)
    ]
    columns = max(rows, key=len, default={})
    for row in rows:
        yield {**dict.fromkeys(columns), **row}


def _root(order: Order, plan: Design, panel: str) -> tuple[str, ...]:
    """Where the panel's data set is."""
    settings = {**plan.figure.experiment.get("data", {}), **_named(plan.panels[panel].set)}
    name = settings.get("name")
    return (f"data.root={order.data / str(name)}",) if name != "digits" else ()


def _named(settings: Mapping[str, object]) -> dict[str, object]:
    return {key.removeprefix("data."): value for key, value in settings.items() if key.startswith("data.")}
