"""A sweep on a Ray of two cores, started for it: the same results, errors as they were, and nothing left behind.

Ray is in a process of its own: it leaves sockets and threads to the end of the process that started it.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from harness import experiment

from lab.grid import read_grid
from lab.sweep import Sweep, run_tasks
from lab.workers import Alone

SCRIPT = """\
import json, sys, time
from pathlib import Path
from common.errors import ConfigError, Fault
from lab.grid import read_grid
from lab.sweep import Sweep, perform
from lab.sweeping import workers_for

marks = Path(sys.argv[3])

def do(task):
    if task is not None:
        content = perform(task)
        (marks / task.name).touch()
        return content
    while len(list(marks.iterdir())) < 2:  # an error breaks the others off
        time.sleep(0.05)
    raise ConfigError([Fault("a.b", 7, "another")])

tasks = Sweep(json.loads(sys.argv[1]), (), read_grid(json.loads(sys.argv[2])), marks).missing()
said = {}
try:
    for task, content in workers_for(2, "local", 3).work(do, [*tasks, None]):
        said[task.name] = content
except ConfigError as error:
    said["error"] = [type(error).__name__, str(error), len(error.faults)]
print(json.dumps(said))
"""


def test_two_cores_of_ray_find_what_one_process_finds(tmp_path: Path) -> None:
    content = experiment(stop={"updates": 60}, data={"name": "digits", "edges": 2}).model_dump(mode="json")
    grid = ["privacy.noise_multiplier=0.5,2"]
    (tmp_path / "marks").mkdir()
    with tempfile.TemporaryDirectory(dir="/tmp") as temporary:  # a short name: Ray's sockets lie there
        script = [sys.executable, "-c", SCRIPT, json.dumps(content), json.dumps(grid), str(tmp_path / "marks")]
        environment = {**os.environ, "TMPDIR": temporary, "RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1"}
        done = subprocess.run(script, check=False, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert os.listdir(temporary) == [], "a Ray of one's own is gone when the work is done"
    said = json.loads(done.stdout)  # and nothing else was said
    assert said.pop("error") == ["ConfigError", "a.b: 7: expected another", 1]

    alone = Sweep(content, (), read_grid(grid), tmp_path / "alone")
    alone.claim()
    for task in run_tasks(alone.missing(), Alone()):
        known = json.loads(task.path.read_text())
        if task.name in said:  # the error may have come before the other results
            assert said.pop(task.name) == {key: known[key] for key in ("summary", "curve")}
    assert said == {}


@pytest.mark.parametrize("scheme", ["", "ray://"])
@pytest.mark.parametrize("port", [None, 99999])
def test_a_cluster_that_is_not_there_is_told_at_once(tmp_path: Path, scheme: str, port: int | None) -> None:
    with socket.socket() as closed:  # bound, and nobody listens
        closed.bind(("127.0.0.1", 0))
        address = f"{scheme}127.0.0.1:{port or closed.getsockname()[1]}"
        words = ["sweep", "experiments/demo.yaml", "--grid", "seed=1,2", "--ray", address, "--out", str(tmp_path / "x")]
        done = subprocess.run(
            [sys.executable, "-m", "lab", *words],
            check=False, capture_output=True, text=True, timeout=60, cwd=Path(__file__).parents[3],
        )  # fmt: skip
    assert done.returncode == 5, done.stderr
    assert re.search(rf"Ray at {address}: .*: expected a cluster that answers$", done.stderr.strip())
