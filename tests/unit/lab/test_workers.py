"""Those who work for a sweep: all tasks once, errors as they were, and nothing left when somebody dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from common.errors import ConfigError, DeployError, Fault
from lab.sweeping import workers_for
from lab.workers import Alone, Processes, Workers

SCRIPT = """\
from lab.workers import Processes
from test_workers import sleep_in

if __name__ == "__main__":
    list(Processes(2).work(sleep_in, [{folder!r}] * 2))
"""


def double(number: int) -> int:
    return 2 * number


def complain(number: int) -> int:
    raise ConfigError([Fault("a.b", number, "another"), Fault("a.c", None, "something")])


def die(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


def sleep_in(folder: str) -> None:
    Path(folder, f"{os.getpid()}.pid").touch()
    try:
        time.sleep(60)
    finally:
        Path(folder, f"{os.getpid()}.tidied").touch()


@pytest.mark.parametrize("workers", [Alone(), Processes(2)])
def test_every_task_is_done_once(workers: Workers) -> None:
    assert sorted(workers.work(double, range(5))) == [(number, 2 * number) for number in range(5)]


def test_an_error_keeps_its_faults_on_the_way_from_another_process() -> None:
    with pytest.raises(ConfigError) as caught:
        list(Processes(2).work(complain, [7]))
    assert caught.value.faults == (Fault("a.b", 7, "another"), Fault("a.c", None, "something"))


def test_a_process_that_is_killed_is_an_error_and_not_a_wait() -> None:
    with pytest.raises(DeployError, match="a process of 1 died"):
        list(Processes(1).work(die, [1, 2]))


def test_processes_end_and_tidy_up_when_the_one_they_work_for_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(folder=str(tmp_path)))
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    process = subprocess.Popen([sys.executable, str(script)], env=environment, stderr=subprocess.DEVNULL)
    try:
        _until(lambda: len(list(tmp_path.glob("*.pid"))) == 2, 30)
    finally:
        process.kill()
        process.wait()
    _until(lambda: len(list(tmp_path.glob("*.tidied"))) == 2, 10)
    pids = [int(path.stem) for path in tmp_path.glob("*.pid")]
    _until(lambda: not any(_runs(pid) for pid in pids), 10)


def _until(is_true: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_who_works_is_as_many_as_there_is_work_for() -> None:
    assert isinstance(workers_for(4, None, 1), Alone)
    assert isinstance(workers_for(1, None, 9), Alone)
    assert isinstance(workers_for(4, None, 2), Processes)
    assert isinstance(workers_for(None, "local", 0), Alone), "no cluster is started for nothing"
    with pytest.raises(ConfigError, match="--jobs: 0: expected at least 1"):
        workers_for(0, None, 2)
