"""The cloud's container is killed in the middle of a run: it comes back and goes on, and nothing is lost or doubled."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from docker.models.containers import Container
from stack import Stack, rows

from lab.folder import RunFolder
from lab.invariants import examine

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

RUN = "cloud-killed"
UPDATES = 8000
PATIENCE = 60.0
"""Seconds after a kill within which updates have to be applied again, on a machine with other work."""


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    arguments = f"--set stop.updates={UPDATES} --set privacy.randomness=secure"
    found = Stack("mapa-test-killed", tmp_path / "results", {"MAPA_RUN": RUN, "EDGES": "3", "MAPA_ARGS": arguments})
    found.remove()
    yield found
    found.remove()


def count(stack: Stack, kind: str) -> int:
    """Rows of the cloud's records so far, read on the volume: the cloud's own container may be gone."""
    command = ["grep", "-c", f'"kind": *"{kind}"', f"/volumes/results/{RUN}/cloud/records.jsonl"]
    running = [one for one in stack.containers("results") if one.status == "running"]
    said = running[0].exec_run(command).output.decode().strip() if running else ""
    return int(said) if said.isdigit() else 0


def returns(folder: RunFolder) -> list[tuple[float, float]]:
    """For each time that the cloud came back: when it served, and when it had the first update."""
    found, back = [], None
    for row in rows(folder.records):
        if row["kind"] == "resumed":
            back = row["time"]
        elif row["kind"] == "update" and back is not None:
            found.append((back, row["time"]))
            back = None
    return found


def goes_on(stack: Stack) -> None:
    before = count(stack, "update")
    stack.until(lambda: count(stack, "update") >= before + 200, "200 updates more")


def as_the_kernel_does(cloud: Container) -> float:
    """Out of memory, say: nobody wished it, so the restart policy brings it back. The time of the kill."""
    cloud.reload()
    now = time.time()
    os.kill(cloud.attrs["State"]["Pid"], signal.SIGKILL)
    return now


def by_docker_kill(cloud: Container) -> float:
    """To the engine a person's wish, which its policy heeds: a person starts it again. The time of the start."""
    cloud.kill("SIGKILL")
    cloud.wait(timeout=30)
    time.sleep(3)
    cloud.reload()
    assert cloud.status == "exited"
    now = time.time()
    cloud.start()
    return now


def test_a_killed_cloud_comes_back_and_the_run_is_whole(stack: Stack, capsys: pytest.CaptureFixture[str]) -> None:
    program = stack.start("docker", "compose", "up", "--build")
    kills: list[Callable[[Container], float]] = [as_the_kernel_does, by_docker_kill]
    moments, restarts = [], []
    try:
        stack.until(lambda: len(stack.containers("cloud")) == 1 and count(stack, "update") >= 200, "updates", 300)
        [cloud] = stack.containers("cloud")
        for kill in kills:
            moments.append(kill(cloud))
            stack.until(
                lambda: count(stack, "resumed") == len(moments), f"the cloud, after it was killed {kill.__name__}"
            )
            cloud.reload()
            restarts.append(cloud.attrs["RestartCount"])
            goes_on(stack)
        assert restarts == [1, 0], "by its policy, and by hand"
        assert program.wait(timeout=400) == 0, stack.story()
    finally:
        program.terminate()
        program.wait(timeout=60)
    folder = RunFolder(stack.results / RUN)
    found = examine(folder)
    assert found.faults == []
    assert (found.updates, found.restarts) == (UPDATES, len(kills))
    summary = json.loads(folder.summary.read_text())
    assert (summary["state"], summary["updates"]) == ("complete", UPDATES)
    for edge in summary["edges"]:
        assert edge["ledger_releases"] == edge["releases"] >= edge["updates"]
    with capsys.disabled():
        for kill, moment, (back, served) in zip(kills, moments, returns(folder), strict=True):
            times = f"it served after {back - moment:.1f} s, had the first update after {served - moment:.1f} s"
            print(f"\ncloud killed {kill.__name__}: {times}")
            assert served - moment < PATIENCE
