"""What a figure draws of its results: curves against updates, or points against its axis or the total epsilon."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TextIO

from lab.design import Design
from lab.figure import Plot
from lab.panels import Panel, is_wide
from lab.rounding import at_most
from lab.sweep import Result
from lab.table import Spread

Results = Mapping[tuple[str, str], Sequence[Result]]
"""By panel and variant."""
MEASURES = {"accuracy": "test accuracy", "loss": "test loss", "gradient_norm": "gradient norm (test set)"}


def panels_of(plan: Design, plot: Plot, results: Results) -> Iterator[Panel]:
    """The panels of one plot; those of curves are as many as the axis has values."""
    for name, panel in plan.panels.items():
        found = {variant: results[name, variant] for variant in plan.figure.variants_of(name)}
        if plot.x == "updates":
            for value in _values(found):
                yield _panel_of_curves(f"({name}) {panel.title}", value, plan, plot, found)
        else:
            yield _panel_of_points(f"({name}) {panel.title}", panel.threshold, plan, plot, found)


def _panel_of_points(
    title: str, threshold: float | None, plan: Design, plot: Plot, results: Mapping[str, Sequence[Result]]
) -> Panel:
    series = {variant: list(_points(plan, plot, found, threshold)) for variant, found in results.items()}
    label = plan.axis.label if plot.x == "axis" and plan.axis is not None else "total epsilon (worst edge)"
    is_log = plan.axis is not None and plan.axis.log
    if plot.x == "epsilon_total":
        is_log = is_wide(x for points in series.values() for x, _ in points if x is not None)
    if plot.y != "updates_to":
        return Panel(title, label, MEASURES[plot.y], series, log_x=is_log, log_y=plot.log)
    missed = [
        f"{variant} at {', '.join(f'{value:g}' for value in values)}"
        for variant, found in results.items()
        if (values := _missed(plan, found, threshold))
    ]
    below = f"updates to a loss of {threshold:g}"
    notes = [f"not reached by every seed: {text}" for text in missed]
    return Panel(title, label, below, series, log_x=is_log, log_y=plot.log, notes=notes)


def _panel_of_curves(
    title: str, value: object, plan: Design, plot: Plot, results: Mapping[str, Sequence[Result]]
) -> Panel:
    """All variants at one value of the axis, and those that do not depend on it."""
    series = {
        variant: list(_curve(plot, [result for result in found if _value(result) in (value, None)]))
        for variant, found in results.items()
    }
    if value is not None and plan.axis is not None:
        title = f"{title}, {plan.axis.label}: {value}"
    return Panel(title, "updates", MEASURES[plot.y], series, log_y=plot.log)


def _value(result: Result) -> object:
    """Where on the axis this was made; None if it does not depend on it."""
    return next((value for key, value in result.point.values if key != "seed"), None)


def _values(results: Mapping[str, Sequence[Result]]) -> list[object]:
    """The values of the axis, in order; a single None without one."""
    values = dict.fromkeys(_value(result) for found in results.values() for result in found)
    return [value for value in values if value is not None] or [None]


def _curve(plot: Plot, results: Sequence[Result]) -> Iterator[tuple[float | None, Spread]]:
    """Mean over the seeds at each evaluation that all of them have."""
    moments: dict[float, list[float | None]] = {}
    for result in results:
        for score in result.curve:
            moments.setdefault(float(score["updates"] or 0.0), []).append(score.get(plot.y))
    for at, values in sorted(moments.items()):
        spread = Spread.of(values) if len(values) == len(results) else None
        if spread is not None:
            yield at, spread


def _missed(plan: Design, results: Sequence[Result], threshold: float | None) -> list[float]:
    """The values of the axis at which a seed did not get there."""
    plot = Plot(x="axis", y="updates_to")
    values = {at for at in map(_value, results) if isinstance(at, int | float)}
    reached = {at for at, _ in _points(plan, plot, results, threshold)}
    return sorted(float(value) for value in values if value not in reached)


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
        # upwards, for x may be a total epsilon
        text = "; ".join(f"{'' if x is None else f'{at_most(x, 4):.4g}: '}{spread}" for x, spread in shown)
        print(f"    {name:<16} {text or 'not reached, or not established'}", file=stream)
