"""Rows survive what they contain, how their writer dies, and say so when they do not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from common.errors import RecordError
from common.events import Event
from common.records import Recorder, read


def test_a_row_says_run_node_time_and_kind(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "cloud" / "records.jsonl", "run-1", "cloud")
    recorder.append("update", {"version": 3}, 12.5)
    recorder.append("end", {"reason": "done"}, 13.0)
    recorder.close()
    recorder.close()
    assert list(read(recorder.path)) == [
        {"run": "run-1", "node": "cloud", "time": 12.5, "kind": "update", "version": 3},
        {"run": "run-1", "node": "cloud", "time": 13.0, "kind": "end", "reason": "done"},
    ]


def test_numpy_events_and_odd_texts_are_written(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r.jsonl", "run", "cloud")
    row = {
        "loss": np.float32(0.5),
        "count": np.int64(3),
        "vector": np.arange(2),
        "yes": np.bool_(True),
        "event": Event(mechanism="none"),
        "text": "ü\n\ud800",
        "path": Path("a/b"),
    }
    recorder.append("x", row, 0.0)
    (found,) = read(recorder.path)
    assert found["loss"] == 0.5
    assert (found["count"], found["vector"], found["yes"]) == (3, [0, 1], True)
    assert found["event"]["mechanism"] == "none"
    assert (found["text"], found["path"]) == ("ü\n\ud800", "a/b")


def test_numbers_that_json_does_not_know_become_null(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r.jsonl", "run", "cloud")
    recorder.append("x", {"a": float("nan"), "b": [np.float32("inf"), 1], "c": {"d": np.float64("-inf")}}, 0.0)
    (line,) = recorder.path.read_text().splitlines()
    assert "NaN" not in line
    assert "Infinity" not in line
    assert json.loads(line)["b"] == [None, 1]
    assert json.loads(line)["c"] == {"d": None}


def test_a_row_that_cannot_be_written_as_json_is_a_bug(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="object: expected something that JSON can hold"):
        Recorder(tmp_path / "r.jsonl", "run", "cloud").append("x", {"a": object()}, 0.0)


def test_a_line_that_a_killed_process_left_open_is_no_row_and_spoils_none(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text('{"kind": "a"}\n{"kind": "b", "va')
    assert [row["kind"] for row in read(path)] == ["a"]
    Recorder(path, "run", "cloud").append("c", {}, 0.0)
    assert [row["kind"] for row in read(path)] == ["a", "c"]


def test_lines_that_are_no_objects_are_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(b'3\n\xff\n{"kind": "a"}\n\n')
    assert list(read(path)) == [{"kind": "a"}]


def test_a_full_disk_is_an_error_that_names_the_file() -> None:
    recorder = Recorder(Path("/dev/full"), "run", "cloud")
    with pytest.raises(RecordError, match=r"/dev/full: No space left on device"):
        recorder.append("x", {}, 0.0)


def test_a_disk_that_fills_up_in_the_middle_of_a_row_is_an_error(tmp_path: Path) -> None:
    """A file size limit stands in for the disk: the kernel writes what fits and says how much."""
    script = (
        "import resource, signal, sys; from pathlib import Path; from common.records import Recorder\n"
        "from common.errors import RecordError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "recorder = Recorder(Path(sys.argv[1]), 'run', 'cloud')\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "recorder.append('a', {}, 0.0)\n"
        "try: recorder.append('b', {}, 0.0)\n"
        "except RecordError as error: print(error)\n"
    )
    path = tmp_path / "r.jsonl"
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
    assert "bytes: expected room for a row" in done.stdout
    assert [row["kind"] for row in read(path)] == ["a"]


@pytest.mark.parametrize("name", ["missing/../../proc/none/r.jsonl", "."])
def test_a_place_that_cannot_be_written_is_an_error_that_names_it(tmp_path: Path, name: str) -> None:
    path = Path("/proc/none/r.jsonl") if "proc" in name else tmp_path
    with pytest.raises(RecordError, match=str(path)):
        Recorder(path, "run", "cloud")


def test_a_file_that_is_not_there_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"none.jsonl: No such file"):
        list(read(tmp_path / "none.jsonl"))


def test_a_process_killed_at_any_moment_leaves_whole_rows(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    script = (
        "import sys; from pathlib import Path; from common.records import Recorder\n"
        "recorder = Recorder(Path(sys.argv[1]), 'run', 'cloud')\n"
        "number = 0\n"
        "while True: recorder.append('row', {'number': number, 'text': 'x' * 2000}, 0.0); number += 1\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script, str(path)])
    while not path.exists() or path.stat().st_size < 500_000:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    rows = list(read(path))
    assert [row["number"] for row in rows] == list(range(len(rows)))
    assert len(rows) >= len(path.read_bytes().splitlines()) - 1
