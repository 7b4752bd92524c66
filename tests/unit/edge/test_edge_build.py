"""What an edge finds wrong with an experiment, and what it is put together from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness import experiment, settings_for

from common.errors import ConfigError, DataError
from common.messages import Directive, Hello, Model, Update
from common.node import CLOUD, Send
from common.privacy.probes import plan_probes
from common.tensors import Tensors
from edge.algorithms import ALGORITHMS
from edge.build import Edge, build, check


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_every_algorithm_is_in_order_by_default(name: str) -> None:
    assert check(experiment(**settings_for(name))) == ()


@pytest.mark.parametrize(
    ("changes", "path", "expected"),
    [
        ({"algorithm__name": "sgd"}, "algorithm.name", "asgd, audp, csgd, mapa"),
        ({"algorithm__edge": {"hello": 1}}, "algorithm.edge.hello", "no such key"),
        ({"algorithm__edge": {"probe_share": 1.5}}, "algorithm.edge.probe_share", "less than 1"),
        ({"privacy": {"mechanism": "none"}}, "privacy.mechanism", "audp is private"),
        ({"algorithm": {"name": "asgd"}}, "privacy.mechanism", "asgd adds no noise"),
        ({"algorithm__batch_size": 480}, "algorithm.batch_size", "at most 479"),
        ({"privacy": {"mechanism": "gaussian"}}, "privacy.noise_multiplier", "positive number"),
        ({"model__name": "transformer"}, "model.name", "one of"),
        ({"data__name": "faces"}, "data.name", "one of"),
        (
            {"algorithm": {"name": "mapa"}, "stop": {"seconds": 5.0}},
            "stop.updates",
            "probes",
        ),
    ],
)
def test_each_fault_has_a_path_and_an_expectation(changes: dict[str, Any], path: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check(experiment(**changes))
    assert [fault.path for fault in caught.value.faults] == [path]
    assert expected in str(caught.value)


def test_a_delta_that_publishes_a_record_is_a_caution() -> None:
    (caution,) = check(experiment(privacy__dp_delta=0.01))
    assert "dp_delta" in caution


def test_more_edges_than_records() -> None:
    with pytest.raises(DataError, match="edge-1438"):
        check(experiment(data__edges=2000, algorithm__batch_size=1))


def test_an_edge_that_the_experiment_does_not_have() -> None:
    with pytest.raises(ConfigError, match="edge-0001 to edge-0003"):
        build(experiment(), "edge-0004", "b1")


def hello_of(edge: Edge) -> Hello:
    message = next(effect.message for effect in edge.node.start(0.0) if isinstance(effect, Send))
    assert isinstance(message, Hello)
    return message


def test_the_shards_are_all_the_records_and_none_twice() -> None:
    samples = [hello_of(build(experiment(), f"edge-000{number}", "b1")).samples for number in (1, 2, 3)]
    assert samples == [479, 479, 479]


def test_hello_says_what_the_edge_is() -> None:
    plan = experiment(privacy__per_edge={"edge-0002": {"noise_multiplier": 3.0}})
    hello = hello_of(build(plan, "edge-0002", "b9"))
    assert (hello.digest, hello.boot, hello.samples, hello.ticket) == (plan.digest(), "b9", 479, 0)
    assert (hello.event.noise_multiplier, hello.event.sampling_rate) == (3.0, 12 / 479)


def mapa(**changes: Any) -> Any:
    return experiment(**({"algorithm": {"name": "mapa", "batch_size": 12}, "stop__updates": 6000} | changes))


@pytest.mark.parametrize(
    ("changes", "steps"),
    [({}, 2000), ({"algorithm": {"name": "mapa", "batch_size": 12, "mode": "sync"}}, 6000)],
)
def test_noise_for_probes_is_set_aside(changes: dict[str, Any], steps: int) -> None:
    event = hello_of(build(mapa(**changes), "edge-0001", "b1")).event
    expected, _ = plan_probes(1.0, 12 / 479, steps, 24, 0.1)
    assert event.noise_multiplier == pytest.approx(expected)
    assert expected > 1.0


@pytest.mark.parametrize(
    "changes",
    [
        {"algorithm": {"name": "mapa", "batch_size": 12, "cloud": {"controller": "budgeted"}}},
        {"algorithm": {"name": "mapa", "batch_size": 12, "rigour": "paper"}},
        {"algorithm": {"name": "mapa", "batch_size": 12, "edge": {"probes": 0}}},
        {"algorithm": {"name": "audp", "batch_size": 12}},
    ],
)
def test_where_nothing_is_probed_the_noise_stays(changes: dict[str, Any]) -> None:
    assert hello_of(build(mapa(**changes), "edge-0001", "b1")).event.noise_multiplier == 1.0


def first_update(plan: Any, boot: str) -> np.ndarray[Any, Any]:
    edge = build(plan, "edge-0001", boot)
    tensors = Tensors(edge.layout, edge.layout.zeros())
    model = Model(ticket=1, version=1, directive=Directive(clip_norm=1.0), tensors=tensors)
    effects = edge.node.on_message(CLOUD, model, 0.0)
    (update,) = [effect.message for effect in effects if isinstance(effect, Send)]
    assert isinstance(update, Update)
    return update.tensors.flat


def test_no_process_repeats_the_noise_of_another() -> None:
    """Though no records tell of the other: the folder is wiped, or it is another run with the same seed."""
    first, again = first_update(experiment(), "b1"), first_update(experiment(), "b1")
    assert np.array_equal(first, again)  # the boot id is all that it takes to draw the same again
    second, third = (first_update(experiment(), boot) for boot in ("b2", "b3"))
    for one, other in ((first, second), (first, third), (second, third)):
        # independent noise: almost no coordinate agrees, and the difference has twice the noise's energy
        assert (one == other).mean() < 0.01
        assert np.linalg.norm(one - other) > np.linalg.norm(first) * 1.2


@pytest.mark.parametrize("mechanism", ["none", "gaussian"])
def test_no_process_repeats_the_batches_of_another(mechanism: str) -> None:
    plan = experiment(**(settings_for("asgd") if mechanism == "none" else {}))
    draws = [build(plan, "edge-0001", boot).node._learner._sampling.random(8) for boot in ("b1", "b1", "b2")]
    assert np.array_equal(draws[0], draws[1])
    assert not np.intersect1d(draws[0], draws[2]).size
