"""A ledger that is missing, damaged, altered, or cannot be written: refused in words, never begun anew in silence."""

from __future__ import annotations

import os
import signal
import sqlite3
from multiprocessing import get_context
from pathlib import Path

import pytest
from made_up_ledgers import OWNER, TRAINING, file_at, fill

from common.errors import LedgerError
from edge.ledger_database import look
from edge.ledger_log import is_broken
from edge.ledger_mark import mark_of, write_mark

FORK = get_context("fork")
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def refused(path: Path, text: str, shown: int = 0) -> None:
    """It is refused, again and again, and nothing about it changes."""
    before = {part.name: part.read_bytes() for part in path.parent.iterdir()}
    for boot in ("b8", "b9"):
        with file_at(path, boot=boot, shown=shown) as ledger, pytest.raises(LedgerError, match=text):
            ledger.open(OWNER)
    after = {part.name: part.read_bytes() for part in path.parent.iterdir()}
    assert after.keys() <= before.keys() | {path.name, f"{path.name}-shm"}
    assert all(after[name] == before[name] for name in after if name in before and "-shm" not in name)


def test_missing_where_there_was_one(path: Path) -> None:
    path.unlink()
    refused(path, r"missing: expected one that was begun.*mapa ledger new .* --edge edge-0001")
    assert not path.exists()


def test_missing_where_the_records_of_the_run_show_releases(tmp_path: Path) -> None:
    """The folder is gone with all that was in it; the edge's own records are elsewhere."""
    path = tmp_path / "edge-0001.db"
    refused(path, "missing: expected 5 releases of run run-1; put it back", shown=5)
    assert not path.exists()
    fill(path, 1, run="run-2")  # another run may begin


@pytest.mark.parametrize("size", [0, 1, 50, 100, 1000, 4096, 5000, -1])
def test_truncated(path: Path, size: int) -> None:
    os.truncate(path, size % path.stat().st_size)
    refused(path, "bytes: expected one that was begun|not a database|malformed|damaged")


def test_something_else(path: Path) -> None:
    path.write_bytes(b"a letter to the editor " * 500)
    refused(path, "not a database")
    path.unlink()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE holidays(day)")
    connection.close()
    refused(path, "a database of something else: expected a privacy ledger")


def test_a_folder_in_its_place(path: Path) -> None:
    path.unlink()
    path.mkdir()
    with file_at(path) as ledger, pytest.raises(LedgerError):
        ledger.open(OWNER)


@pytest.mark.parametrize("is_replaced", [False, True])
def test_gone_while_it_is_in_use(path: Path, is_replaced: bool) -> None:
    """The process still has the old file, which nobody will find again."""
    old = path.read_bytes()
    with file_at(path, boot="b3") as ledger:
        ledger.open(OWNER).write(TRAINING, 1)
        path.unlink()
        if is_replaced:
            path.with_name("copy").write_bytes(old)
            path.with_name("copy").rename(path)
        with pytest.raises(LedgerError, match="removed or replaced while it was open"):
            ledger.write(TRAINING, 2)


def test_a_newer_version(path: Path) -> None:
    alter(path, "PRAGMA user_version = 3")
    refused(path, "version 3: expected 2; use the version of this software that wrote it")


def test_a_newer_version_that_was_killed_keeps_its_log(path: Path) -> None:
    """The software that wrote it will need it."""
    crash(path, 7, version=3)
    refused(path, "version 3: expected 2")
    assert path.with_name("edge-0001.db-wal").stat().st_size > 2**19


def alter(path: Path, *statements: str) -> None:
    """What somebody does who knows about the triggers."""
    connection = sqlite3.connect(path, isolation_level=None)
    triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    for statement in (*statements, *(text for _, text in triggers)):
        connection.execute(statement)
    connection.close()


def test_the_alteration_by_itself_is_none(path: Path) -> None:
    """The control: what `alter` does besides its statements leaves a sound ledger."""
    alter(path)
    assert look(path).releases == 42


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM releases WHERE number = 7",
        "DELETE FROM releases WHERE number > 35 AND number < 41",
        "UPDATE releases SET ticket = 1 WHERE number = 42",
        "UPDATE releases SET time = time - 1 WHERE number = 3",
        "UPDATE releases SET event = 2 WHERE number = 5",
        "UPDATE releases SET life = 2 WHERE number > 35",
        "UPDATE events SET content = replace(content, '2.0', '9.0')",
        "UPDATE lives SET run = 'another'",
        "UPDATE lives SET fingerprint = 'other', records = 21",
        "UPDATE lives SET time = 0 WHERE id = 1",
        "UPDATE ledger SET edge = 'edge-0002'",
        "INSERT INTO carried VALUES('r', '{}', 1, 'secure')",
        "INSERT INTO releases SELECT 0, life, ticket, event, time, chain FROM releases WHERE number = 1",
        "INSERT INTO releases SELECT 43, life, ticket, event, time, chain FROM releases WHERE number = 42",
        "DELETE FROM reserves WHERE number = 2",
        "UPDATE reserves SET count = 1 WHERE number = 3",
        "UPDATE reserves SET after = after + 1 WHERE number = 2",
        "UPDATE lives SET uptime = 'x' WHERE id = 2",
        "DELETE FROM ledger",
        "INSERT INTO ledger SELECT * FROM ledger",
        "DELETE FROM events",
        "DELETE FROM lives",
    ],
)
def test_altered_rows_show(path: Path, statement: str) -> None:
    alter(path, statement)
    with pytest.raises(LedgerError, match=r"altered|rows of its own|damaged"):
        look(path)


