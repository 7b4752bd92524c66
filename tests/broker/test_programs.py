"""The programs of cloud and edge on a real broker: whole runs through kills, pauses and signals; parity; exit codes."""

from __future__ import annotations

import json
import signal
import time

import numpy as np
import pytest
import yaml
from harness import Pump, experiment, federate
from programs import Start, plan_of
from safetensors.numpy import load_file
from toys import Mosquitto

from common.address import Address
from common.experiment import Experiment
from common.records import read
from common.tensors import Tensors

pytestmark = pytest.mark.broker


def test_a_run_leaves_everything_that_it_takes_to_make_it_again(programs: Start, shared_broker: Address) -> None:
    run = programs(plan_of(600), shared_broker)
    run.start_all()
    assert set(run.end().values()) == {0}
    run.check(600)
    out = run.folder / "run"
    model = Tensors.of(load_file(out / "cloud" / "model.safetensors"))
    assert model.layout.size == 650
    about = json.loads((out / "run.json").read_text())
    assert (about["run"], about["digest"], about["seed"]) == (run.run, run.plan.digest(), 3)
    assert about["versions"]["numpy"] == np.__version__
    resolved = Experiment.model_validate(yaml.safe_load((out / "experiment.yaml").read_text()))
    assert resolved.digest() == run.plan.digest()
    summary = run.summary()
    assert summary["test_accuracy"] > 0.5
    assert all(edge["epsilon_total"] > 0 for edge in summary["edges"])
    assert {row["version"] for row in run.rows("evaluation")} >= {1}


@pytest.mark.parametrize("name", ["audp", "mapa"])
def test_in_step_and_with_the_same_boot_ids_the_broker_gives_the_harness_result_bit_for_bit(
    programs: Start, shared_broker: Address, name: str
) -> None:
    plan = experiment(algorithm={"name": name, "batch_size": 12, "mode": "sync"}, stop__updates=60)
    run = programs(plan, shared_broker)
    run.start_all()
    assert set(run.end().values()) == {0}
    model = Tensors.of(load_file(run.folder / "run" / "cloud" / "model.safetensors"))
    boots = {row["edge"]: row["boot"] for row in run.rows("joined")}
    for names, is_same in ((boots, True), (None, False)):
        pump = Pump()
        federate(plan, pump, boots=names)
        pump.run()
        assert np.array_equal(model.flat, pump.measured[-1][1]) == is_same


def test_an_edge_is_killed_and_started_again(programs: Start, shared_broker: Address) -> None:
    run = programs(plan_of(4000), shared_broker)
    run.start_all()
    run.reach(300)
    run.processes["edge-0002"].kill()
    run.processes["edge-0002"].wait()
    run.start("edge-0002")
    assert set(run.end().values()) == {0}
    run.check(4000)
    for edge in run.summary()["edges"]:  # the ledger of the one that was killed goes on
        assert edge["epsilon_total"] > 0
        assert edge["releases"] >= edge["updates"] + edge["dropped"] + edge["answers"]
    first, second = run.rows("start", "edge-0002")
    assert first["releases"] == 0
    before = sum(row["time"] < second["time"] for row in run.rows("release", "edge-0002"))
    assert before <= second["releases"] <= before + 1
    assert before > 0


def test_the_broker_is_killed_and_started_again(programs: Start, own_broker: Mosquitto) -> None:
    run = programs(plan_of(2500), own_broker.address)
    run.start_all()
    run.reach(300)
    own_broker.kill()
    time.sleep(1.0)
    own_broker.start()
    assert set(run.end().values()) == {0}
    run.check(2500)
    assert all(edge["epsilon_total"] > 0 for edge in run.summary()["edges"])


@pytest.mark.parametrize("who", ["cloud", "edge-0001"])
def test_a_process_is_paused(programs: Start, shared_broker: Address, who: str) -> None:
    run = programs(plan_of(2500), shared_broker)
    run.start_all()
    run.reach(300)
    run.processes[who].send_signal(signal.SIGSTOP)
    time.sleep(20.0 if who == "cloud" else 5.0)
    run.processes[who].send_signal(signal.SIGCONT)
    assert set(run.end().values()) == {0}
    run.check(2500)


