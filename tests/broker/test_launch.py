"""`mapa launch` with everything real: broker, cloud and edges as processes, signals, sudden deaths, exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.report import write_report
from lab.watch import CLOUD_GRACE

pytestmark = pytest.mark.broker

EXPERIMENT: dict[str, Any] = {
    "name": "small",
    "data": {"name": "digits", "edges": 3},
    "model": {"name": "softmax"},
    "algorithm": {"name": "mapa", "batch_size": 12},
    "privacy": {"mechanism": "gaussian", "noise_multiplier": 0.5, "randomness": "reproducible"},
    "stop": {"updates": 600},
    "evaluation": {"every": 100},
}
ENDLESS = "--set=stop.updates=1000000"


def processes_of(folder: Path) -> dict[int, list[str]]:
    """Processes whose command line names the run folder: broker, cloud and edges, but not the launch itself."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if state != "Z" and any(str(folder) in word for word in words) and "launch" not in words:
                found[int(entry.name)] = words
    return found


def eventually(is_true: Callable[[], bool], seconds: float = 60.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if is_true():
            return True
        time.sleep(0.1)
    return False


class Launched:
    """One `mapa launch` in a child process of this test."""

    def __init__(self, tmp_path: Path, *arguments: str) -> None:
        file = tmp_path / "small.yaml"
        file.write_text(yaml.safe_dump(EXPERIMENT))
        self.folder = tmp_path / "run"
        self.output = tmp_path / "output.txt"
        command = [sys.executable, "-m", "lab", "launch", str(file), "--out", str(self.folder), *arguments]
        command += ["--ledger", str(tmp_path / "ledgers")]
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)

    @property
    def text(self) -> str:
        return self.output.read_text()

    def wait(self, seconds: float = 90.0) -> int:
        return self.process.wait(seconds)

    def updates(self) -> int:
        try:
            return (self.folder / "cloud" / "records.jsonl").read_text().count('"kind":"update"')
        except OSError:
            return 0

    def until_training(self, updates: int = 30) -> None:
        assert eventually(lambda: self.updates() >= updates or self.process.poll() is not None), self.text
        assert self.process.poll() is None, self.text

    def pid(self, *words: str) -> int:
        return next(pid for pid, line in processes_of(self.folder).items() if all(word in line for word in words))

    def summary(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.folder / "summary.json").read_text())
        return content


@pytest.fixture
def launched(tmp_path: Path) -> Iterator[Callable[..., Launched]]:
    started: list[Launched] = []

    def start(*arguments: str) -> Launched:
        started.append(Launched(tmp_path, *arguments))
        return started[-1]

    yield start
    for run in started:
        if run.process.poll() is None:
            run.process.kill()
            run.process.wait()
        for pid in processes_of(run.folder):
            os.kill(pid, signal.SIGKILL)


def test_a_run_from_start_to_end(launched: Callable[..., Launched], tmp_path: Path) -> None:
    run = launched("--edges", "2", "--run", "test-run")
    assert run.wait() == 0, run.text
    summary = run.summary()
    assert (summary["state"], summary["updates"], len(summary["edges"])) == ("complete", 600, 2)
    assert summary["test_accuracy"] > 0.6
    assert all(edge["epsilon_total"] > 0 for edge in summary["edges"])
    assert json.loads((run.folder / "run.json").read_text())["run"] == "test-run"
    assert yaml.safe_load((run.folder / "experiment.yaml").read_text())["data"]["edges"] == 2
    for name in ("cloud/model.safetensors", "cloud/records.jsonl", "edges/edge-0002/records.jsonl"):
        assert (run.folder / name).stat().st_size > 0
    for words in ("broker: ", "epsilon in total", "run folder: "):
        assert words in run.text
    assert processes_of(run.folder) == {}
    assert write_report([run.folder], tmp_path / "report").page.stat().st_size > 50_000


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_asked_to_stop_it_leaves_no_process_and_a_usable_folder(
    launched: Callable[..., Launched], tmp_path: Path, number: signal.Signals
) -> None:
    run = launched(ENDLESS)
    run.until_training()
    run.process.send_signal(number)
    assert run.wait() == 130, run.text
    assert processes_of(run.folder) == {}
    summary = run.summary()
    assert summary["state"] == "interrupted"
    assert summary["updates"] >= 30
    assert all(edge["epsilon_total"] > 0 for edge in summary["edges"])
    assert (run.folder / "cloud" / "model.safetensors").stat().st_size > 0
    assert write_report([run.folder], tmp_path / "report").page.is_file()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_asked_to_stop_while_nodes_still_start_it_ends_soon(
    launched: Callable[..., Launched], number: signal.Signals
) -> None:
    run = launched(ENDLESS)
    assert eventually(lambda: sum("lab.ward" in line for line in processes_of(run.folder).values()) == 4), run.text
    began = time.monotonic()
    run.process.send_signal(number)
    assert run.wait() == 130, run.text
    assert time.monotonic() - began < 0.3 * CLOUD_GRACE
    assert processes_of(run.folder) == {}
    assert run.summary()["state"] == "interrupted"
    assert run.updates() == 0
    assert "ended with exit code" not in run.text


