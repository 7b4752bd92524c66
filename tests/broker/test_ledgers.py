"""The ledgers of real edges on a real broker: kills, a second run, budgets, refusals, a full disk."""

from __future__ import annotations

import random
import resource
import time
from pathlib import Path

import pytest
from programs import Programs, Start, plan_of

from common.address import Address
from edge.ledger_database import look
from lab.ledger import compare

pytestmark = pytest.mark.broker
EDGES = ("edge-0001", "edge-0002", "edge-0003")
SECURE = {"privacy__randomness": "secure"}


def begin(run: Programs, *edges: str) -> None:
    run.start("cloud")
    for edge in edges or EDGES:
        run.start(edge, "--ledger", str(ledgers(run)))


def ledgers(run: Programs) -> Path:
    return run.folder / "ledgers"


def said(run: Programs, edge: str) -> str:
    return (run.folder / f"{edge}.log").read_text()


def test_an_edge_that_is_killed_again_and_again_accounts_for_all(programs: Start, shared_broker: Address) -> None:
    run = programs(plan_of(3000, **SECURE), shared_broker)
    dice = random.Random(3)
    begin(run)
    for kill in range(1, 6):
        run.reach(200 * kill)
        time.sleep(dice.uniform(0.0, 0.3))
        for edge in dice.sample(EDGES, 2):
            run.processes[edge].kill()
            run.processes[edge].wait()
            run.start(edge, "--ledger", str(ledgers(run)))
    assert set(run.end().values()) == {0}
    run.check(3000)
    assert set(compare(ledgers(run), run.folder / "run").values()) == {""}
    for edge in run.summary()["edges"]:
        content = look(ledgers(run) / f"{edge['id']}.db")
        assert edge["releases"] == edge["ledger_releases"] == content.releases
        assert edge["releases"] >= edge["updates"] + edge["dropped"] + edge["answers"]
        assert edge["epsilon_total"] == edge["ledger_epsilon"] > 0
        assert len(content.lives) >= len(run.rows("start", edge["id"]))  # or killed before the first row of its own
    assert len(run.rows("joined")) > 5  # they were killed in the middle of it


def test_a_second_run_goes_on_with_the_count_and_other_records_do_not(programs: Start, shared_broker: Address) -> None:
    first = programs(plan_of(200, **SECURE), shared_broker)
    begin(first)
    assert set(first.end().values()) == {0}
    second = programs(plan_of(200, algorithm__cloud={"quorum": 2}, seed=3, **SECURE), shared_broker)
    second.start("cloud")
    for edge in EDGES[:2]:
        second.start(edge, "--ledger", str(ledgers(first)))
    stranger = second.start("edge-0003", "--ledger", str(ledgers(first)), "--set", "seed=4")  # deals other records
    assert stranger.wait(60.0) == 7
    assert "records with fingerprint" in said(second, "edge-0003")
    assert "mapa ledger new" in said(second, "edge-0003")
    assert not (second.folder / "run" / "edges" / "edge-0003" / "records.jsonl").exists()
    second.end()
    second.check(200)
    for before, after in zip(first.summary()["edges"], second.summary()["edges"], strict=False):
        assert after["ledger_releases"] == before["releases"] + after["releases"]
        assert after["ledger_epsilon"] > max(after["epsilon_total"], before["epsilon_total"])


def test_edges_leave_with_their_budgets_spent_and_the_run_goes_on(programs: Start, shared_broker: Address) -> None:
    own = {"edge-0001": {"max_releases": 40}, "edge-0002": {"max_epsilon": 0.9}}
    run = programs(plan_of(1200, privacy__per_edge=own, **SECURE), shared_broker)
    begin(run)
    assert set(run.end().values()) == {0}
    run.check(1200)
    first, second, third = run.summary()["edges"]
    assert first["left"].startswith("budget spent: releases: 41: expected at most 40")
    assert first["releases"] == 40
    assert second["left"].startswith("budget spent: epsilon: 0.9")
    assert 0.88 < second["epsilon_total"] <= 0.9
    assert third["left"] == "updates reached"
    assert third["epsilon_total"] > 0.9


