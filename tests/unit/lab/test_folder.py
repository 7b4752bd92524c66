"""Reading a run folder that others still write to."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_up_run import write_run

from common.errors import ConfigError
from common.records import Recorder
from lab.folder import RunFolder, Tail, read_run


def test_a_tail_gives_each_row_once_and_waits_for_the_end_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "cloud" / "records.jsonl"
    tail = Tail(path)
    assert list(tail.rows()) == []
    recorder = Recorder(path, "run", "cloud")
    recorder.append("begin", {}, 1.0)
    recorder.append("end", {"reason": "done"}, 2.0)
    assert [row["kind"] for row in tail.rows()] == ["begin", "end"]
    assert list(tail.rows()) == []
    with path.open("a") as file:
        file.write('{"kind": "upd')
        file.flush()
        assert list(tail.rows()) == []
        file.write('ate", "time": 3.0}\n')
    assert [row["kind"] for row in tail.rows()] == ["update"]
    recorder.close()


def test_a_line_torn_by_a_crash_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text('{"kind": "begin", "time": 1.0}\n{"kind": "upda\n{"kind": "end", "time": 2.0}\n')
    assert [row["kind"] for row in Tail(path).rows()] == ["begin", "end"]


def test_a_new_folder_must_be_empty(tmp_path: Path) -> None:
    RunFolder(tmp_path / "new" / "run").create()
    assert (tmp_path / "new" / "run").is_dir()
    (tmp_path / "new" / "run" / "summary.json").write_text("{}")
    with pytest.raises(ConfigError, match="new or empty folder"):
        RunFolder(tmp_path / "new" / "run").create()


def test_numbers_of_a_summary_are_json_not_yaml(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    RunFolder(folder).summary.write_text('{"dp_delta": 1e-05}')
    assert read_run(folder).summary["dp_delta"] == 1e-5


def test_a_damaged_summary_is_an_error_that_names_it(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    RunFolder(folder).summary.write_text("{")
    with pytest.raises(ConfigError, match=r"summary\.json"):
        read_run(folder)
