"""What a figure draws of its results: curves against updates, or points against its axis or the total epsilon."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TextIO

from lab.design import Design
from lab.figure import Plot
from lab.panels import Panel
from lab.sweep import Result
from lab.table import Spread

Results = Mapping[tuple[str, str], Sequence[Result]]
"""By panel and variant."""


def panels_of(plan: Design, plot: Plot, results: Results) -> Iterator[Panel]:
    """The panels of one plot."""
    labels = {"updates": "updates", "epsilon_total": "total epsilon (worst edge)"}
    label = plan.axis.label if plot.x == "axis" and plan.axis is not None else labels.get(plot.x, "")
    measures = {"accuracy": "test accuracy", "loss": "test loss", "gradient_norm": "gradient norm (test set)"}
    for name, panel in plan.panels.items():
        series: dict[str, list[tuple[float | None, Spread]]] = {}
        for variant in plan.figure.variants_of(name):
            found = results[name, variant]
            if plot.x == "updates":
                series |= dict(_curves(variant, plan, plot, found))
            else:
                series[variant] = list(_points(plan, plot, found, panel.threshold))
        below = measures.get(plot.y, f"updates to a loss of {panel.threshold}")
        is_log = plan.axis is not None and plan.axis.log and plot.x == "axis"
        yield Panel(f"({name}) {panel.title}", label, below, series, log_x=is_log, log_y=plot.log)


def _curves(
    variant: str, plan: Design, plot: Plot, results: Sequence[Result]
) -> Iterator[tuple[str, list[tuple[float | None, Spread]]]]:
    """One curve for each value of the axis: mean over the seeds at each evaluation."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        values = [f"{value}" for key, value in result.point.values if key != "seed"]
        groups.setdefault(" ".join([variant, *values]), []).append(result)
    for name, group in groups.items():
        moments: dict[float, list[float | None]] = {}
        for result in group:
            for score in result.curve:
                moments.setdefault(float(score["updates"] or 0.0), []).append(score.get(plot.y))
        points = [(at, Spread.of(values)) for at, values in sorted(moments.items()) if len(values) == len(group)]
        yield name, [(at, spread) for at, spread in points if spread is not None]


def _points(
    plan: Design, plot: Plot, results: Sequence[Result], threshold: float | None
) -> Iterator[tuple[float | None, Spread]]:
    """One point for each value of the axis: mean over the seeds."""
    groups: dict[float | None, list[Result]] = {}
    for result in results:
        values = dict(result.point.values)
        at = None if plan.axis is None or plan.axis.key not in values else float(values[plan.axis.key])
        groups.setdefault(at, []).append(result)
    for value, group in groups.items():
        spread = Spread.of(_measured(result, plot, threshold) for result in group)
        at = value
        if plot.x == "epsilon_total":
            totals = [result.epsilon for result in group]
            known = [total for total in totals if total is not None]
            if len(known) < len(totals) and value is not None:
                continue  # no epsilon is established, so there is no place for it
            at = max(known) if len(known) == len(totals) else None
        if spread is not None:
            yield at, spread


def _measured(result: Result, plot: Plot, threshold: float | None) -> float | None:
    if plot.y != "updates_to":
        last = result.curve[-1] if result.curve else {}
        return last.get(plot.y)
    assert threshold is not None
    for score in result.curve:
        loss = score.get("loss")
        if loss is not None and loss <= threshold:
            return score["updates"]
    return None


def tell(panel: Panel, stream: TextIO) -> None:
    """A panel in a few lines of text: its points, or the last of many."""
    print(f"  {panel.title}: {panel.y_label} by {panel.x_label}", file=stream)
    for name, points in panel.series.items():
        shown = points if len(points) <= 6 else points[-1:]
        text = "; ".join(f"{'' if x is None else f'{x:.4g}: '}{spread}" for x, spread in shown)
        print(f"    {name:<16} {text or 'not reached, or not established'}", file=stream)
