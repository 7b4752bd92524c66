"""A grid of settings: every combination of the values given for some keys of an experiment."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import yaml

from common.errors import ConfigError, Fault

MOST = 100_000
"""Points of a grid at most."""
LONGEST = 150
"""Characters of a point's name at most: file systems take 255 bytes, and other names are made of it."""


@dataclass(frozen=True)
class Point:
    """One combination: key and value of each axis, in the order of the axes."""

    values: tuple[tuple[str, Any], ...]

    @property
    def overrides(self) -> tuple[str, ...]:
        """As `--set` has them."""
        return tuple(f"{key}={text_of(value)}" for key, value in self.values)

    @property
    def name(self) -> str:
        """As a file's name: `noise_multiplier=2.0,seed=1`; of a very long one the beginning, and a digest."""
        parts = [f"{word_of(key.rpartition('.')[2])}={word_of(text_of(value))}" for key, value in self.values]
        name = ",".join(parts) or "only"
        if len(name) <= LONGEST:
            return name
        digest = hashlib.sha256(name.encode()).hexdigest()[:12]
        return f"{name[: LONGEST - len(digest) - 1]}-{digest}"


@dataclass(frozen=True)
class Grid:
    """Axes: key and values of each."""

    axes: tuple[tuple[str, tuple[Any, ...]], ...]

    def points(self) -> Iterator[Point]:
        """Every combination; the last axis turns fastest."""
        keys = self.keys
        for values in product(*(values for _, values in self.axes)):
            yield Point(tuple(zip(keys, values, strict=True)))

    @property
    def keys(self) -> list[str]:
        """The settings that take several values."""
        return [key for key, _ in self.axes]

    @property
    def size(self) -> int:
        """Number of points."""
        size = 1
        for _, values in self.axes:
            size *= len(values)
        return size


def read_grid(texts: Iterable[str]) -> Grid:
    """A grid from `key=a,b,c` (or `key=[a, b, c]`, where a value has commas of its own).

    Raises:
        ConfigError: a text is no such thing, a key comes twice, or the grid is too large.
    """
    axes: dict[str, tuple[Any, ...]] = {}
    for text in texts:
        key, equals, values = text.partition("=")
        if not (equals and key and values):
            raise ConfigError(Fault("--grid", text, "key.path=value,value,..."))
        if key in axes:
            raise ConfigError(Fault("--grid", key, "each key once"))
        axes[key] = _values(key, values)
    return grid_of(axes)


def grid_of(axes: Mapping[str, Sequence[Any]], seeds: Sequence[int] = ()) -> Grid:
    """A grid from keys and values, with seeds as its last axis.

    Raises:
        ConfigError: a value comes twice, an axis has none, or the grid is too large.
    """
    found = [(key, tuple(values)) for key, values in axes.items()]
    if seeds:
        found.append(("seed", tuple(seeds)))
    grid = Grid(tuple(found))
    for key, values in found:
        if not values or len({_essence(value) for value in values}) < len(values):
            raise ConfigError(Fault(f"--grid {key}", list(values), "different values, at least one"))
    if grid.size > MOST:
        raise ConfigError(Fault("--grid", grid.size, f"at most {MOST} points"))
    if len({point.name.lower() for point in grid.points()}) < grid.size:
        expected = "values that still differ as names of files, of letters, digits, and any of .+-_"
        raise ConfigError(Fault("--grid", {key: list(values) for key, values in found}, expected))
    return grid


def text_of(value: Any) -> str:
    """The value as YAML has it, in a line."""
    return yaml.safe_dump(value, default_flow_style=True, width=10_000).removesuffix("...\n").strip()


def word_of(text: str) -> str:
    """The text as part of a file's name."""
    return re.sub(r"[^A-Za-z0-9.+_-]+", "_", text)[:60]


def _essence(value: Any) -> str:
    """The same for two ways to write a number: 2 and 2.0."""
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def _values(key: str, text: str) -> tuple[Any, ...]:
    expected = "YAML values, separated by commas"
    try:
        found = yaml.safe_load(text if text.startswith("[") else f"[{text}]")
    except yaml.YAMLError as error:
        raise ConfigError(Fault(f"--grid {key}", text, expected)) from error
    if not isinstance(found, list):
        raise ConfigError(Fault(f"--grid {key}", text, expected))
    return tuple(found)