def crash(path: Path, releases: int, boot: str = "b3", pages: int = 1000, version: int = 2) -> None:
    """A process that is killed after so many releases; every `pages` the log goes into the database and begins anew."""

    def live() -> None:
        ledger = file_at(path, boot=boot).open(OWNER)
        assert ledger._connection is not None
        ledger._connection.execute(f"PRAGMA wal_autocheckpoint = {pages}")
        for ticket in range(releases):
            ledger.write(TRAINING, ticket)
        if version > 2:
            ledger._connection.execute(f"PRAGMA user_version = {version}")
        os.kill(os.getpid(), signal.SIGKILL)

    process = FORK.Process(target=live)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL


def test_after_a_crash_it_goes_on(path: Path) -> None:
    for boot, releases, pages in (("b3", 7, 1000), ("b4", 0, 1000), ("b5", 40, 4)):
        crash(path, releases, boot, pages)
    assert path.with_name("edge-0001.db-wal").exists()
    assert look(path).releases == 89
    fill(path, 1, boot="b6")
    assert look(path).releases == 90


@pytest.mark.parametrize(("releases", "pages"), [(0, 1000), (7, 1000), (40, 4)])
@pytest.mark.parametrize("size", [None, 0, 30])
def test_after_a_crash_without_its_log(path: Path, releases: int, pages: int, size: int | None) -> None:
    crash(path, releases, pages=pages)
    log = path.with_name("edge-0001.db-wal")
    if size is None:
        log.unlink()
    else:
        os.truncate(log, size)
    with pytest.raises(LedgerError, match="write-ahead log is missing"):
        look(path)
    refused(path, "write-ahead log is missing, and releases with it: expected the file edge-0001.db-wal")


@pytest.mark.parametrize("size", [56, 40_960, 200_000, -4120])
def test_after_a_crash_with_a_part_of_its_log(path: Path, size: int) -> None:
    """SQLite takes what is left for all there was, and would go on with fewer releases."""
    crash(path, 40)
    log = path.with_name("edge-0001.db-wal")
    os.truncate(log, size % log.stat().st_size)
    refused(path, "write-ahead log was longer, and releases are missing")


def test_after_a_crash_with_a_damaged_log(path: Path) -> None:
    crash(path, 40)
    log = path.with_name("edge-0001.db-wal")
    whole = log.read_bytes()
    for place in (20, 32 + 4120 * 3 + 500):  # in its header, and in the middle of 40 releases
        log.write_bytes(whole[:place] + bytes(255 - byte for byte in whole[place : place + 4]) + whole[place + 4 :])
        assert is_broken(log.read_bytes())
        with pytest.raises(LedgerError, match="write-ahead log is damaged, and releases are missing"):
            look(path)
    refused(path, "write-ahead log is damaged, and releases are missing")
    assert not is_broken(whole)


def test_the_last_commit_may_have_been_interrupted(path: Path) -> None:
    """By a power failure, before the release that it is for: nothing was sent."""
    crash(path, 7)
    log = path.with_name("edge-0001.db-wal")
    content = bytearray(log.read_bytes())
    ends = [start for start in range(32, len(content), 4120) if any(content[start + 4 : start + 8])]
    content[ends[-1] + 100] ^= 255
    log.write_bytes(content)
    assert look(path).releases == 42 + 6
    fill(path, 1, boot="b4")


def test_a_copy_of_the_database_alone_after_a_crash(path: Path, tmp_path: Path) -> None:
    """Without log and mark it looks like the ledger of a process that never released anything."""
    crash(path, 7)
    copy = tmp_path / "elsewhere" / path.name
    copy.parent.mkdir()
    copy.write_bytes(path.read_bytes())
    refused(copy, "write-ahead log is missing")


def test_killed_before_there_was_a_log(path: Path) -> None:
    """The mark still names the process before: nothing was lost, for nothing was released yet."""
    crash(path, 0)
    path.with_name("edge-0001.db-wal").unlink()
    write_mark(path, "b2")
    fill(path, 1, boot="b4")


def test_killed_in_the_middle_of_a_transaction(path: Path) -> None:
    def live() -> None:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA cache_size = 1")  # so that much of it is in the file already
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT INTO events(content) VALUES(?)", [(f"half done {n}",) for n in range(2000)])
        os.kill(os.getpid(), signal.SIGKILL)

    process = FORK.Process(target=live)
    process.start()
    process.join()
    assert path.with_name("edge-0001.db-journal").stat().st_size > 4096
    assert look(path).releases == 42
    fill(path, 1, boot="b3")


def test_killed_before_there_was_a_table(tmp_path: Path) -> None:
    path = tmp_path / "edge-0001.db"
    path.touch()
    fill(path, 1)
    assert look(path).releases == 1


def test_without_its_mark_it_is_still_read(path: Path) -> None:
    """As a copy may be, that somebody put back."""
    mark_of(path).unlink()
    fill(path, 1, boot="b3")
    assert mark_of(path).exists()
