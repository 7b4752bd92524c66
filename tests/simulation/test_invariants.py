"""What `lab.invariants` finds in the records of a run: nothing in a sound one, and each fault that is put in.

Controls that must fail: a cloud that writes down what it heard after it has reacted, and an edge that computes again.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from harness import Faults, Pump, experiment, federate, join, settings_for
from mortal import Deaths, Mortal

from common.experiment import edge_ids
from common.messages import Message, Model, Probe
from common.node import CLOUD, Effect, NodeId
from edge.algorithms.asynchronous import AsynchronousEdge
from lab.invariants import check

Rows = list[dict[str, Any]]


def plan_of(updates: int = 60) -> Any:
    settings = settings_for("audp")
    settings["algorithm"] = {**settings["algorithm"], "edge": {"patience": 2.0}}
    return experiment(**settings, stop={"updates": updates})


def rows_of(pump: Pump, node: NodeId) -> Rows:
    return [{"time": time, "kind": kind, **row} for time, who, kind, row in pump.records if who == node]


def all_of(pump: Pump) -> tuple[Rows, dict[NodeId, Rows]]:
    return rows_of(pump, CLOUD), {edge: rows_of(pump, edge) for edge in edge_ids(3)}


@pytest.fixture(scope="module")
def sound() -> tuple[Rows, dict[NodeId, Rows]]:
    pump = Pump(seed=3, faults=Faults(loss=0.1, repeat=0.1))
    federate(plan_of(), pump)
    pump.run(stop=lambda: len(pump.rows("update")) >= 30)
    pump.kill("edge-0002")
    join(plan_of(), pump, "edge-0002")
    pump.run()
    return all_of(pump)


def test_a_sound_run_has_no_fault(sound: tuple[Rows, dict[NodeId, Rows]]) -> None:
    found = check(*sound)
    assert found.faults == []
    assert found.updates == 60
    assert found.releases >= 60


def without(rows: Rows, kind: str, place: int) -> Rows:
    one = [row for row in rows if row["kind"] == kind][place]
    return [row for row in rows if row is not one]


def test_each_fault_is_found(sound: tuple[Rows, dict[NodeId, Rows]]) -> None:
    cloud, edges = sound
    update = next(row for row in cloud if row["kind"] == "update" and row["edge"] == "edge-0001")
    one = edges["edge-0001"]
    release = next(row for row in one if row["kind"] == "release")
    cases: list[tuple[str, Rows, Rows]] = [
        ("counted 2 times", [*cloud, update], one),
        ("lost: given ticket", [row for row in cloud if row is not update], one),
        ("update 3 after update 1", without(cloud, "update", 1), one),
        ("counted, but never released", cloud, [row for row in one if row is not release]),
        ("computed twice", cloud, [*one[:-1], release, one[-1]]),
        ("rows say that the run is over", without(cloud, "end", 0), one),
        ("its ledger holds 1 at bye", cloud, [{**row, "releases": 1} if row["kind"] == "bye" else row for row in one]),
        ("expected it never to go back", [{**row, "staleness": 0} if row is update else row for row in cloud], one),
    ]
    for text, rows, own in cases[:-1]:
        assert any(text in fault for fault in check(rows, {**edges, "edge-0001": own}).faults), text
    late = max((row for row in cloud if row["kind"] == "update"), key=lambda row: row["update"])
    back = [{**row, "version": 1, "staleness": 0} if row is late else row for row in cloud]
    assert any("never to go back" in fault for fault in check(back, edges).faults)


class Careless(Mortal):
    """Control: reacts, lets its effects go, and would write down what it heard after that; but dies before."""

    is_dying = False

    def on_message(self, sender: NodeId, message: Message, now: float) -> Sequence[Effect]:
        if self.is_dying:
            self.is_dying = False
            self.recorder.close()
            self.durable._transcript._file.close()
            self._live(self.recovered())
            return self.start(now)
        if self.deaths.draw() is not None:
            self.is_dying = True
            return self.node.on_message(sender, message, now)
        return self._performed(self.durable.on_message(sender, message, now), now)


def test_a_cloud_that_writes_after_it_has_reacted_is_caught(tmp_path: Path) -> None:
    plan, pump = plan_of(), Pump(seed=2)
    cloud = Careless(plan, tmp_path, Deaths(0.1, most=5))
    pump.layout = cloud.recovery.cloud.layout
    pump.add(CLOUD, cloud)
    for edge in edge_ids(3):
        join(plan, pump, edge)
    pump.run(until=30.0)
    cloud.close()
    _, edges = all_of(pump)
    kept = [row for kind in ("update", "answer", "end") for row in cloud.rows(kind)]
    faults = check(sorted(kept, key=lambda row: row["time"]), edges).faults
    assert any("lost" in fault for fault in faults)


def test_an_edge_that_computes_again_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def again(self: AsynchronousEdge, message: Model | Probe) -> Sequence[Effect]:
        return self._work(message)

    monkeypatch.setattr(AsynchronousEdge, "_repeat", again)
    pump = Pump(seed=3, faults=Faults(repeat=0.3))
    federate(plan_of(), pump)
    pump.run()
    assert any("computed twice" in fault for fault in check(*all_of(pump)).faults)
