"""The ledger on disk: what comes back from it, and whose it is."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_up_ledgers import OWNER, PROBE, TRAINING, file_at, fill

from common.errors import LedgerError
from edge.ledger_database import look
from edge.ledger_mark import CLOSED, mark_of, read_mark
from edge.owner import Owner


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledgers" / "edge-0001.db"


def test_what_was_written_comes_back_by_run(path: Path) -> None:
    fill(path, 3, "run-1", "b1")
    fill(path, 2, "run-2", "b2")
    with file_at(path, "run-2", "b3") as ledger:
        own, whole = ledger.open(OWNER).booked()
        assert own == Counter({TRAINING: 1, PROBE: 1})
        assert whole == Counter({TRAINING: 3, PROBE: 2})
        assert not ledger.is_simulated
    content = look(path)
    assert (content.edge, content.owner, content.releases, content.carried) == ("edge-0001", OWNER, 5, 0)
    assert content.runs == ["run-1", "run-2"]
    assert [(life.run, life.boot) for life in content.lives] == [("run-1", "b1"), ("run-2", "b2"), ("run-2", "b3")]
    assert all(abs(life.time - time.time()) < 100 for life in content.lives)


def test_every_release_is_on_the_disk_when_write_returns(path: Path) -> None:
    """Seen from beside: with the connection still open, a copy of the files holds all."""
    with file_at(path) as ledger:
        ledger.open(OWNER)
        for ticket in range(1, 4):
            ledger.write(TRAINING, ticket)
            copy = path.parent / f"copy-{ticket}"
            copy.mkdir()
            for part in path.parent.glob("edge-0001.*"):
                (copy / part.name).write_bytes(part.read_bytes())
            assert look(copy / path.name).releases == ticket


@pytest.mark.parametrize(("uptime", "synchronous", "reserves"), [("", 2, 0), ("today", 1, 1 + 1 + 1 + 1)])
def test_a_commit_waits_for_the_disk_unless_it_was_set_aside(
    path: Path, uptime: str, synchronous: int, reserves: int
) -> None:
    """2: FULL, every commit does; 1: NORMAL, with 1, 1, 2 and 4 set aside by commits that do."""
    with file_at(path, uptime=uptime) as ledger:
        ledger.open(OWNER)
        for ticket in range(1, 6):
            ledger.write(TRAINING, ticket)
        connection = ledger._connection
        assert connection is not None
        assert connection.execute("PRAGMA synchronous").fetchone() == (synchronous,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("SELECT count(*) FROM reserves").fetchone() == (reserves,)
    assert look(path).left.total() <= 0  # what was not used was given back


def test_closed_in_good_order_it_is_one_plain_file(path: Path) -> None:
    fill(path, 3)
    assert sorted(part.name for part in path.parent.iterdir()) == ["edge-0001.begun", "edge-0001.db"]
    assert read_mark(path) == CLOSED


def test_one_process_at_a_time(path: Path) -> None:
    with file_at(path) as first:
        first.open(OWNER)
        with file_at(path, boot="b2") as second, pytest.raises(LedgerError, match="no other process"):
            second.open(OWNER)
        with pytest.raises(LedgerError, match="no other process"):
            look(path)
        first.write(TRAINING, 1)
    assert look(path).releases == 1


def test_nothing_is_written_without_a_ledger_that_is_open(path: Path) -> None:
    ledger = file_at(path)
    with pytest.raises(LedgerError, match="not open"):
        ledger.write(TRAINING, 1)
    with pytest.raises(LedgerError, match="not open"):
        ledger.booked()
    ledger.open(OWNER)
    ledger.close()
    ledger.close()
    with pytest.raises(LedgerError, match="not open"):
        ledger.write(TRAINING, 1)


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (replace(OWNER, edge="edge-0002"), "of edge-0001: expected that of edge-0002"),
        (replace(OWNER, data_set="mnist"), "of data set digits: expected mnist.*--ledger.*mapa ledger new"),
        (
            replace(OWNER, records=21, fingerprint="cd" * 32),
            "of 20 records with fingerprint abababababab: expected 21 records with fingerprint cdcdcdcdcdcd.*--carry",
        ),
    ],
)
def test_a_ledger_of_others_is_refused_and_stays_as_it_is(path: Path, other: Owner, text: str) -> None:
    fill(path, 3)
    before = look(path).head
    with file_at(path, boot="b2") as ledger, pytest.raises(LedgerError, match=text):
        ledger.open(other)
    assert look(path).head == before
    fill(path, 1, boot="b3")  # its owner is still welcome


def test_fewer_releases_than_the_records_show_are_refused(path: Path) -> None:
    """An older copy was put back, or this run was begun with another ledger."""
    fill(path, 3)
    with file_at(path, boot="b2", shown=4) as ledger, pytest.raises(LedgerError, match=r"3 releases.*expected the 4"):
        ledger.open(OWNER)
    with file_at(path, run="run-2", boot="b2", shown=1) as ledger, pytest.raises(LedgerError, match="0 releases"):
        ledger.open(OWNER)
    with file_at(path, boot="b2", shown=3) as ledger:
        ledger.open(OWNER)


def test_noise_from_a_seed_stays_known(path: Path) -> None:
    with file_at(path, randomness="reproducible") as ledger:
        assert ledger.open(OWNER).is_simulated
    with file_at(path, boot="b2") as ledger:
        assert ledger.open(OWNER).is_simulated


def test_rows_are_added_only(path: Path) -> None:
    fill(path, 2)
    connection = sqlite3.connect(path)
    for statement in (
        "DELETE FROM releases",
        "UPDATE lives SET run = 'x'",
        "DELETE FROM events",
        "UPDATE ledger SET edge = 'x'",
    ):
        with pytest.raises(sqlite3.IntegrityError, match="added to only"):
            connection.execute(statement)
    connection.close()


def test_the_fingerprint_is_of_the_records_in_any_order() -> None:
    rng = np.random.default_rng(1)
    inputs, labels = rng.integers(0, 256, (30, 2, 3)).astype(np.uint8), rng.integers(0, 5, 30)
    owner, order = Owner.of("e", "d", inputs, labels), rng.permutation(30)
    assert Owner.of("e", "d", inputs[order], labels[order]) == owner
    swapped, changed = labels.copy(), inputs.copy()
    swapped[0] += 1
    changed[7, 1, 2] ^= 1
    others = [
        (inputs, swapped),
        (changed, labels),
        (inputs[:-1], labels[:-1]),
        (np.concatenate([inputs, inputs[:1]]), np.append(labels, labels[0])),
        (inputs, labels[order]),
        (inputs.astype(np.float32), labels),
    ]
    marks = {Owner.of("e", "d", *other).fingerprint for other in others}
    assert len(marks | {owner.fingerprint}) == len(others) + 1


def test_the_mark_is_made_before_any_release(path: Path) -> None:
    with file_at(path) as ledger:
        ledger.open(OWNER)
        assert mark_of(path).exists()
        assert read_mark(path) == "b1"


def test_the_log_does_not_grow_with_the_releases(path: Path) -> None:
    """Which would cost a second write of the disk for each."""
    with file_at(path) as ledger:
        ledger.open(OWNER)
        log = path.with_name(f"{path.name}-wal")
        size = log.stat().st_size
        for ticket in range(600):
            ledger.write(TRAINING, ticket)
        assert log.stat().st_size == size < 2**21
    assert look(path).releases == 600
    assert path.stat().st_size < 2**17
