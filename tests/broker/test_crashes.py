"""Runs of real processes that are killed at random, fill the disk, or find what is not theirs: all go on, or say why.

`bench/crashes.py` is the same with hundreds of kills.
"""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from killing import judged, recoveries, torment
from programs import Programs, Start, plan_of
from toys import Mosquitto, wait_for

from common.address import Address

pytestmark = [pytest.mark.broker, pytest.mark.timeout(600)]
SLOW = {
    "devices": {"slow": {"speed": 400}},
    "links": {"near": {"latency": 0.001}},
    "edges": [{"device": "slow", "link": "near"}],
}
"""A run of some seconds on any machine."""


def test_killed_again_and_again_it_loses_nothing_and_counts_nothing_twice(
    programs: Start, own_broker: Mosquitto
) -> None:
    run = programs(plan_of(1000, evaluation__every=100, fleet=SLOW), own_broker.address)
    done = torment(run, own_broker, np.random.default_rng(7), kills=12, pause=1.5)
    assert sum(done.kills.values()) >= 6
    assert set(done.codes.values()) == {0}
    found = judged(run)
    assert found.faults == []
    assert found.updates == 1000
    run.check(1000)
    assert found.restarts == len(recoveries(run, done))
    versions = {row["version"] for row in run.rows("evaluation")} | {row["version"] for row in run.rows("skipped")}
    assert len(versions) >= 10, "what was to be evaluated is, or it is said why not"


def test_in_rounds_a_run_whose_cloud_is_killed_counts_each_step_once(programs: Start, own_broker: Mosquitto) -> None:
    algorithm = {"name": "mapa", "batch_size": 12, "mode": "sync", "edge": {"patience": 2.0}}
    run = programs(plan_of(120, algorithm=algorithm), own_broker.address)
    run.start_all()
    for updates in (30, 120, 240):
        run.reach(updates)
        run.processes["cloud"].kill()
        run.processes["cloud"].wait()
        run.start("cloud")
    assert set(run.end().values()) == {0}
    found = judged(run)
    assert found.faults == []
    assert found.restarts == 3
    assert run.summary()["updates"] == 120
    assert run.summary()["staleness"]["max"] == 0


def test_a_killed_edge_gives_the_answer_that_it_had_paid_for(programs: Start, own_broker: Mosquitto) -> None:
    algorithm = {"name": "audp", "batch_size": 12, "edge": {"patience": 2.0}}  # no probes, at which all may be heard
    run = programs(plan_of(400, algorithm=algorithm, fleet=SLOW), own_broker.address)
    run.start_all()
    run.reach(100)
    run.processes["cloud"].kill()
    run.processes["cloud"].wait()
    time.sleep(1.0)  # now every edge has an answer that nobody heard, but for the one that the cloud heard last
    newest = {edge: run.rows("release", edge)[-1]["ticket"] for edge in run.processes if edge != "cloud"}
    edge = next(edge for edge, ticket in newest.items() if ticket not in heard_of(run, edge))
    run.processes[edge].kill()
    run.processes[edge].wait()
    run.start(edge)
    wait_for(lambda: len(run.rows("start", edge)) == 2, 90.0)  # else the others may be done before it is there
    run.start("cloud")
    assert set(run.end().values()) == {0}
    found = judged(run)
    assert found.faults == []
    (held,) = run.rows("held", edge)
    assert held["ticket"] in heard_of(run, edge)
    released = [row["ticket"] for row in run.rows("release", edge)]
    assert released.count(held["ticket"]) <= 1


def heard_of(run: Programs, edge: str) -> list[int]:
    """The tickets of this edge whose answers the cloud has."""
    return [row["ticket"] for kind in ("update", "answer") for row in run.rows(kind) if row["edge"] == edge]


def test_without_its_state_a_cloud_begins_anew_with_the_edges_that_are_there(
    programs: Start, own_broker: Mosquitto
) -> None:
    run = programs(plan_of(400), own_broker.address)
    run.start_all()
    run.reach(100)
    run.processes["cloud"].kill()
    run.processes["cloud"].wait()
    for path in (run.folder / "run" / "cloud" / "checkpoint").iterdir():
        path.unlink()
    run.start("cloud")
    assert set(run.end().values()) == {0}
    run.check(400)
    assert judged(run).faults == []
    assert (run.folder / "run" / "cloud" / "records.1.jsonl").exists()


