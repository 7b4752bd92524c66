"""How a launch ends: its exit code, and what the summary says of a run that was stopped or left alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_up_run import write_run, write_summary

from lab.folder import RunFolder
from lab.launch import complete
from lab.watch import EXIT_INTERRUPTED, Ending, ending_of

INTERRUPTED = Ending(EXIT_INTERRUPTED, is_interrupted=True)
DESERTED = Ending(137, fault="every edge ended")


def summary_of(folder: Path) -> dict[str, object]:
    content: dict[str, object] = json.loads((folder / "summary.json").read_text())
    return content


@pytest.mark.parametrize(
    ("cloud", "edges", "code", "clue"),
    [
        (0, {"edge-0001": 0, "edge-0002": 0}, 0, None),
        (0, {"edge-0001": 0, "edge-0002": 3}, 0, None),
        (0, {"edge-0001": 3, "edge-0002": 1}, 1, "edge-0001 (3), edge-0002 (1)"),
        (4, {"edge-0001": 3, "edge-0002": 1}, 4, None),
        (None, {"edge-0001": 137, "edge-0002": 1}, 137, "edge-0001 (137), edge-0002 (1)"),
    ],
)
def test_a_run_that_every_edge_left_with_an_error_has_failed(
    cloud: int | None, edges: dict[str, int], code: int, clue: str | None
) -> None:
    ending = ending_of(cloud, edges)
    assert (ending.code, ending.is_interrupted) == (code, False)
    assert ending.fault is None if clue is None else clue in str(ending.fault)


@pytest.mark.parametrize(
    ("before", "ending", "after"),
    [
        ("broken off", INTERRUPTED, "interrupted"),
        ("interrupted", INTERRUPTED, "interrupted"),
        ("complete", INTERRUPTED, "complete"),
        ("interrupted", DESERTED, "failed"),
        ("broken off", DESERTED, "failed"),
        ("broken off", Ending(137), "broken off"),
        ("complete", Ending(0), "complete"),
    ],
)
def test_a_summary_says_interrupted_if_somebody_did_and_only_then(
    tmp_path: Path, before: str, ending: Ending, after: str
) -> None:
    folder = write_run(tmp_path / "run")
    write_summary(folder, [4.78] * 3, state=before)
    complete(RunFolder(folder), ending)
    summary = summary_of(folder)
    assert summary["state"] == after
    assert summary["test_accuracy"] == 0.928
    assert sorted(path.name for path in folder.iterdir() if path.is_file()) == [
        "experiment.yaml",
        "run.json",
        "summary.json",
    ]


@pytest.mark.parametrize(("ending", "state"), [(INTERRUPTED, "interrupted"), (Ending(137), "broken off")])
def test_a_run_without_records_has_a_summary_too(tmp_path: Path, ending: Ending, state: str) -> None:
    folder = write_run(tmp_path / "run", summary=False)
    (folder / "cloud" / "records.jsonl").unlink()
    complete(RunFolder(folder), ending)
    summary = summary_of(folder)
    assert (summary["state"], summary["updates"], summary["edges"]) == (state, 0, [])


def test_a_summary_torn_by_a_crash_is_made_again_as_a_whole(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    (folder / "summary.json").write_text('{"state": "comp')
    before = (folder / "summary.json").stat().st_ino
    complete(RunFolder(folder), Ending(0))
    assert summary_of(folder)["updates"] == 1000
    assert (folder / "summary.json").stat().st_ino != before  # replaced, never half-written in place
