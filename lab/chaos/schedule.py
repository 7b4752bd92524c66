"""The steps that a scenario comes to; chance is drawn from its seed, so that they can be seen, kept and repeated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from common.errors import ConfigError, Fault
from common.experiment import edge_ids
from common.seeds import stream
from lab.chaos.scenario import ANY, RULES, Chance, Scenario, Step

_TRIES = 100
"""Draws for one step by chance, of which the first is taken that hits nobody who is hit already."""


def steps_of(scenario: Scenario, edges: int) -> tuple[Step, ...]:
    """All steps in the order of time; in none is anybody hit whom another has not let go yet.

    Raises:
        ConfigError: steps of the file hit one node at the same time, or one that the experiment has not.
    """
    rng = stream(scenario.seed, "chaos")
    named = [_named(step, edges, rng) for step in scenario.steps]
    faults = [fault for place, step in enumerate(named) for fault in _faults(named, place, step, edges)]
    if faults:
        raise ConfigError(faults)
    found = list(named)
    if scenario.chance is not None:
        found += _drawn(scenario.chance, found, edges, rng)
    return tuple(sorted(found, key=lambda step: step.at))


def content_of(scenario: Scenario, steps: Sequence[Step]) -> dict[str, Any]:
    """The same scenario with every step written out: a file that repeats it."""
    content = scenario.model_dump(mode="json", by_alias=True, exclude={"chance", "steps"})
    written = [step.model_dump(mode="json", by_alias=True, exclude_none=True) for step in steps]
    return {**content, "steps": written}


def _named(step: Step, edges: int, rng: np.random.Generator) -> Step:
    """The step with the edge that it hits."""
    return step.model_copy(update={"who": str(rng.choice(edge_ids(edges)))}) if step.who == ANY else step


def _faults(steps: Sequence[Step], place: int, step: Step, edges: int) -> Iterable[Fault]:
    known = {"cloud", "broker", *edge_ids(edges)}
    for who in step.hits(edges):
        if who not in known:
            yield Fault(f"steps.{place}.who", who, f"cloud, broker, edges, any, or edge-0001 to {edge_ids(edges)[-1]}")
    for earlier, other in enumerate(steps[:place]):
        if _meet(step, other, edges):
            expected = f"a time at which steps.{earlier} ({other.text()}, at {other.at:g}) is not going on"
            yield Fault(f"steps.{place}.at", step.at, expected)


def _meet(step: Step, other: Step, edges: int) -> bool:
    """Whether both hit one node at one time."""
    if not set(step.hits(edges)) & set(other.hits(edges)):
        return False
    return step.at <= other.over and other.at <= step.over


def _drawn(chance: Chance, taken: Sequence[Step], edges: int, rng: np.random.Generator) -> list[Step]:
    found: list[Step] = []
    pairs, at = chance.pairs(), 0.0
    for _ in range(chance.most):
        at += chance.every * float(rng.uniform(0.5, 1.5))
        for _ in range(_TRIES):
            step = _draw(chance, pairs, round(at, 2), edges, rng)
            if not any(_meet(step, other, edges) for other in (*taken, *found)):
                found.append(step)
                break
    return found


def _draw(chance: Chance, pairs: Sequence[tuple[str, str]], at: float, edges: int, rng: np.random.Generator) -> Step:
    do, who = pairs[int(rng.integers(len(pairs)))]
    content: dict[str, Any] = {"at": at, "do": do, "who": who}
    if RULES[do].lasts != "no":
        content["for"] = round(float(rng.uniform(*chance.lasts)), 2)
    if do == "slow":
        content["delay"] = round(float(rng.uniform(*chance.delay)), 3)
    if do == "skew":
        content["by"] = round(float(rng.uniform(*chance.by)), 1)
    return _named(Step.model_validate(content), edges, rng)
