"""Child processes: their output, their end, and that they never outlive their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from common.errors import DeployError
from lab.process import Child, start

WAITS = ("http.server", ["--bind", "127.0.0.1", "0"])
"""A module of the standard library that runs until it is told to end."""


def eventually(is_true: Callable[[], bool], seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if is_true():
            return True
        time.sleep(0.02)
    return False


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def ended(child: Child) -> None:
    child.process.wait(10)
    child.close()


def test_output_goes_to_the_log_and_the_exit_code_is_the_modules_own(tmp_path: Path) -> None:
    child = start("edge-0001", "json.tool", ["/nowhere.json"], tmp_path / "edges" / "edge-0001" / "output.log")
    ended(child)
    assert child.exit_code not in (None, 0)
    assert "/nowhere.json" in child.last_words()[-1]
    child.log.write_text("".join(f"2025 INFO line {n}\n" for n in range(50)) + "2025 ERROR disk full\n2025 INFO bye\n")
    assert child.last_words() == ["2025 ERROR disk full"]
    child.log.unlink()
    assert child.last_words() == []


def test_a_child_is_asked_to_end_and_reported_as_a_shell_would(tmp_path: Path) -> None:
    child = start("cloud", *WAITS, tmp_path / "log")
    assert eventually(lambda: bool(child.last_words()))
    assert child.exit_code is None
    child.terminate()
    ended(child)
    assert child.exit_code == 128 + signal.SIGTERM


def test_a_child_is_in_a_group_of_its_own(tmp_path: Path) -> None:
    child = start("cloud", *WAITS, tmp_path / "log")
    assert os.getpgid(child.process.pid) == child.process.pid != os.getpgid(0)
    child.kill()
    ended(child)
    assert child.exit_code == 128 + signal.SIGKILL


def test_a_log_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(DeployError, match="cloud"):
        start("cloud", *WAITS, tmp_path / "taken" / "output.log")


PARENT = """
import sys, time
from pathlib import Path
from lab.process import start
child = start("edge-0001", "http.server", ["--bind", "127.0.0.1", "0"], Path(sys.argv[1]))
print(child.process.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_child_ends_when_its_parent_dies_however_it_dies(tmp_path: Path, number: signal.Signals) -> None:
    log = tmp_path / "log"
    with subprocess.Popen([sys.executable, "-c", PARENT, str(log)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert eventually(lambda: log.exists() and log.stat().st_size > 0)
        assert is_alive(pid)
        parent.send_signal(number)
        parent.wait(10)
        assert eventually(lambda: not is_alive(pid))
