"""What an edge's program learns from the records of earlier processes."""

from __future__ import annotations

from pathlib import Path

from common.records import Recorder
from edge.algorithms.asynchronous import Past
from edge.program import _past


def test_earlier_processes_of_the_same_run_count_whatever_cloud_they_met(tmp_path: Path) -> None:
    records = tmp_path / "records.jsonl"
    assert _past(records, "run-1") == Past(0)
    for run, starts in (("run-0", 3), ("run-1", 2)):
        recorder = Recorder(records, run, "edge-0001")
        for number in range(starts):
            recorder.append("start", {"boot": f"b{number}"}, 0.0)
            recorder.append("met", {"cloud": f"c{number}"}, 0.0)
        recorder.close()
    assert [_past(records, run) for run in ("run-0", "run-1", "run-2")] == [Past(3), Past(2), Past(0)]
