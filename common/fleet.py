"""The machines of a run and the lines between them: how fast each edge is, how far from the broker, how often away.

One description for both worlds. The simulator moves its clock by these times; on a real broker an edge that is
faster than its device waits out the difference, and holds back what it sends. `docs/fleet.md` says more.

    fleet:
      devices: {phone: {speed: 400, jitter: 0.2}, server: {speed: 20000}}
      links: {mobile: {latency: 0.05, bandwidth: 250000, loss: 0.02}, wired: {latency: 0.002}}
      edges: [{device: phone, link: mobile, count: 3}, {device: server, link: wired}]
      churn: {up: 120, down: 10}

The edges are taken in turn from `edges`: here edge-0001 to -0003 are phones, edge-0004 a server, edge-0005 a phone
again. `cyclic: 1.0` instead of devices lets each edge make one step a second, whatever its work, and the edges take
turns: each update is as stale as there are other edges (the cyclic delay of MAPA, arXiv 1912.07902, section V).

MQTT repeats what a link loses, so loss costs time and no message: each lost copy is sent again after `RETRY`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from pydantic import Field, FiniteFloat, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from common.section import Positive, Section, Slug

RETRY = 0.2
"""Seconds until a lost packet is sent again (the least that TCP waits)."""
_FAREWELL = 64
"""Tries after which a packet counts as arrived: with loss .9 that is one in a thousand."""


class Device(Section):
    """A machine: `speed` in records per second through one training step, `overhead` in seconds per message."""

    speed: Positive
    overhead: FiniteFloat = Field(default=0.0, ge=0)
    jitter: FiniteFloat = Field(default=0.0, ge=0, lt=1, description="share of itself that a step takes more or less")


class Link(Section):
    """A line to the broker: `latency` in seconds one way, `bandwidth` in bytes per second (none: no limit)."""

    latency: FiniteFloat = Field(default=0.0, ge=0)
    bandwidth: Positive | None = None
    jitter: FiniteFloat = Field(default=0.0, ge=0, lt=1, description="of the latency, more or less")
    loss: FiniteFloat = Field(default=0.0, ge=0, lt=1, description="share of packets that are sent again")


class Placement(Section):
    """So many edges of this kind in each turn."""

    device: Slug
    link: Slug | None = None
    count: int = Field(default=1, ge=1, le=100_000)


class Churn(Section):
    """How long edges stay and are away, each on its own: mean seconds, exponentially distributed."""

    up: Positive
    down: Positive


class Fleet(Section):
    """All machines of a run; without any, nothing takes time in the simulator, and elsewhere what it takes."""

    devices: dict[Slug, Device] = Field(default_factory=dict)
    links: dict[Slug, Link] = Field(default_factory=dict)
    edges: tuple[Placement, ...] = Field(default=(), strict=False)
    churn: Churn | None = None
    cyclic: Positive | None = Field(default=None, description="seconds of one turn, in which each edge makes one step")

    @model_validator(mode="after")
    def _is_complete(self) -> Fleet:
        if faults := list(self._faults()):
            raise ValidationError.from_exception_data("Fleet", faults)
        return self

    def _faults(self) -> Iterator[InitErrorDetails]:
        if self.cyclic is not None:
            for name in ("devices", "links", "edges"):
                if getattr(self, name):
                    yield _fault("none beside cyclic, in which every step takes the same time", "given", name)
            return
        if (self.devices or self.links) and not self.edges:
            yield _fault("a list that says which edge has which device and link", [], "edges")
        for place, placement in enumerate(self.edges):
            for name, known in (("device", self.devices), ("link", self.links)):
                value = getattr(placement, name)
                if value is not None and value not in known:
                    expected = f"one of fleet.{name}s ({', '.join(sorted(known)) or 'none is given'})"
                    yield _fault(expected, value, "edges", place, name)

    @property
    def places(self) -> int:
        """Edges of one turn through `edges`."""
        return sum(placement.count for placement in self.edges)

    def profile(self, index: int, count: int) -> Profile:
        """What edge number `index` (0, 1, ...) of `count` runs on."""
        if self.cyclic is not None:
            return Profile(churn=self.churn, cycle=Cycle(self.cyclic, self.cyclic * index / count))
        if not self.edges:
            return Profile(churn=self.churn)
        placement = self._placement(index)
        link = Link() if placement.link is None else self.links[placement.link]
        return Profile(self.devices[placement.device], link, self.churn)

    def _placement(self, index: int) -> Placement:
        turn = index % self.places
        for placement in self.edges:
            if turn < placement.count:
                break
            turn -= placement.count
        return placement

    def describe(self, count: int) -> str:
        """The fleet of `count` edges in a line; empty without one."""
        kinds: dict[str, int] = {}
        for index in range(count if self.edges else 0):
            placement = self._placement(index)
            kind = placement.device if placement.link is None else f"{placement.device} on {placement.link}"
            kinds[kind] = kinds.get(kind, 0) + 1
        parts = [", ".join(f"{number} x {kind}" for kind, number in kinds.items())] if kinds else []
        if self.cyclic is not None:
            parts.append(f"one step of each edge in {self.cyclic:g} s, in turn")
        if self.churn is not None:
            parts.append(f"away for {self.churn.down:g} s after {self.churn.up:g} s (means)")
        return "; ".join(parts)


@dataclass(frozen=True)
class Cycle:
    """Turns of `period` seconds; this edge's step ends `phase` seconds after each begins, on the clock of all."""

    period: float
    phase: float

    def finish(self, start: float) -> float:
        """The own moment next to one period after `start`: half a period later at least, so nobody loses its turn."""
        return self.phase + self.period * math.floor((start - self.phase) / self.period + 1.5)


@dataclass(frozen=True)
class Profile:
    """One edge's device, link and habits; `cycle`: its turns, whatever its work."""

    device: Device | None = None
    link: Link = field(default_factory=Link)
    churn: Churn | None = None
    cycle: Cycle | None = None

    def finish(self, records: float, start: float, rng: np.random.Generator) -> float | None:
        """When a step over so many records is done that began at `start`, in seconds; None: no machine to pretend."""
        if self.cycle is not None:
            return self.cycle.finish(start)
        if self.device is None:
            return None
        seconds = self.device.overhead + records / self.device.speed
        return start + seconds * _spread(self.device.jitter, rng)

    def passing(self, rng: np.random.Generator) -> float:
        """Seconds from the end of sending to the arrival: latency, and what losses cost."""
        link = self.link
        seconds = link.latency * _spread(link.jitter, rng)
        if link.loss > 0:
            seconds += RETRY * min(int(rng.geometric(1 - link.loss)) - 1, _FAREWELL)
        return seconds

    def sending(self, size: int) -> float:
        """Seconds that so many bytes keep the line busy."""
        return 0.0 if self.link.bandwidth is None else size / self.link.bandwidth


def _spread(jitter: float, rng: np.random.Generator) -> float:
    return 1.0 if jitter == 0 else 1.0 + jitter * (2 * rng.random() - 1)


def _fault(expected: str, value: object, *path: str | int) -> InitErrorDetails:
    error = PydanticCustomError("fleet", "{expected}", {"expected": expected})
    return InitErrorDetails(type=error, loc=path, input=value)
