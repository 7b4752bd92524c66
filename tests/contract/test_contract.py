"""What every algorithm in the tables has to keep, before its author writes a test."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness import Faults, Pump, check_invariants, experiment, federate, join, settings_for

from cloud.algorithms import ALGORITHMS
from cloud.build import build as build_cloud
from cloud.summary import summarise
from common.experiment import Experiment, edge_ids
from common.messages import Answer, Bye, Hello, Model, Probe, Stop, Update
from common.node import CLOUD, Halt
from common.wire import Envelope, Limits, decode, encode
from edge.build import build as build_edge

MODES = ("async", "sync")
CASES = [(name, mode) for name in sorted(ALGORITHMS) for mode in MODES]


def plan_of(name: str, mode: str = "async", **changes: Any) -> Experiment:
    settings = settings_for(name)
    edge = {"patience": 2.0, "report_every": 100.0}  # what is lost is said again soon, in virtual seconds
    settings["algorithm"] = settings["algorithm"] | {"mode": mode, "edge": edge}
    return experiment(**(settings | {"stop__updates": 120, "model__l2": 0.001} | changes))


def run_of(plan: Experiment, **options: Any) -> Pump:
    pump = Pump(**({"latency": (0.001, 0.02)} | options))
    pump.evaluate = federate(plan, pump).evaluate
    pump.run()
    return pump


@pytest.fixture(params=CASES, ids="-".join)
def plan(request: pytest.FixtureRequest) -> Experiment:
    return plan_of(*request.param)


def test_a_run_ends_everywhere_and_its_books_agree(plan: Experiment) -> None:
    pump = run_of(plan)
    nodes = (CLOUD, *edge_ids(plan.data.edges))
    assert {node: pump.halted(node) for node in nodes} == dict.fromkeys(nodes, Halt("updates reached", 0))
    check_invariants(pump)
    summary = summarise(plan, pump.stamped())
    assert (summary["state"], summary["updates"]) == ("complete", 120)
    assert summary["test_accuracy"] is not None
    for edge in summary["edges"]:
        assert edge["releases"] == sum(1 for _, who, kind, _ in pump.records if (who, kind) == (edge["id"], "release"))


def test_the_same_seed_gives_the_same_messages_and_rows(plan: Experiment) -> None:
    first, second = run_of(plan, seed=5), run_of(plan, seed=5)
    assert first.records == second.records
    assert [entry[:3] for entry in first.sent] == [entry[:3] for entry in second.sent]
    assert all(one[3] == other[3] for one, other in zip(first.sent, second.sent, strict=True) if is_small(one[3]))
    assert np.array_equal(first.measured[-1][1], second.measured[-1][1])


def is_small(message: object) -> bool:
    """Without tensors: a Model in the list of what was sent shows the live parameters, not those of its time."""
    return not isinstance(message, Model)


@pytest.mark.parametrize("seed", range(3))
def test_repeats_and_losses_change_no_count(plan: Experiment, seed: int) -> None:
    pump = run_of(plan, seed=seed, faults=Faults(loss=0.05, repeat=0.2), latency=(0.001, 0.2))
    check_invariants(pump)
    assert summarise(plan, pump.stamped())["updates"] == 120


def test_every_vector_that_leaves_has_an_event_and_is_booked(plan: Experiment) -> None:
    pump = run_of(plan)
    left = [message for _, _, _, message in pump.sent if isinstance(message, Update | Answer)]
    assert left
    booked = {
        (who, row["ticket"]): row["event"] for _, who, kind, row in pump.records if kind == "release" and who != CLOUD
    }
    for _, sender, _, message in pump.sent:
        if isinstance(message, Update | Answer):
            assert booked[sender, message.ticket] == message.event.model_dump(mode="json", exclude_none=True)
    claimed = {message.event.mechanism for message in left if isinstance(message, Update)}
    assert claimed == {plan.privacy.mechanism}


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_an_exhausted_budget_ends_in_a_bye_not_in_a_release(name: str) -> None:
    plan = plan_of(name, privacy__max_releases=7)
    pump = run_of(plan)
    for edge in edge_ids(plan.data.edges):
        assert len(pump.rows("release", edge)) == 7
        (bye,) = pump.rows("bye", edge)
        assert bye["reason"].startswith("budget spent")
        assert pump.halted(edge) is not None
        assert pump.halted(edge).exit_code == 0  # type: ignore[union-attr]
    halt = pump.halted(CLOUD)
    assert halt is not None
    assert (halt.reason.startswith("budgets spent after"), halt.exit_code) == (True, 0)
    check_invariants(pump)


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_an_edge_ignores_strangers_and_stops_when_told(name: str) -> None:
    plan = plan_of(name)
    edge = build_edge(plan, "edge-0001", "b1").node
    edge.start(0.0)
    model = first_model(plan)
    assert edge.on_message("edge-0002", model, 0.0) == ()
    assert edge.on_message(CLOUD, model, 0.0)
    assert edge.on_message(CLOUD, model, 0.0) == ()  # a copy
    effects = edge.on_message(CLOUD, Stop(reason="enough"), 0.0)
    assert isinstance(effects[-1], Halt)
    assert edge.on_message(CLOUD, model.model_copy(update={"ticket": 9}), 0.0) == ()


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_a_cloud_ignores_strangers(name: str) -> None:
    plan = plan_of(name)
    cloud = build_cloud(plan, "c1").node
    cloud.start(0.0)
    before = cloud.tensors.copy()
    edge = build_edge(plan, "edge-0001", "b1").node
    edge.start(0.0)
    effects = edge.on_message(CLOUD, first_model(plan), 0.0)
    update = next(effect.message for effect in effects if hasattr(effect, "message"))
    assert cloud.on_message("edge-0001", update, 0.0) == ()  # before its Hello
    assert cloud.on_message("edge-0001", Bye(reason="?", releases=0), 0.0) == ()
    assert cloud.tensors == before


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_inbound_arrays_are_not_written_to(name: str) -> None:
    """They are read-only views of the payload; a copy of the payload shows that nobody found a way around."""
    plan = plan_of(name)
    layout = build_cloud(plan, "c1").layout
    payload = bytearray(encode(Envelope("test", "boot", 1, 0.0, first_model(plan))))
    kept = bytes(payload)
    message = decode(payload, Limits.of(layout), layout).message
    assert isinstance(message, Model | Probe)
    edge = build_edge(plan, "edge-0001", "b1").node
    edge.start(0.0)
    assert edge.on_message(CLOUD, message, 0.0)
    assert bytes(payload) == kept


def first_model(plan: Experiment) -> Model | Probe:
    """The first piece of work that the cloud gives to an edge."""
    cloud = build_cloud(plan, "c1").node
    cloud.start(0.0)
    effects: Any = ()
    for edge in edge_ids(plan.data.edges):
        hello = next(e.message for e in build_edge(plan, edge, "b1").node.start(0.0) if hasattr(e, "message"))
        assert isinstance(hello, Hello)
        effects = cloud.on_message(edge, hello, 0.0)
    sent = [effect.message for effect in effects if hasattr(effect, "message")]
    return next(message for message in sent if isinstance(message, Model | Probe))


@pytest.mark.parametrize(("name", "mode"), CASES)
def test_edges_may_come_late_leave_and_come_back(name: str, mode: str) -> None:
    plan = plan_of(name, mode, algorithm__cloud={"quorum": 1, "patience": 1.0, "absence": 500.0})
    pump = Pump(latency=(0.001, 0.02))
    federate(plan, pump, edges=1)
    pump.run(until=0.3)
    for edge in edge_ids(plan.data.edges)[1:]:
        join(plan, pump, edge)
    pump.run(until=0.6)
    pump.kill("edge-0001")
    pump.run(until=1.0)
    join(plan, pump, "edge-0001")
    pump.run()
    check_invariants(pump)
    summary = summarise(plan, pump.stamped())
    assert (summary["state"], summary["updates"]) == ("complete", 120)
    if plan.privacy.mechanism != "none":  # the ledger of the edge that came back holds what both its processes released
        assert all(edge["epsilon_total"] is not None for edge in summary["edges"])
    assert all(edge["releases"] >= edge["updates"] + edge["dropped"] + edge["answers"] for edge in summary["edges"])
