"""Runs through broken links, dead and hung edges: they complete, and nothing counts twice."""

from __future__ import annotations

from typing import Any

import pytest
from harness import Faults, Pump, check_invariants, experiment, federate, join

from cloud.summary import summarise
from common.experiment import Experiment, edge_ids
from common.node import CLOUD, Halt

QUICK = {"patience": 2.0, "report_every": 100.0}


def plan_of(name: str = "mapa", **changes: Any) -> Experiment:
    algorithm = {"name": name, "batch_size": 12, "edge": QUICK, "cloud": {"patience": 5.0}}
    return experiment(**({"algorithm": algorithm, "stop__updates": 200} | changes))


def ready(plan: Experiment, **options: Any) -> Pump:
    pump = Pump(**({"latency": (0.001, 0.05)} | options))
    federate(plan, pump)
    return pump


def finish(plan: Experiment, pump: Pump, updates: int = 200) -> dict[str, Any]:
    pump.run()
    check_invariants(pump)
    assert pump.halted(CLOUD) == Halt("updates reached", 0)
    summary = summarise(plan, pump.stamped())
    assert summary["updates"] == updates
    return summary


@pytest.mark.parametrize("seed", range(3))
def test_everything_at_once(seed: int) -> None:
    plan = plan_of()
    pump = ready(plan, seed=seed, faults=Faults(loss=0.1, repeat=0.3), latency=(0.001, 0.4))
    pump.run(until=3.0)
    pump.kill("edge-0002")
    pump.run(until=6.0)
    join(plan, pump, "edge-0002")
    finish(plan, pump)


def test_the_clouds_link_is_broken_for_twenty_seconds() -> None:
    plan = plan_of()
    pump = ready(plan)
    pump.run(until=1.0)
    before = len(pump.rows("update"))
    pump.cut(CLOUD)
    pump.run(until=21.0)
    # only what was on its way arrived; every edge has one update in hand
    assert len(pump.rows("update")) <= before + 3
    pump.mend(CLOUD)
    finish(plan, pump)
    assert {pump.halted(edge) for edge in edge_ids(3)} == {Halt("updates reached", 0)}


def test_an_edges_link_is_broken_and_the_will_comes_late() -> None:
    plan = plan_of("audp")
    pump = ready(plan)
    pump.run(until=0.5)
    pump.cut("edge-0001")
    pump.run(until=1.0)
    pump.mend("edge-0001")
    assert finish(plan, pump)["edges"][0]["epsilon_total"] is not None  # one process, one ledger


def test_an_edge_hangs_while_it_is_probed() -> None:
    plan = plan_of()
    pump = ready(plan)
    pump.run(stop=lambda: len(pump.rows("probe")) >= 2)
    pump.cut("edge-0003")
    pump.run(stop=lambda: len(pump.rows("probe")) >= 4)
    assert pump.rows("probe")[-1]["answers"] == 2
    pump.mend("edge-0003")
    finish(plan, pump)
    assert any(row["edge"] == "edge-0003" for row in pump.rows("update")[-20:])


def test_the_last_edge_comes_after_the_end() -> None:
    plan = plan_of("audp", algorithm__cloud={"quorum": 2})
    pump = Pump(latency=(0.001, 0.05))
    federate(plan, pump, edges=2)
    pump.run(stop=lambda: bool(pump.rows("end")))
    join(plan, pump, "edge-0003")
    pump.run()
    assert pump.halted("edge-0003") == Halt("updates reached", 0)
    assert pump.rows("release", "edge-0003") == []


def test_an_edge_of_another_experiment_is_turned_away() -> None:
    plan = plan_of("audp", algorithm__cloud={"quorum": 2})
    pump = Pump(latency=(0.001, 0.05))
    federate(plan, pump, edges=2)
    join(plan.model_copy(update={"seed": 99}), pump, "edge-0003")
    finish(plan, pump)
    halt = pump.halted("edge-0003")
    assert halt is not None
    assert halt.exit_code == 1
    assert "digest" in halt.reason
    assert pump.rows("release", "edge-0003") == []
    assert [row["edge"] for row in pump.rows("refused")] == ["edge-0003"]


def test_the_cloud_is_gone_for_good() -> None:
    plan = plan_of("audp")
    pump = ready(plan)
    pump.run(until=1.0)
    pump.cut(CLOUD)
    pump.run(until=2000.0)
    for edge in edge_ids(3):
        halt = pump.halted(edge)
        assert halt is not None
        assert halt.exit_code == 4
        assert "no word from the cloud" in halt.reason
