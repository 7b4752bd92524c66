"""Where an edge's program keeps its ledger, and what it reads from its own records."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import experiment

from common.address import Address
from common.errors import ConfigError
from common.identity import Identity
from common.program import Call
from common.records import Recorder
from edge.program import _ledger, _shown


def call_of(tmp_path: Path, randomness: str, ledger: str | None, given: bool = False) -> Call:
    plan = experiment(privacy__randomness=randomness)
    kept = None if ledger is None else tmp_path / ledger
    return Call(plan, "run-1", Address("localhost", 1), tmp_path, None, "edge-0002", kept, is_ledger_given=given)


@pytest.mark.parametrize(
    ("randomness", "ledger", "given", "path"),
    [
        ("secure", "kept", False, "kept/edge-0002.db"),
        ("secure", "kept", True, "kept/edge-0002.db"),
        ("reproducible", None, False, "own/ledger.db"),
        ("reproducible", "kept", False, "own/ledger.db"),  # as in a container, where LEDGER is always set
        ("reproducible", "kept", True, "kept/edge-0002.db"),
    ],
)
def test_where_the_ledger_is(tmp_path: Path, randomness: str, ledger: str | None, given: bool, path: str) -> None:
    call = call_of(tmp_path, randomness, ledger, given)
    ledger_file = _ledger(call, Identity("run-1", "edge-0002", "b1"), tmp_path / "own", 0)
    assert ledger_file.path == tmp_path / path


def test_a_secure_run_has_to_be_told_where_ledgers_are(tmp_path: Path) -> None:
    """A folder of the run would begin a new count with every run, and nobody would notice."""
    with pytest.raises(ConfigError, match="--ledger"):
        _ledger(call_of(tmp_path, "secure", None), Identity("run-1", "edge-0002", "b1"), tmp_path / "own", 0)


def test_the_releases_of_a_run_are_counted_in_the_records(tmp_path: Path) -> None:
    records = tmp_path / "records.jsonl"
    assert _shown(records, "run-1") == 0
    for run, releases in (("run-0", 3), ("run-1", 2)):
        recorder = Recorder(records, run, "edge-0001")
        for number in range(releases):
            recorder.append("release", {"ticket": number}, 0.0)
            recorder.append("local", {"releases": number}, 0.0)
        recorder.close()
    assert [_shown(records, run) for run in ("run-0", "run-1", "run-2")] == [3, 2, 0]