def test_a_terminated_cloud_ends_the_run_in_good_order(programs: Start, shared_broker: Address) -> None:
    run = programs(plan_of(100_000), shared_broker)
    run.start_all()
    run.reach(300)
    run.processes["cloud"].terminate()
    assert run.end() == {"cloud": 143, "edge-0001": 0, "edge-0002": 0, "edge-0003": 0}
    summary = run.summary()
    assert summary["state"] == "interrupted"
    assert summary["updates"] >= 300
    assert all(edge["epsilon_total"] > 0 for edge in summary["edges"])
    assert (run.folder / "run" / "cloud" / "model.safetensors").is_file()


def test_an_interrupted_edge_says_bye_and_the_run_goes_on(programs: Start, shared_broker: Address) -> None:
    run = programs(plan_of(2500), shared_broker)
    run.start_all()
    run.reach(300)
    run.processes["edge-0003"].send_signal(signal.SIGINT)
    assert run.processes["edge-0003"].wait(60.0) == 130
    codes = run.end()
    assert (codes["cloud"], codes["edge-0001"], codes["edge-0002"]) == (0, 0, 0)
    run.check(2500)
    left = {edge["id"]: edge for edge in run.summary()["edges"]}["edge-0003"]
    assert (left["left"], left["epsilon_total"] > 0) == ("interrupted", True)


def test_an_edge_of_another_experiment_is_told_and_leaves(programs: Start, shared_broker: Address) -> None:
    run = programs(plan_of(100_000, algorithm__cloud={"quorum": 2}), shared_broker)
    for name in ("cloud", "edge-0001", "edge-0002"):
        run.start(name)
    run.reach(50)
    assert run.start("edge-0003", "--set", "seed=99").wait(60.0) == 1
    assert "digest" in (run.folder / "edge-0003.log").read_text()
    assert run.rows("release", "edge-0003") == []
    run.processes["cloud"].terminate()
    run.end()


def test_an_edge_that_comes_after_the_end_leaves_cleanly(programs: Start, shared_broker: Address) -> None:
    run = programs(plan_of(100, algorithm__cloud={"quorum": 2}), shared_broker)
    for name in ("cloud", "edge-0001", "edge-0002"):
        run.start(name)
    assert set(run.end().values()) == {0}
    assert run.start("edge-0003").wait(60.0) == 0
    assert run.rows("release", "edge-0003") == []


def test_another_run_in_the_same_folder_keeps_the_first_ones_records(programs: Start, shared_broker: Address) -> None:
    run = programs(plan_of(100, data__edges=1), shared_broker)
    first = run.run
    for name in (first, f"{first}-again"):
        run.start("cloud", "--run", name)
        run.start("edge-0001", "--run", name)
        assert set(run.end().values()) == {0}
        run.check(100)
        # the second edge process is the first one of its run: its ledger is whole
        assert run.summary()["edges"][0]["epsilon_total"] > 0
    kept = run.folder / "run" / "cloud" / "records.1.jsonl"
    assert {row["run"] for row in read(kept)} == {first}


@pytest.mark.parametrize(
    ("call", "code", "text"),
    [
        (["cloud", "--set", "algorithm.name=sgd"], 2, "algorithm.name"),
        (["cloud", "--set", "data.edges=3", "--set", "algorithm.cloud.nonsense=1"], 2, "algorithm.cloud.nonsense"),
        (["cloud", "--set", "data.name=usps", "--set", "data.root=/nowhere"], 3, "/nowhere"),
        (["edge-0004"], 2, "edge-0001 to edge-0003"),
        (["edge-0001", "--set", "algorithm.batch_size=5000"], 2, "algorithm.batch_size"),
        (["edge-0001", "--broker", "127.0.0.1:port"], 2, "127.0.0.1:port"),
        (["cloud", "--run", "No Run"], 2, "--run"),
    ],
)
def test_what_cannot_run_says_why_and_starts_nothing(
    programs: Start, shared_broker: Address, call: list[str], code: int, text: str
) -> None:
    run = programs(plan_of(), shared_broker)
    assert run.start(*call).wait(60.0) == code
    log = (run.folder / f"{call[0]}.log").read_text()
    assert text in log
    assert "Traceback" not in log
    assert not list((run.folder / "run").rglob("*.jsonl"))
