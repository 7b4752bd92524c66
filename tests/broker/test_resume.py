"""`mapa resume`: a launched run whose processes were all killed goes on; what cannot go on is told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from programs import plan_of
from toys import wait_for

from common.records import read
from lab.__main__ import main
from lab.folder import RunFolder
from lab.invariants import examine

pytestmark = pytest.mark.broker


def children_of(process: int) -> list[int]:
    """Those that run now, of this process and of its children."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == process:
                found += [int(path.name), *children_of(int(path.name))]
    return found


def updates_in(folder: RunFolder) -> int:
    return sum(row["kind"] == "update" for row in read(folder.records)) if folder.records.exists() else 0


@pytest.fixture
def killed(tmp_path: Path) -> RunFolder:
    """A run of `mapa launch` of which no process is left, as after a power failure."""
    plan, folder = tmp_path / "plan.yaml", RunFolder(tmp_path / "run")
    settings = plan_of(500).model_dump(mode="json")
    settings["privacy"]["randomness"] = "secure"
    plan.write_text(yaml.safe_dump(settings))
    command = [sys.executable, "-m", "lab", "launch", str(plan), "--out", str(folder.path), "--quiet"]
    command += ["--ledger", str(tmp_path / "ledgers")]
    with (tmp_path / "launch.log").open("wb") as log:
        launched = subprocess.Popen(command, stdout=log, stderr=log)
    wait_for(lambda: updates_in(folder) >= 50, 120.0)
    victims = [launched.pid, *children_of(launched.pid)]
    for victim in victims:  # nobody shall notice that the others die
        os.kill(victim, signal.SIGSTOP)
    for victim in victims:
        os.kill(victim, signal.SIGKILL)
    launched.wait()
    return folder


def test_it_goes_on_with_the_same_ledgers_and_loses_nothing(
    killed: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    before = updates_in(killed)
    assert main(["resume", str(killed.path), "--quiet"]) == 0
    text = capsys.readouterr().out
    assert f"going on with {killed.path}" in text
    found = examine(killed)
    assert found.faults == []
    assert (found.updates, found.restarts) == (500, 1)
    assert before < 500
    summary = json.loads(killed.summary.read_text())
    assert (summary["state"], summary["updates"]) == ("complete", 500)
    for edge in summary["edges"]:
        assert edge["releases"] >= edge["updates"] + edge["answers"]
        assert edge["ledger_releases"] == edge["releases"]
    assert main(["resume", str(killed.path), "--quiet"]) == 2
    assert "updates reached" in capsys.readouterr().err


@pytest.mark.parametrize(("content", "code"), [(None, 2), (b"[", 6), (b'{"id": 1}', 6)])
def test_a_folder_that_is_none_of_a_launched_run_is_told(
    content: bytes | None, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (tmp_path / "launch.json").write_bytes(content)
    assert main(["resume", str(tmp_path)]) == code
    assert "expected" in capsys.readouterr().err
