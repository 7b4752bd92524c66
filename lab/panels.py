"""One plotter for all figures: panels side by side, in each some series of points with their spread over seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lab.plots import COLOURS, GRID, INK, LINES, MARKERS, SOFT, colour
from lab.table import Spread

COLUMNS = 3
WIDTH, HEIGHT = 4.4, 3.3
"""Inches of one panel."""


@dataclass(frozen=True)
class Panel:
    """Axes with their series: name -> points (x, spread of y); a series with one x of None is a level line."""

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
    lines = math.ceil(len(panels) / columns)
    figure = Figure(figsize=(WIDTH * columns, HEIGHT * lines + 0.8), layout="constrained")
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
        where: dict[str, Any] = {"loc": "outside lower center", "ncols": min(6, len(handles))}
        figure.legend(list(handles.values()), list(handles), **where)
    if title:
        figure.suptitle(title, color=INK)
    return figure


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
    axes.set_xlabel(panel.x_label, color=SOFT)
    axes.set_ylabel(panel.y_label, color=SOFT)
    axes.grid(color=GRID, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    points = [point for known in panel.series.values() for point in known]
    if panel.log_x and any(x is not None and x > 0 for x, _ in points):
        axes.set_xscale("log")
    if panel.log_y and any(y.mean > 0 for _, y in points):  # nothing may have been reached
        axes.set_yscale("log")
    for line, note in enumerate(panel.notes):
        axes.text(0.98, 0.02 + 0.07 * line, note, transform=axes.transAxes, ha="right", fontsize=7, color=SOFT)
