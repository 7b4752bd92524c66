"""Reading a run folder that others still write to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_up_run import write_run

from common.errors import ConfigError
from common.records import Recorder
from lab.folder import RunFolder, Tail, read_run
from lab.report import write_report


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
    RunFolder(folder).summary.write_text('{"dp_delta": 1e-05, "edges": [], "privacy": {}}')
    assert read_run(folder).summary["dp_delta"] == 1e-5


@pytest.mark.parametrize(
    "content", ["", "{", "{}", "[1]", "null", '{"edges": 3, "privacy": {}}', '{"edges": [{}], "privacy": {}}']
)
def test_a_damaged_summary_is_taken_for_missing_with_a_warning(tmp_path: Path, content: str) -> None:
    folder = write_run(tmp_path / "run")
    assert read_run(folder).warnings == ()
    RunFolder(folder).summary.write_text(content)
    run = read_run(folder)
    assert not run.is_summed_up
    assert run.summary["updates"] == 1000
    assert [warning.startswith(str(RunFolder(folder).summary)) for warning in run.warnings] == [True]


ODD_ROWS = (
    {"kind": "end", "reason": "no time"},
    {"kind": "update", "time": "yesterday", "edge": "edge-0001"},
    {"kind": "update", "time": 1.0, "edge": "edge-0001", "version": 1, "update": 2, "staleness": "late"},
    {"kind": "report", "time": 1.0, "edge": "edge-0001", "metrics": {"epsilon": "much"}},
    {"kind": "report", "time": 1.0, "edge": "edge-0001", "metrics": 7},
    {"kind": "evaluation", "time": None, "version": 1},
    {"time": 1.0},
)


@pytest.mark.parametrize("summary", [True, False])
def test_damaged_rows_are_passed_over_with_a_warning(tmp_path: Path, summary: bool) -> None:
    sound, damaged = write_run(tmp_path / "sound", summary=summary), write_run(tmp_path / "damaged", summary=summary)
    with RunFolder(damaged).records.open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in ODD_ROWS)
    run = read_run(damaged)
    assert (
        [warning for warning in run.warnings if f"{len(ODD_ROWS)} damaged rows" in warning] == list(run.warnings) != []
    )
    assert run.summary == read_run(sound).summary
    assert run.history.updates == 1000
    assert run.history.staleness.total() == 1000
    assert write_report([damaged], tmp_path / "report").warnings == run.warnings
