"""One plotter for all figures: panels side by side, in each some series of points with their spread over seeds."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from lab.plots import COLOURS, GRID, INK, LINES, MARKERS, SOFT, colour
from lab.table import Spread

COLUMNS = 3
WIDTH, HEIGHT = 4.4, 3.3
"""Inches of one panel."""
ALONE = 6.6
"""Inches that a single panel is wide."""
WIDE = 20
"""Ratio of the largest to the smallest value from which an axis is logarithmic."""
_NARROW = 3  # ratio below which a logarithmic axis has hardly a tick, and is none
_LETTERS = 11  # of a title, on an inch


@dataclass(frozen=True)
class Panel:
    """Axes with their series: name -> points (x, spread of y); a series with one x of None is a level line.

    `notes`: lines below the axis, such as what has no point.
    """

    title: str
    x_label: str
    y_label: str
    series: Mapping[str, Sequence[tuple[float | None, Spread]]]
    log_x: bool = False
    log_y: bool = False
    notes: Sequence[str] = field(default=())


def draw(panels: Sequence[Panel], title: str = "") -> Figure:
    """All panels in rows of three; one legend for all, or one in each where their series are too many."""
    columns = min(COLUMNS, max(1, len(panels)))
    lines, width = math.ceil(len(panels) / columns), WIDTH * columns if columns > 1 else ALONE
    figure = Figure(figsize=(width, HEIGHT * lines + 0.8), layout="constrained")
    grid = figure.subplots(lines, columns, squeeze=False)
    names = list(dict.fromkeys(name for panel in panels for name in panel.series))
    is_shared = len(names) <= len(COLOURS)
    for place, axes in enumerate(grid.flat):
        if place < len(panels):
            _fill(axes, panels[place], names if is_shared else list(panels[place].series))
        else:
            axes.set_axis_off()
        if place < len(panels) and not is_shared:
            axes.legend(frameon=False, fontsize=8)
    handles: dict[str, Artist] = {}
    for axes in grid.flat:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(str(label), handle)
    if is_shared and len(handles) > 1:
        where: dict[str, Any] = {
            "loc": "outside lower center",
            "ncols": min(int(width / 1.6), len(handles)),
            "fontsize": 9,
        }
        figure.legend(list(handles.values()), list(handles), **where)
    if title:
        figure.suptitle(textwrap.fill(title, int(width * _LETTERS)), color=INK)
    return figure


def is_wide(values: Iterable[float]) -> bool:
    """Whether these values want a logarithmic axis."""
    found = sorted(values)
    return bool(found) and found[0] > 0 and found[-1] / found[0] >= WIDE


def _fill(axes: Axes, panel: Panel, names: Sequence[str]) -> None:
    for name, points in panel.series.items():
        index = names.index(name)
        if points and points[0][0] is None:
            axes.axhline(points[0][1].mean, color=colour(index), linestyle=LINES[1], label=name, linewidth=1.2)
            continue
        known = [(x, y) for x, y in points if x is not None and math.isfinite(y.mean)]
        known.sort(key=lambda point: point[0])
        xs, means = [x for x, _ in known], [y.mean for _, y in known]
        marker = MARKERS[index % len(MARKERS)] if len(known) <= 40 else ""
        axes.plot(xs, means, color=colour(index), label=name, marker=marker, markersize=4, linewidth=1.5)
        if any(y.count > 1 for _, y in known):
            lows, highs = [y.lowest for _, y in known], [y.highest for _, y in known]
            axes.fill_between(xs, lows, highs, color=colour(index), alpha=0.15, linewidth=0)
    axes.set_title(panel.title, fontsize=10, color=INK)
    axes.set_xlabel("\n".join([panel.x_label, *panel.notes]), color=SOFT)
    axes.set_ylabel(panel.y_label, color=SOFT)
    axes.grid(color=GRID, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    points = [point for known in panel.series.values() for point in known]
    if not points:
        axes.set_xticks([])
        axes.set_yticks([])
        axes.text(0.5, 0.5, "no points", transform=axes.transAxes, ha="center", color=SOFT)
    if panel.log_x and _spans([x for x, _ in points if x is not None]):
        axes.set_xscale("log")
        _mark(axes.xaxis, [x for x, _ in points if x is not None])
    if panel.log_y and _spans([y.mean for _, y in points]):
        axes.set_yscale("log")
        _mark(axes.yaxis, [y.mean for _, y in points])


def _spans(values: Sequence[float]) -> bool:
    """Whether a logarithmic axis has a use for these values."""
    return bool(values) and min(values) > 0 and max(values) / min(values) >= _NARROW


def _mark(axis: Axis, values: Sequence[float]) -> None:
    """Ticks with plain numbers that do not run into each other."""
    decades = math.log10(max(values) / min(values))
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if decades < 2 else (1.0,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