def limited(size: int) -> None:
    """Files cannot grow beyond so many bytes: what a full disk does to a process, by the real system."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def test_a_disk_that_fills_up_ends_the_cloud_with_one_clear_error_and_it_goes_on_when_there_is_room(
    programs: Start, own_broker: Mosquitto
) -> None:
    run = programs(plan_of(600), own_broker.address)
    for name in ("edge-0001", "edge-0002", "edge-0003"):
        run.start(name)
    out = run.folder / "run"
    command = [sys.executable, "-m", "cloud", "--experiment", str(run.file), "--broker", str(run.broker)]
    command += ["--run", run.run, "--out", str(out)]
    full = partial(limited, 400_000)
    done = subprocess.run(command, preexec_fn=full, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 6
    assert "expected room for" in done.stderr
    assert "Traceback" not in done.stderr
    counted = len(run.rows("update"))
    assert counted > 20
    for process in run.processes.values():  # they were told that the run has failed
        process.wait(60.0)
    run.start_all()
    assert set(run.end().values()) == {0}
    run.check(600)
    assert judged(run).faults == []
    assert run.rows("resumed")[0]["events"] > counted


def content_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("call", "code", "text"),
    [
        (["--set", "seed=99"], 2, "expected that of run"),
        (["--set", "stop.updates=700"], 2, "expected that of run"),
        (["--run", "another"], 2, "to go on with the run that has not ended"),
    ],
)
def test_the_checkpoint_of_something_else_is_refused_and_nothing_is_changed(
    call: list[str], code: int, text: str, programs: Start, shared_broker: Address
) -> None:
    run = killed(programs, shared_broker)
    before = content_of(run.folder / "run")
    assert run.start("cloud", *call).wait(60.0) == code
    log = (run.folder / "cloud.log").read_text()
    assert text in log
    assert "Traceback" not in log
    assert content_of(run.folder / "run") == before


def test_a_damaged_checkpoint_is_an_error_that_says_what_to_do(programs: Start, shared_broker: Address) -> None:
    run = killed(programs, shared_broker)
    events = run.folder / "run" / "cloud" / "checkpoint" / "000000.events"
    content = bytearray(events.read_bytes())
    content[len(content) // 2] ^= 1
    events.write_bytes(content)
    assert run.start("cloud").wait(60.0) == 6
    assert "begin another run" in (run.folder / "cloud.log").read_text()


def killed(programs: Start, broker: Address) -> Programs:
    """A run that was killed as a whole."""
    run = programs(plan_of(600), broker)
    run.start_all()
    run.reach(50)
    for process in run.processes.values():
        process.kill()
        process.wait()
    return run


def test_two_clouds_do_not_share_a_folder(programs: Start, shared_broker: Address) -> None:
    run = programs(plan_of(100_000), shared_broker)
    first = run.start("cloud")
    wait_for((run.folder / "run" / "cloud" / "records.jsonl").exists, 60.0)
    assert run.start("cloud").wait(60.0) == 6
    assert "another process runs here" in (run.folder / "cloud.log").read_text()
    assert first.poll() is None
    first.kill()
    first.wait()


def test_a_run_that_failed_is_not_begun_again_by_a_restart(programs: Start, shared_broker: Address) -> None:
    plan = plan_of(algorithm__cloud={"quorum_patience": 0.5, "absence": 0.2})
    run = programs(plan, shared_broker)
    assert run.start("cloud").wait(60.0) == 1
    before = content_of(run.folder / "run" / "cloud")
    assert run.start("cloud").wait(60.0) == 1
    assert "ended with 'no edge is left'" in (run.folder / "cloud.log").read_text()
    assert content_of(run.folder / "run" / "cloud") == before
    assert json.loads((run.folder / "run" / "summary.json").read_text())["state"] == "failed"
