"""`mapa chaos` on containers: one trouble of each kind, and nothing lost, doubled, or left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from stack import ROOT, engine, rows

from lab.chaos.scenario import RULES
from lab.ledger import compare

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

RUN = "smoke-test"


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    folder = tmp_path_factory.mktemp("chaos") / "run"
    command = [sys.executable, "-m", "lab", "chaos", "experiments/chaos/smoke.yaml", "--out", str(folder), "--run", RUN]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False), folder


def test_everything_was_done_and_everything_held(done: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    process, folder = done
    assert process.returncode == 0, process.stdout[-6000:] + process.stderr[-2000:]
    story = json.loads((folder / "chaos.json").read_text())
    assert {step["do"] for step in story["steps"]} == set(RULES)
    assert all(step["done"] and step["ended"] is not None for step in story["steps"])
    assert story["faults"] == []
    assert story["findings"]["restarts"] == 1, "the cloud was killed once"
    assert "all hold" in process.stdout


def test_each_trouble_left_its_traces(done: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    """Else the steps did nothing, and the checks would have nothing to see."""
    _, folder = done
    cloud = rows(folder / "cloud" / "records.jsonl")
    assert sum(row["kind"] == "resumed" for row in cloud) == 1
    starts = {
        edge: [row for row in rows(folder / "edges" / edge / "records.jsonl") if row["kind"] == "start"]
        for edge in ("edge-0001", "edge-0002", "edge-0003")
    }
    assert len(starts["edge-0001"]) >= 3, "its clock was put back, and it was stopped"
    assert len(starts["edge-0002"]) >= 2, "it crashed"
    assert len(starts["edge-0003"]) >= 2, "it was killed"
    wrong = [row["time"] for row in starts["edge-0001"]]
    assert wrong[1] < wrong[0] - 3000, "its clock was an hour slow"
    by_step = {step["do"]: step for step in json.loads((folder / "chaos.json").read_text())["steps"]}
    assert by_step["fill"]["said"] == ["records: 0 blocks left; ledger: 0 blocks left"]
    assert by_step["crash"]["said"] == ["edge-0002: back by its restart policy"]
    assert compare(folder / "ledgers", folder) == dict.fromkeys(starts, "")


def test_nothing_is_left(done: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    label = {"label": f"com.docker.compose.project=chaos-{RUN}"}
    left = [*engine().containers.list(all=True, filters=label), *engine().volumes.list(filters=label)]
    assert [one.name for one in [*left, *engine().networks.list(filters=label)]] == []
