"""A figure of a paper as a file: which experiments to run, and what to draw from them.

    figure: "6"
    title: Accuracy against the epsilon of one release
    claim: MAPA above AUDP at every epsilon, most at small ones
    experiment: {...}                       # what all its runs share, as an experiment file has it
    panels: {a: {title: LR on MNIST, set: {model.name: logistic}}}
    variants: {AUDP: {set: {algorithm.name: audp}}, CSGD: {set: {...}, is_level: true}}
    axis: {key: privacy.epsilon, label: epsilon of one release, values: [0.1, 0.5]}
    plots: [{x: axis, y: accuracy}, {x: epsilon_total, y: accuracy}]
    seeds: [1, 2, 3]
    mechanisms: {paper: {set: {...}}, rigorous: {...}, gaussian: {set: {...}, axis: {...}}}
    quick: {seeds: [1], set: {stop.updates: 500}}

One run for each panel, variant, value of the axis (once for variants that do not depend on it) and seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, FiniteFloat, ValidationError

from common.errors import ConfigError, Fault
from common.experiment import faults_of, read_yaml
from common.section import Section

Mechanism = Literal["paper", "rigorous", "gaussian"]
Measure = Literal["accuracy", "loss", "gradient_norm", "updates_to"]


class Axis(Section):
    """A setting that takes several values."""

    key: str
    label: str
    values: list[int | FiniteFloat] = Field(min_length=1)
    log: bool = False


class Variant(Section):
    """One series. `is_level`: it does not depend on the axis, and is a level line there. `panels`: where; none: all."""

    set: dict[str, Any] = Field(default_factory=dict)
    is_level: bool = False
    panels: list[str] | None = Field(default=None, min_length=1)


class Panel(Section):
    """One part of the figure.

    `threshold`: the loss that `updates_to` counts updates to. `variants`: its own series, in place of the figure's.
    """

    title: str
    set: dict[str, Any] = Field(default_factory=dict)
    threshold: FiniteFloat | None = None
    variants: dict[str, Variant] | None = None


class Plot(Section):
    """What is drawn of every panel: `x` updates makes curves, the others one point for each value of the axis."""

    x: Literal["updates", "axis", "epsilon_total"]
    y: Measure
    log: bool = False


class Change(Section):
    """What a mechanism, or haste, changes about the figure. `variants`: series besides those of all mechanisms."""

    set: dict[str, Any] = Field(default_factory=dict)
    variants: dict[str, Variant] = Field(default_factory=dict)
    axis: Axis | None = None
    values: list[int | FiniteFloat] | None = Field(default=None, min_length=1)
    seeds: list[int] | None = Field(default=None, min_length=1)
    panels: list[str] | None = Field(default=None, min_length=1)


class Figure(Section):
    """The whole file. `runs`: where its runs take place."""

    figure: str
    title: str
    claim: str
    runs: Literal["simulator", "broker"] = "simulator"
    experiment: dict[str, Any]
    panels: dict[str, Panel] = Field(min_length=1)
    variants: dict[str, Variant] = Field(default_factory=dict)
    axis: Axis | None = None
    plots: list[Plot] = Field(min_length=1)
    seeds: list[int] = Field(min_length=1)
    mechanisms: dict[Mechanism, Change] = Field(min_length=1)
    quick: Change = Change()

    def under(self, mechanism: Mechanism) -> Figure:
        """The figure with the series that it has for one mechanism."""
        variants = {**self.variants, **self.mechanisms[mechanism].variants}
        return self.model_copy(update={"variants": variants})

    def variants_of(self, panel: str) -> Mapping[str, Variant]:
        """The series of a panel."""
        variants = self.panels[panel].variants or self.variants
        return {name: one for name, one in variants.items() if one.panels is None or panel in one.panels}


def read_figure(path: Path) -> Figure:
    """Reads a figure file, `figure-<number>.yaml`.

    Raises:
        ConfigError: one fault for each thing that is wrong.
    """
    try:
        figure = Figure.model_validate(read_yaml(path))
    except ValidationError as error:
        raise ConfigError(faults_of(error, path.stem)) from error
    if faults := [Fault(f"{path.stem}.{fault.path}", fault.value, fault.expected) for fault in _faults(figure, path)]:
        raise ConfigError(faults)
    return figure


def _faults(figure: Figure, path: Path) -> Iterator[Fault]:
    if path.stem != f"figure-{figure.figure}":
        yield Fault("figure", figure.figure, f"the number in the file's name, {path.stem.removeprefix('figure-')}")
    for name, panel in figure.panels.items():
        if not figure.variants_of(name):
            yield Fault(f"panels.{name}.variants", None, "some, here or for all panels")
        if panel.threshold is None and any(plot.y == "updates_to" for plot in figure.plots):
            yield Fault(f"panels.{name}.threshold", None, "the loss that updates_to counts updates to")
    for where, variants in _variants(figure):
        for name, variant in variants.items():
            for panel_name in set(variant.panels or ()) - set(figure.panels):
                yield Fault(f"{where}.{name}.panels", panel_name, f"one of {', '.join(figure.panels)}")
    for where, change in _changes(figure):
        axis = change.axis or figure.axis
        for panel_name in set(change.panels or ()) - set(figure.panels):
            yield Fault(f"{where}.panels", panel_name, f"one of {', '.join(figure.panels)}")
        if change.values is not None and axis is None:
            yield Fault(f"{where}.values", change.values, "none without an axis")
        if where != "quick" and axis is None and any(plot.x == "axis" for plot in figure.plots):
            yield Fault("axis", None, f"one, here or in {where}, for a plot against it")
        for name in change.variants if where == "quick" else set(change.variants) & set(figure.variants):
            yield Fault(f"{where}.variants", name, "a mechanism's own series, named like none of the others")


def _variants(figure: Figure) -> Iterator[tuple[str, Mapping[str, Variant]]]:
    yield "variants", figure.variants
    for mechanism, change in figure.mechanisms.items():
        yield f"mechanisms.{mechanism}.variants", change.variants


def _changes(figure: Figure) -> Iterator[tuple[str, Change]]:
    for name, change in figure.mechanisms.items():
        yield f"mechanisms.{name}", change
    yield "quick", figure.quick
