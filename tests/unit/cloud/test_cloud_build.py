"""What the cloud finds wrong with an experiment, and the numbers it hands to its controller."""

from __future__ import annotations

from typing import Any

import pytest
from harness import experiment, settings_for

from cloud.algorithms import ALGORITHMS, find
from cloud.build import build, check
from common.errors import ConfigError
from common.messages import Hello
from common.node import CLOUD, Record
from common.privacy.noise import kappa
from edge.build import build as build_edge


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_every_algorithm_is_in_order_by_default(name: str) -> None:
    check(experiment(**settings_for(name)))


@pytest.mark.parametrize(
    ("changes", "path", "expected"),
    [
        ({"algorithm__name": "sgd"}, "algorithm.name", "asgd, audp, csgd, mapa"),
        ({"algorithm__cloud": {"quorom": 3}}, "algorithm.cloud.quorom", "no such key"),
        ({"algorithm__cloud": {"patience": 0.0}}, "algorithm.cloud.patience", "greater than 0"),
        ({"algorithm__cloud": {"radius": "wide"}}, "algorithm.cloud.radius", "number"),
        ({"algorithm__cloud": {"quorum": 9}}, "algorithm.cloud.quorum", "at most 3"),
        ({"stop": {}}, "stop", "updates or seconds"),
        (settings_for("csgd") | {"data__edges": 2}, "data.edges", "1: csgd"),
        ({"model__name": "transformer"}, "model.name", "one of"),
        ({"data__name": "faces"}, "data.name", "one of"),
    ],
)
def test_each_fault_has_a_path_and_an_expectation(changes: dict[str, Any], path: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check(experiment(**changes))
    assert [fault.path for fault in caught.value.faults] == [path]
    assert expected in str(caught.value)


def test_all_faults_come_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        check(experiment(algorithm__cloud={"patience": -1.0, "radius": -1.0, "nonsense": 1}, stop={}))
    assert len(caught.value.faults) == 4


def test_an_unknown_algorithm_has_no_entry() -> None:
    with pytest.raises(ConfigError):
        find(experiment(algorithm__name="sgd"))


def numbers(edges: int = 3, **changes: Any) -> dict[str, Any]:
    """What the controller of a run is told when all edges are there."""
    plan = experiment(data__edges=edges, **changes)
    node = build(plan, "c1").node
    node.start(0.0)
    for number in range(1, edges + 1):
        edge = build_edge(plan, f"edge-{number:04d}", "b1").node
        hello = edge.start(0.0)
        message = next(effect.message for effect in hello if hasattr(effect, "to") and effect.to == CLOUD)
        assert isinstance(message, Hello)
        effects = node.on_message(f"edge-{number:04d}", message, 0.0)
    (begin,) = [effect.row for effect in effects if isinstance(effect, Record) and effect.kind == "begin"]
    return dict(begin)


def test_the_weakest_edge_sets_the_noise() -> None:
    told = numbers(privacy__per_edge={"edge-0002": {"noise_multiplier": 4.0}})
    assert told["kappa"] == pytest.approx(650 * 16.0 / 4)  # d z^2 / 4
    assert told["kappa"] > numbers()["kappa"]


@pytest.mark.parametrize(
    ("changes", "key", "value"),
    [
        ({}, "staleness", 2),
        ({}, "averaged", 1),
        ({"algorithm__mode": "sync"}, "staleness", 0),
        ({"algorithm__mode": "sync"}, "averaged", 3),
        ({"algorithm__rigour": "paper"}, "staleness", 3),
        ({}, "batch_size", 12),
        ({"privacy__sampling": "all"}, "batch_size", 479),
        ({"model__l2": 0.25}, "smoothness", 0.75),
        ({"privacy__clip_norm": 0.5}, "clip_norm", 0.5),
        ({}, "clip_norm", 2**0.5),
        ({"algorithm__edge": {"probes": 7}}, "probes", 7),
    ],
)
def test_the_numbers_of_the_run(changes: dict[str, Any], key: str, value: float) -> None:
    assert numbers(**changes)[key] == pytest.approx(value)


def test_without_noise_nothing_is_clipped() -> None:
    told = numbers(algorithm={"name": "asgd", "batch_size": 12}, privacy={"mechanism": "none"})
    assert (told["clip_norm"], told["kappa"]) == (None, 0.0)


def test_the_first_parameters_and_their_score() -> None:
    cloud = build(experiment(), "c1")
    again = build(experiment(), "c2")
    assert cloud.node.tensors == again.node.tensors
    assert cloud.layout.size == 650
    assert cloud.evaluate(cloud.node.tensors)["loss"] == pytest.approx(2.302585, rel=1e-5)


def test_kappa_of_the_default_event_is_the_golden_one() -> None:
    plan = experiment(privacy__noise_multiplier=1.0)
    node = build_edge(plan, "edge-0001", "b1").node
    hello = next(effect.message for effect in node.start(0.0) if hasattr(effect, "message"))
    assert isinstance(hello, Hello)
    assert kappa(hello.event, 650) == pytest.approx(162.5)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        settings_for("asgd"),
        settings_for("mapa"),
        {"algorithm__rigour": "paper"},
        {"privacy": {"mechanism": "spherical-laplace", "epsilon": 0.5}},
        {"privacy__sampling": "fixed"},
        {"privacy__per_edge": {"edge-0002": {"noise_multiplier": 4.0}}},
    ],
)
def test_edges_of_the_same_experiment_are_admitted(changes: dict[str, Any]) -> None:
    edges = changes.get("data__edges", 3)
    rest = {key: value for key, value in changes.items() if key != "data__edges"}
    assert numbers(edges, **rest)["edges"] == edges