def test_asked_twice_it_ends_at_once_even_if_the_cloud_hangs(launched: Callable[..., Launched]) -> None:
    run = launched(ENDLESS)
    run.until_training()
    os.kill(run.pid("cloud"), signal.SIGSTOP)
    run.process.send_signal(signal.SIGINT)
    assert eventually(lambda: "stopping" in run.text, 10)
    assert run.process.poll() is None
    began = time.monotonic()
    run.process.send_signal(signal.SIGINT)
    assert run.wait() == 130
    assert time.monotonic() - began < 0.5 * CLOUD_GRACE
    assert processes_of(run.folder) == {}
    assert run.summary()["state"] == "interrupted"


def test_killed_it_leaves_no_orphan(launched: Callable[..., Launched]) -> None:
    run = launched(ENDLESS)
    run.until_training()
    assert len(processes_of(run.folder)) >= 4
    run.process.kill()
    run.process.wait()
    assert eventually(lambda: not processes_of(run.folder), 20), processes_of(run.folder)


def test_an_edge_that_dies_is_reported_and_the_run_goes_on(launched: Callable[..., Launched]) -> None:
    run = launched("--set", "stop.updates=1500")
    run.until_training()
    os.kill(run.pid("edge", "edge-0002"), signal.SIGKILL)
    assert run.wait() == 0, run.text
    assert "edge-0002 ended with exit code 137" in run.text
    assert run.summary()["updates"] == 1500


def test_when_the_cloud_dies_everything_stops_with_its_exit_code(launched: Callable[..., Launched]) -> None:
    run = launched(ENDLESS)
    run.until_training()
    os.kill(run.pid("cloud"), signal.SIGKILL)
    assert run.wait() == 137
    assert "cloud ended with exit code 137" in run.text
    assert processes_of(run.folder) == {}
    assert run.summary()["state"] == "broken off"


def test_when_every_edge_dies_the_run_ends_with_an_error(launched: Callable[..., Launched]) -> None:
    run = launched(ENDLESS)
    run.until_training()
    for number in (1, 2, 3):
        os.kill(run.pid("edge", f"edge-000{number}"), signal.SIGKILL)
    assert run.wait() not in (0, 130), run.text
    assert processes_of(run.folder) == {}
    assert run.summary()["updates"] >= 30
    assert run.summary()["state"] == "failed"
    assert all(edge["epsilon_total"] is None for edge in run.summary()["edges"])


@pytest.mark.parametrize(
    ("arguments", "code", "clue"),
    [
        (("--set", "model.name=oracle"), 2, "model.name"),
        (("--edges", "none"), 2, "--edges"),
        (("--run", "Not A Run"), 2, "--run"),
        (("--broker", "127.0.0.1:port"), 2, "127.0.0.1:port"),
        (("--set", "data.name=mnist", "--set", "data.root=/nowhere"), 3, "/nowhere"),
        (("--broker", "127.0.0.1:1"), 4, "127.0.0.1:1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_what_cannot_run_starts_nothing_and_says_why(
    launched: Callable[..., Launched], arguments: tuple[str, ...], code: int, clue: str
) -> None:
    run = launched(*arguments)
    assert run.wait() == code, run.text
    assert clue in run.text
    assert "Traceback" not in run.text
    assert processes_of(run.folder) == {}


def test_a_folder_with_another_run_is_not_written_over(launched: Callable[..., Launched], tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "summary.json").write_text("{}")
    run = launched()
    assert run.wait() == 2
    assert "new or empty folder" in run.text
    assert (tmp_path / "run" / "summary.json").read_text() == "{}"
