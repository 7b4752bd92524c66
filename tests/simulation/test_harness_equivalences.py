"""Whole runs that must equal a few lines of NumPy, or each other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from harness import Pump, experiment, federate

from common.data import deal, load_test, load_train
from common.evaluation import evaluate
from common.experiment import Experiment, edge_ids
from common.models import build_model
from common.models.spec import ModelSpec
from common.privacy.sampling import poisson
from common.seeds import stream

Flat = np.ndarray[Any, Any]


def model_of(plan: Experiment) -> ModelSpec:
    return build_model(plan.model, (1, 8, 8), 10)


def shards_of(plan: Experiment, model: ModelSpec) -> list[tuple[Flat, Flat]]:
    records = load_train(plan.data)
    shards = deal(records, plan.data, plan.seed)
    return [(model.prepare(records.inputs[own], records.scale), records.labels[own]) for own in shards]


def last_of(plan: Experiment, **options: Any) -> Flat:
    pump = Pump(**options)
    federate(plan, pump)
    pump.run()
    return pump.measured[-1][1]


def plain(algorithm: str, **changes: Any) -> Experiment:
    cloud = {"radius": 10.0}
    settings = {
        "algorithm": {"name": algorithm, "batch_size": 12, "cloud": cloud},
        "privacy": {"mechanism": "none"},
    }
    return experiment(**(settings | changes))


def test_one_edge_without_noise_is_stochastic_gradient_descent() -> None:
    plan = plain("csgd", data__edges=1, model__l2=0.01)
    model = model_of(plan)
    ((inputs, labels),) = shards_of(plan, model)
    flat = model.init(stream(plan.seed, "model")).flat.copy()
    draws = stream(plan.seed, "edge-0001", "sampling", "edge-0001-boot-1")
    smoothness, gradient_std, radius = 0.5 + 0.01, math.sqrt(2), 10.0
    for step in range(1, 61):
        batch = poisson(len(labels), 12, draws)
        gradient = model.gradient_sum(flat, inputs[batch], labels[batch]) / 12 + 0.01 * flat
        flat -= gradient / (smoothness + math.sqrt(step + 1) * gradient_std / (radius * math.sqrt(12)))
    np.testing.assert_allclose(last_of(plan), flat, rtol=2e-4, atol=2e-5)


def test_all_records_of_all_edges_in_step_are_gradient_descent_on_the_pool() -> None:
    plan = plain("asgd", algorithm__mode="sync", privacy__sampling="all", stop__updates=25)
    model = model_of(plan)
    shards = shards_of(plan, model)
    assert {len(labels) for _, labels in shards} == {479}
    inputs, labels = (np.concatenate([shard[part] for shard in shards]) for part in (0, 1))
    flat = model.init(stream(plan.seed, "model")).flat.copy()
    for step in range(1, 26):
        gradient = model.gradient_sum(flat, inputs, labels) / len(labels)
        flat -= gradient / (0.5 + math.sqrt(step + 1) * math.sqrt(2) / (10.0 * math.sqrt(479 * 3)))
    np.testing.assert_allclose(last_of(plan), flat, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", ["audp", "mapa"])
def test_in_step_the_order_of_delivery_changes_no_bit(name: str) -> None:
    plan = experiment(algorithm={"name": name, "batch_size": 12, "mode": "sync"}, stop__updates=40)
    results = [last_of(plan, seed=seed, latency=(0.001, 0.5)) for seed in range(4)]
    for other in results[1:]:
        assert np.array_equal(results[0], other)


def test_out_of_step_the_order_does_matter() -> None:
    """The control of the test above: the seeds do change the order."""
    plan = experiment()
    first, second = (last_of(plan, seed=seed, latency=(0.001, 0.5)) for seed in (0, 1))
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("edges", [1, 3, 5])
def test_edges_in_turn_are_stale_by_their_number_less_one(edges: int) -> None:
    plan = experiment(data__edges=edges, stop__updates=100)
    pump = Pump(latency=(0.01, 0.01))
    federate(plan, pump)
    pump.run()
    staleness = [row["staleness"] for row in pump.rows("update")]
    assert staleness[edges:] == [edges - 1] * (100 - edges)


def test_a_slow_edge_is_staler_and_counts_less() -> None:
    plan = experiment(stop__updates=300)
    pump = Pump(latency=(0.01, 0.01), delay=lambda sender, _: 0.1 if sender == "edge-0003" else 0.0)
    federate(plan, pump)
    pump.run()
    rows = pump.rows("update")
    mean = {edge: float(np.mean([row["staleness"] for row in rows if row["edge"] == edge][2:])) for edge in edge_ids(3)}
    assert mean["edge-0003"] > 3 * mean["edge-0001"]
    assert sum(row["edge"] == "edge-0003" for row in rows) < 60


@pytest.mark.parametrize(("noise_multiplier", "learns"), [(0.5, True), (200.0, False)])
def test_a_private_run_learns_unless_the_noise_drowns_it(noise_multiplier: float, learns: bool) -> None:
    plan = experiment(privacy__noise_multiplier=noise_multiplier, stop__updates=1500)
    model = model_of(plan)
    test = load_test(plan.data)
    score = evaluate(model, last_of(plan), model.prepare(test.inputs, test.scale), test.labels)
    assert (score.accuracy > 0.8) == learns


def test_the_weaker_edge_pays_less() -> None:
    plan = experiment(privacy__per_edge={"edge-0002": {"noise_multiplier": 4.0}}, stop__updates=90)
    pump = Pump()
    federate(plan, pump)
    pump.run()
    epsilon = {row["edge"]: row["epsilon"] for row in pump.rows("bye")}
    assert epsilon["edge-0002"] < 0.5 * epsilon["edge-0001"]
    assert epsilon["edge-0001"] == pytest.approx(epsilon["edge-0003"], rel=0.05)
