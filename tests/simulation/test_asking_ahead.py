"""Edges at work are asked together and ahead of time; that changes nothing that they say, and nothing that remains."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from harness import experiment, settings_for

from cloud.build import build
from common.experiment import edge_ids
from common.node import CLOUD
from edge.build import build_all
from lab import simulator as module
from lab.garbage import settled
from lab.simulator import Simulator

FLEETS: Mapping[str, Mapping[str, Any]] = {
    "in turn": {"cyclic": 1.0, "churn": {"up": 3.0, "down": 0.5}},
    "mixed": {
        "devices": {"slow": {"speed": 400.0, "jitter": 0.2}, "fast": {"speed": 4000.0}},
        "links": {"mobile": {"latency": 0.02, "bandwidth": 250000.0, "loss": 0.2}},
        "edges": [{"device": "slow", "link": "mobile"}, {"device": "fast", "count": 2}],
        "churn": {"up": 0.5, "down": 0.1},
    },
}


def run(fleet: str) -> tuple[list[Any], np.ndarray[Any, Any], weakref.ref[Simulator]]:
    """Every row of every node, the last parameters, and whether the simulator is still in memory."""
    changes = {"data": {"name": "digits", "edges": 7}, "stop": {"updates": 120}, "fleet": FLEETS[fleet]}
    plan = experiment(**(settings_for("mapa") | changes))
    boots = {name: f"boot-{name}" for name in (CLOUD, *edge_ids(7))}
    rows: list[Any] = []
    simulator = Simulator(plan.seed, lambda *row: rows.append(row))
    cloud = build(plan, boots[CLOUD])
    simulator.add(CLOUD, cloud.node)
    for index, (name, edge) in enumerate(build_all(plan, boots)):
        simulator.add(name, edge.node, plan.fleet.profile(index, 7), edge.work)
    with settled():
        assert simulator.run(100_000)
    return rows, cloud.node.tensors.flat.copy(), weakref.ref(simulator)


@pytest.mark.parametrize("fleet", FLEETS)
def test_nobody_says_anything_else_for_being_asked_ahead(fleet: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AHEAD", 1)  # each when it has finished
    alone, flat, _ = run(fleet)
    for ahead in (3, 1000):
        monkeypatch.setattr(module, "AHEAD", ahead)
        rows, found, _ = run(fleet)
        assert rows == alone
        assert np.array_equal(found, flat)
    assert sum(row[1] == "update" for row in alone) >= 120


def test_a_run_that_is_over_leaves_nothing_in_memory_and_the_interpreter_as_it_was() -> None:
    threshold, is_on = gc.get_threshold(), gc.isenabled()
    gc.disable()
    try:
        _, _, simulator = run("in turn")
        assert simulator() is None, "without a search for what refers to itself"
    finally:
        if is_on:
            gc.enable()
    assert gc.get_threshold() == threshold
    assert gc.get_freeze_count() == 0
