"""Where messages come in the same order, the simulator and a real broker give the same parameters, bit for bit.

In rounds (`mode: sync`) the order in which edges answer changes nothing, so any two runs in which the processes draw
the same noise must agree. That is what the boot ids name; `run_virtually` takes those of the real processes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from harness import experiment, settings_for
from programs import Programs, Start

from common.address import Address
from common.experiment import Experiment, edge_ids
from common.node import CLOUD
from lab.folder import RunFolder
from lab.replay import replay
from lab.virtual import run_virtually

pytestmark = pytest.mark.broker


def in_rounds(algorithm: str, **more: Any) -> Experiment:
    settings = settings_for(algorithm)
    settings["algorithm"] = {**settings["algorithm"], "mode": "sync"}
    return experiment(**settings, stop={"updates": 40}, evaluation__every=20, transcript=True, **more)


def on_a_broker(plan: Experiment, programs: Start, broker: Address) -> Programs:
    run = programs(plan, broker)
    for name in (CLOUD, *edge_ids(plan.data.edges)):
        run.start(name)
    for process in run.processes.values():
        assert process.wait(90.0) == 0
    return run


def boots_of(run: Programs) -> dict[str, str]:
    about = json.loads((run.folder / "run" / "run.json").read_text())
    names = edge_ids(run.plan.data.edges)
    return {CLOUD: about["boot"], **{name: run.rows("start", name)[0]["boot"] for name in names}}


def simulated(plan: Experiment, folder: Path, boots: Mapping[str, str]) -> RunFolder:
    run = RunFolder(folder)
    run.create()
    assert run_virtually(plan, run, "simulated", boots=boots).code == 0
    return run


def model_of(folder: Path) -> bytes:
    return (folder / "cloud" / "model.safetensors").read_bytes()


@pytest.mark.parametrize("algorithm", ["csgd", "asgd", "audp", "mapa"])
def test_in_rounds_the_simulator_and_the_broker_give_the_same_model(
    algorithm: str, programs: Start, shared_broker: Address, tmp_path: Path
) -> None:
    plan = in_rounds(algorithm)
    real = on_a_broker(plan, programs, shared_broker)
    boots = boots_of(real)
    twin = simulated(plan, tmp_path / "twin", boots)
    assert model_of(twin.path) == model_of(real.folder / "run")

    others = {name: boot if name == CLOUD else f"{boot}x" for name, boot in boots.items()}
    stranger = simulated(plan, tmp_path / "stranger", others)
    assert model_of(stranger.path) != model_of(twin.path), "the control: other processes draw other batches and noise"
    summary = json.loads((twin.path / "summary.json").read_text())
    truth = json.loads((real.folder / "run" / "summary.json").read_text())
    for key in ("updates", "test_accuracy", "test_loss", "dp", "privacy", "stages", "probes", "rollbacks"):
        assert summary[key] == truth[key], key
    assert [edge["epsilon_total"] for edge in summary["edges"]] == [edge["epsilon_total"] for edge in truth["edges"]]


def test_a_run_on_a_broker_replays_bit_for_bit(programs: Start, shared_broker: Address) -> None:
    settings = settings_for("mapa")
    plan = experiment(**settings, stop={"updates": 60}, transcript=True)
    run = on_a_broker(plan, programs, shared_broker)
    folder = RunFolder(run.folder / "run")
    done = replay(folder)
    assert done.fault == ""
    assert done.rows > 60
    lines = folder.records.read_bytes().splitlines(keepends=True)
    lines.remove(next(line for line in lines if json.loads(line)["kind"] == "update"))
    folder.records.write_bytes(b"".join(lines))
    assert "cloud/records.jsonl" in replay(folder).fault