def test_what_is_spent_stays_spent(programs: Start, shared_broker: Address) -> None:
    cloud = {"quorum": 1, "absence": 300.0, "grace": 300.0}
    plan = plan_of(40, data__edges=1, privacy__max_releases=30, algorithm__cloud=cloud, **SECURE)
    first, second = programs(plan, shared_broker), programs(plan, shared_broker)
    for run, code in ((first, 0), (second, 1)):
        run.start("cloud")
        run.start("edge-0001", "--ledger", str(ledgers(first)))
        assert run.end() == {"cloud": code, "edge-0001": 0}
    assert first.summary()["state"] == "budgets spent"
    assert second.rows("update") == []
    (edge,) = second.summary()["edges"]
    assert (edge["releases"], edge["ledger_releases"]) == (0, 30)
    assert edge["left"].startswith("budget spent: releases: 31: expected at most 30")


def test_a_clip_norm_above_the_edges_own_ceiling_is_refused_and_told(programs: Start, shared_broker: Address) -> None:
    run = programs(plan_of(600, **SECURE), shared_broker)
    begin(run, "edge-0001", "edge-0002")
    run.start("edge-0003", "--ledger", str(ledgers(run)), "--set", "privacy.clip_norm_ceiling=0.001")
    codes = run.end()
    assert codes == {"cloud": 0, "edge-0001": 0, "edge-0002": 0, "edge-0003": 1}
    run.check(600)
    (bye,) = [row for row in run.rows("bye") if row["edge"] == "edge-0003"]
    assert bye["failed"]
    assert "expected at most 0.001 (ceiling)" in bye["reason"]
    assert all(row["edge"] != "edge-0003" for row in run.rows("update"))
    assert {edge["id"]: edge["left"] for edge in run.summary()["edges"]}["edge-0003"] == bye["reason"]


def test_the_disk_of_an_edge_fills_up_and_the_run_goes_on(programs: Start, shared_broker: Address) -> None:
    run = programs(plan_of(1200, **SECURE), shared_broker)
    begin(run)
    run.reach(200)
    limit = 600_000  # bytes of a file: the log has begun already, and is the only one that gets as far
    resource.prlimit(run.processes["edge-0002"].pid, resource.RLIMIT_FSIZE, (limit, limit))
    codes = run.end()
    assert codes == {"cloud": 0, "edge-0001": 0, "edge-0002": 7, "edge-0003": 0}
    run.check(1200)
    (bye,) = [row for row in run.rows("bye") if row["edge"] == "edge-0002"]
    assert bye["failed"]
    assert "nothing was released" in bye["reason"]
    content = look(ledgers(run) / "edge-0002.db")
    assert content.releases == bye["releases"] == len(run.rows("release", "edge-0002"))


def test_a_ledger_that_is_gone_when_its_edge_comes_back(programs: Start, shared_broker: Address) -> None:
    run = programs(plan_of(1200, **SECURE), shared_broker)
    begin(run)
    run.reach(200)
    run.processes["edge-0001"].kill()
    run.processes["edge-0001"].wait()
    for part in ledgers(run).glob("edge-0001.*"):
        part.unlink()
    assert run.start("edge-0001", "--ledger", str(ledgers(run))).wait(60.0) == 7
    assert "missing: expected" in said(run, "edge-0001")
    assert not (ledgers(run) / "edge-0001.db").exists()
    assert {run.processes[name].wait(120.0) for name in ("cloud", "edge-0002", "edge-0003")} == {0}
    run.check(1200)
    first = run.summary()["edges"][0]
    assert (first["epsilon_total"], first["note"]) == (None, "no Bye: what this edge released is not known")


def test_a_secure_edge_that_is_not_told_where_ledgers_are_starts_nothing(
    programs: Start, shared_broker: Address
) -> None:
    run = programs(plan_of(100, **SECURE), shared_broker)
    assert run.start("edge-0001").wait(60.0) == 2
    assert "--ledger" in said(run, "edge-0001")
