"""A cloud that dies at any moment and goes on from its checkpoint: nothing lost, nothing twice, the same result."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from harness import Pump, check_invariants, experiment, federate, join, settings_for
from mortal import Deaths, Mortal

from cloud import durable
from cloud.build import build as build_cloud
from common.experiment import Experiment, edge_ids
from common.node import CLOUD, Halt

ALGORITHMS = ("csgd", "asgd", "audp", "mapa")


def run(plan: Experiment, folder: Path, deaths: Deaths) -> tuple[Pump, Mortal]:
    pump = Pump(seed=2)
    cloud = Mortal(plan, folder, deaths)
    pump.layout = cloud.recovery.cloud.layout
    pump.add(CLOUD, cloud)
    for edge in edge_ids(plan.data.edges):
        join(plan, pump, edge)
    pump.run()
    cloud.close()
    return pump, cloud


def plan_of(algorithm: str, updates: int = 60, mode: str = "async") -> Experiment:
    settings = settings_for(algorithm)
    settings["algorithm"] = {**settings["algorithm"], "mode": mode, "edge": {"patience": 2.0}}
    return experiment(**settings, stop={"updates": updates}, evaluation__every=20)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("often", [3, 10_000])
def test_whenever_it_dies_it_is_where_it_was(
    algorithm: str, often: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each death compares the state that died with the state that is restored, bit for bit."""
    monkeypatch.setattr(durable, "EVENTS", often)
    deaths = Deaths(0.2)
    pump, cloud = run(plan_of(algorithm), tmp_path, deaths)
    assert deaths.count > 10
    halt = pump.halted(CLOUD)
    assert halt is not None
    assert halt.reason == "updates reached"
    updates = cloud.rows("update")
    assert [row["update"] for row in updates if row["applied"]] == list(range(1, 61))
    assert max(Counter((row["edge"], row["ticket"]) for row in updates).values()) == 1
    check_invariants(pump)
    assert len(cloud.rows("resumed")) == deaths.count


@pytest.mark.parametrize("algorithm", ["audp", "mapa"])
def test_in_rounds_a_run_with_deaths_ends_with_the_same_model_bit_for_bit(
    algorithm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable, "EVENTS", 20)
    plan = plan_of(algorithm, 40, "sync")
    undisturbed = Pump(seed=2)
    calm = federate(plan, undisturbed)
    undisturbed.run()
    deaths = Deaths(0.1)
    _, cloud = run(plan, tmp_path, deaths)
    assert deaths.count > 5
    assert np.array_equal(cloud.node.tensors.flat, calm.node.tensors.flat)


def test_edges_go_on_at_once_and_are_charged_for_nothing_twice(tmp_path: Path) -> None:
    plan = plan_of("audp", 200)
    deaths = Deaths(0.05)
    pump, cloud = run(plan, tmp_path, deaths)
    answered = cloud.rows("update")
    released = sum(len(pump.rows("release", edge)) for edge in edge_ids(3))
    assert deaths.count > 10
    assert released - len(answered) <= 3, "only what was under way at the end may be lost"
    (end,) = cloud.rows("end")
    assert end["time"] < 1.0, "nobody waits for the patience of edges"


def test_spent_budgets_end_the_run_at_once_though_it_dies_on_the_way(tmp_path: Path) -> None:
    plan = experiment(
        algorithm__edge={"patience": 2.0},
        privacy={"mechanism": "gaussian", "noise_multiplier": 1.0, "max_releases": 10},
    )
    deaths = Deaths(0.2)
    deaths.STEPS = ("unperformed", "half recorded", "unsent")  # a Bye that was not written down was not heard
    pump, cloud = run(plan, tmp_path, deaths)
    assert deaths.count > 10
    (end,) = cloud.rows("end")
    assert end["reason"] == "budgets spent after 30 updates"
    assert end["time"] - max(row["time"] for row in cloud.rows("bye")) <= cloud.node._settings.grace / 100
    assert pump.halted(CLOUD) == Halt("budgets spent after 30 updates", 0)


def test_a_cloud_without_the_state_takes_no_answer_to_a_ticket_of_the_one_before(tmp_path: Path) -> None:
    plan = plan_of("audp", 60)
    pump = Pump(seed=2)
    federate(plan, pump)
    pump.run(stop=lambda: len(pump.rows("update")) >= 20)
    before = {edge: len(pump.rows("release", edge)) for edge in edge_ids(3)}
    pump._processes[CLOUD].halt = Halt("killed", 137)
    other = build_cloud(plan, "cloud-boot-2")
    pump.records = [row for row in pump.records if row[1] != CLOUD]
    pump.add(CLOUD, other.node)
    pump.run()
    updates = pump.rows("update")
    assert [row["update"] for row in updates if row["applied"]] == list(range(1, 61))
    for edge, count in before.items():
        own = sum(row["edge"] == edge for row in updates)
        assert own <= len(pump.rows("release", edge)) - count, "an answer to the cloud before was counted"
