"""The pictures of a report: several runs on the same axes, readable in print and by the colour-blind.

Colours are those of Okabe and Ito (2008); line style and marker tell runs apart without colour. Every function
returns a new `Figure`; nothing touches matplotlib's process-wide state.
"""

from __future__ import annotations

import io
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator, PercentFormatter

from lab.history import History, Score

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
INK, SOFT, GRID = "#24303c", "#6b7783", "#d9dfe5"
BULK = 0.998
"""The share of updates that the histogram of staleness shows; a few stragglers would squeeze all others."""


@dataclass(frozen=True)
class Curve:
    """One run to draw: its name in the legend and what happened."""

    label: str
    history: History


def colour(place: int) -> str:
    """The colour of the run at this place (0, 1, ...)."""
    return COLOURS[place % len(COLOURS)]


def scores(curves: Sequence[Curve]) -> Figure:
    """Accuracy and loss on the test set, against updates and against seconds."""
    figure = _figure(10.5, 6.6)
    grid = figure.subplots(2, 2, sharex="col", sharey="row", squeeze=False)
    values: tuple[tuple[str, Callable[[Score], float]], ...] = (
        ("test accuracy", lambda score: score.accuracy),
        ("test loss", lambda score: score.loss),
    )
    steps: tuple[tuple[str, Callable[[Score], float]], ...] = (
        ("updates applied", lambda score: score.updates),
        ("seconds of training", lambda score: score.seconds),
    )
    for row, (name, value) in enumerate(values):
        for column, (unit, step) in enumerate(steps):
            axes = grid[row][column]
            for index, curve in enumerate(curves):
                points = sorted((step(score), value(score)) for score in curve.history.scores)
                axes.plot(*_columns(points), label=curve.label, **_pen(index, len(points)))
            _dress(axes, unit if row == len(values) - 1 else "", name if column == 0 else "")
    grid[0][0].yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    losses = [score.loss for curve in curves for score in curve.history.scores if math.isfinite(score.loss)]
    grid[1][0].set_ylim(0.0, 1.06 * max(losses, default=1.0))
    for axes in grid[1]:
        axes.xaxis.set_major_formatter(FuncFormatter(_thousands))
        axes.xaxis.set_major_locator(MaxNLocator(6))
    _legend(figure, grid[0][0], len(curves))
    return figure


def staleness(curves: Sequence[Curve]) -> Figure:
    """How many versions old the model of each update was: a share of updates for each staleness."""
    figure = _figure(10.5, 3.6)
    axes = figure.subplots()
    shown = max((_bulk(curve.history.staleness) for curve in curves), default=0)
    width = 0.8 / max(1, len(curves))
    for index, curve in enumerate(curves):
        counts = curve.history.staleness
        keys, total = [key for key in sorted(counts) if key <= shown], max(1, counts.total())
        shift = (index - (len(curves) - 1) / 2) * width
        heights = [counts[key] / total for key in keys]
        axes.bar([key + shift for key in keys], heights, width * 0.92, color=colour(index), label=curve.label)
    _dress(axes, "staleness (versions between the model an edge worked on and the one it changed)", "share of updates")
    axes.grid(visible=False, axis="x")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=24))
    axes.set_xlim(-0.6, shown + 0.6)
    longest = max((key for curve in curves for key in curve.history.staleness), default=0)
    if longest > shown:
        text = f"not shown: the stalest {1 - BULK:.1%}, up to {longest}"
        axes.text(1.0, 0.9, text, transform=axes.transAxes, ha="right", color=SOFT, fontsize=9)
    _legend(figure, axes, len(curves))
    return figure


def _bulk(counts: Counter[int]) -> int:
    """The staleness that all but a few updates stay within."""
    seen = 0
    for key in sorted(counts):
        seen += counts[key]
        if seen >= BULK * counts.total():
            return key
    return 0


PANELS = (
    ("sensitivity", "sensitivity dS"),
    ("learning_rate", "learning rate\nat its start"),
    ("clip_norm", "clip bound"),
)


def stages(curves: Sequence[Curve]) -> Figure:
    """Sensitivity, learning rate and clip bound over the updates; a step where a stage began."""
    figure = _figure(10.5, 7.2)
    grid = figure.subplots(len(PANELS), 1, sharex=True)
    for axes, (key, name) in zip(grid, PANELS, strict=True):
        drawn: list[float] = []
        for index, curve in enumerate(curves):
            places, heights = _steps(curve.history, key)
            drawn += [height for height in heights if height > 0]
            pen = _pen(index, 2) | {"marker": "", "drawstyle": "steps-post"}
            axes.plot(places, heights, label=curve.label, **pen)
        if drawn and max(drawn) > 10 * min(drawn):
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axes.yaxis.set_major_formatter(FuncFormatter(_thousands))
            axes.yaxis.set_minor_locator(NullLocator())
        elif drawn:
            axes.set_ylim(0.0, 1.1 * max(drawn))
        _dress(axes, "updates applied" if axes is grid[-1] else "", name)
        if not drawn:
            axes.text(0.5, 0.5, "not used by these runs", transform=axes.transAxes, ha="center", color=SOFT)
            axes.set_yticks([])
    grid[-1].xaxis.set_major_formatter(FuncFormatter(_thousands))
    _legend(figure, grid[0], len(curves))
    return figure


def _steps(history: History, key: str) -> tuple[list[float], list[float]]:
    """The corners of a stage quantity: one at each stage's first update, one at the last update of the run."""
    stages = [stage for stage in history.stages if isinstance(stage.get(key), int | float)]
    places = [float(stage.get("from_update", 0)) for stage in stages]
    heights = [float(stage[key]) for stage in stages]
    if places:
        places.append(max(float(history.updates), places[-1]))
        heights.append(heights[-1])
    return places, heights


def _thousands(value: float, _: int | None) -> str:
    return f"{value:,g}"


def _columns(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def _pen(index: int, points: int) -> dict[str, Any]:
    """Colour, dash and marker of the run at this place; markers only where points are few enough to tell apart."""
    return {
        "color": colour(index),
        "linestyle": LINES[(index // len(COLOURS) + index) % len(LINES)],
        "linewidth": 1.9,
        "marker": MARKERS[index % len(MARKERS)],
        "markersize": 4.5,
        "markevery": max(1, math.ceil(points / 20)),
    }


def _figure(width: float, height: float) -> Figure:
    """An empty page of this size in inches."""
    return Figure(figsize=(width, height), dpi=130, layout="constrained", facecolor="white")


def _dress(axes: Axes, below: str, beside: str) -> None:
    """The common look: quiet frame, light grid, labels with units."""
    axes.set_xlabel(below, color=INK, fontsize=10)
    axes.set_ylabel(beside, color=INK, fontsize=10)
    axes.grid(visible=True, color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK, labelsize=9, length=3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("#8a96a3")


def _legend(figure: Figure, axes: Axes, entries: int) -> None:
    """One legend above all panels, if there is more than one run to tell apart."""
    if entries > 1:
        handles, labels = axes.get_legend_handles_labels()
        columns = min(entries, 4)
        figure.legend(handles, labels, loc="outside upper center", ncols=columns, frameon=False, fontsize=9.5)


def png_of(figure: Figure, dpi: float | None = None) -> bytes:
    """The picture as a file has it; `dpi`: none: the figure's own."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi="figure" if dpi is None else dpi)
    return buffer.getvalue()
