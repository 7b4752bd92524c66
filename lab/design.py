"""A figure's runs, written out: one series for each panel and variant, each with the settings that its runs share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from common.errors import ConfigError, Fault
from lab.figure import Axis, Change, Figure, Mechanism, Panel, Variant
from lab.grid import Grid, grid_of, text_of

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Series:
    """The runs of one panel and variant: the overrides they share, and their grid."""

    panel: str
    variant: str
    overrides: tuple[str, ...]
    grid: Grid


@dataclass(frozen=True)
class Design:
    """A figure for one mechanism: the axis and panels that remain, and all series."""

    figure: Figure
    axis: Axis | None
    panels: Mapping[str, Panel]
    series: tuple[Series, ...]


@dataclass(frozen=True)
class Choice:
    """What a person picks from a figure; empty: what its file says."""

    panels: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()


EVERYTHING = Choice()


def design(figure: Figure, mechanism: Mechanism, data: Settings, *, quick: bool, choice: Choice = EVERYTHING) -> Design:
    """Writes the figure's runs out.

    Args:
        figure: as its file says.
        mechanism: the literal reading, the rigorous one, or Gaussian noise.
        data: settings that come last, such as where the data sets are.
        quick: fewer and shorter runs.
        choice: panels and seeds in place of those that the file names, also of those for haste.

    Raises:
        ConfigError: the figure has no such setting.
    """
    if mechanism not in figure.mechanisms:
        raise ConfigError(Fault("--mechanism", mechanism, f"one of {', '.join(figure.mechanisms)} for {figure.figure}"))
    figure = figure.under(mechanism)
    changes = [figure.mechanisms[mechanism], *([figure.quick] if quick else [])]
    axis, seeds = figure.axis, list(choice.seeds or changes[-1].seeds or changes[0].seeds or figure.seeds)
    for change in changes:
        axis = change.axis or axis
        if change.values is not None and axis is not None:
            axis = axis.model_copy(update={"values": change.values})
    if quick and axis is not None and figure.quick.values is None:
        axis = axis.model_copy(update={"values": _ends(axis.values)})
    names = _names(figure, mechanism, quick, choice)
    panels = {name: figure.panels[name] for name in names}

    def grid(variant: Variant) -> Grid:
        return grid_of({} if axis is None or variant.is_level else {axis.key: axis.values}, seeds)

    return Design(figure, axis, panels, tuple(_series(figure, panels, grid, changes, data)))


def _names(figure: Figure, mechanism: Mechanism, quick: bool, choice: Choice) -> list[str]:
    """The panels to make."""
    own = figure.mechanisms[mechanism].panels
    known = [name for name in figure.panels if own is None or name in own]
    for name in choice.panels:
        if name not in known:
            raise ConfigError(Fault("--panels", name, f"some of {','.join(known)} for {figure.figure}, {mechanism}"))
    wanted = choice.panels or (figure.quick.panels if quick else None)
    names = [name for name in known if wanted is None or name in wanted]
    if not names:
        raise ConfigError(Fault("quick.panels", figure.quick.panels, f"some that {mechanism} has as well"))
    return names


def _series(
    figure: Figure,
    panels: Mapping[str, Panel],
    grid: Callable[[Variant], Grid],
    changes: Sequence[Change],
    data: Settings,
) -> Iterator[Series]:
    for name, panel in panels.items():
        for variant, own in figure.variants_of(name).items():
            settings: dict[str, Any] = {}
            for part in (changes[0].set, panel.set, own.set, *(change.set for change in changes[1:]), data):
                for key, value in part.items():  # a whole section replaces what was said of its parts
                    settings = {known: kept for known, kept in settings.items() if not known.startswith(f"{key}.")}
                    settings.pop(key, None)
                    settings[key] = value
            yield Series(name, variant, overrides_of(settings), grid(own))


def overrides_of(settings: Settings) -> tuple[str, ...]:
    """As `--set` has them, in the same order."""
    return tuple(f"{key}={text_of(value)}" for key, value in settings.items())


def _ends(values: Sequence[Any]) -> list[Any]:
    """First, middle and last."""
    return list(dict.fromkeys([values[0], values[len(values) // 2], values[-1]]))
