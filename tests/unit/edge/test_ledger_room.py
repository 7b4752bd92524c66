"""A ledger that cannot be written: no rights, no room, from the start or in the middle of a run."""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from made_up_ledgers import OWNER, TRAINING, file_at, fill

from common.errors import LedgerError
from edge.ledger_database import look
from edge.ledger_file import LedgerFile
from edge.ledger_mark import CLOSED, read_mark

FORK = get_context("fork")
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def in_another_life(body: Callable[[], object], before: Callable[[], object] = lambda: None) -> Any:
    """What `body` gives, or the text of its error, in a process of its own, in which `before` was done first."""

    def live() -> None:
        before()
        try:
            queue.put(body())
        except LedgerError as error:
            queue.put(str(error))

    queue = FORK.SimpleQueue()
    process = FORK.Process(target=live)
    process.start()
    process.join()
    assert process.exitcode == 0
    return queue.get()


def drop_rights() -> None:
    """Root may write anywhere; nobody may not."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)


@pytest.fixture
def open_place() -> Iterator[Path]:
    """A folder that nobody has to be root to enter, unlike the usual one."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        yield Path(place)


@pytest.mark.parametrize("what", ["file", "folder", "new"])
def test_where_nothing_can_be_written(sound: Path, open_place: Path, what: str) -> None:
    folder = Path(shutil.copytree(sound, open_place / "ledgers"))
    path = folder / "edge-0001.db"
    folder.chmod(0o755)
    if what == "file":
        folder.chmod(0o777)
        path.chmod(0o444)
    elif what == "folder":
        path.chmod(0o666)
        folder.chmod(0o555)
    else:
        shutil.rmtree(folder)
        folder.parent.chmod(0o555)
    text = in_another_life(lambda: file_at(path, boot="b3").open(OWNER), drop_rights)
    folder.parent.chmod(0o755)
    assert text.startswith("ledger: ")
    assert ": expected " in text
    if what != "new":
        assert look(path).releases == 42


def test_the_disk_fills_up_in_the_middle(path: Path) -> None:
    """No file may be written beyond its first part: the release is refused, and those before it are there."""

    def release() -> tuple[int, str]:
        ledger = file_at(path, boot="b3").open(OWNER)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
        for made in range(1000):
            try:
                ledger.write(TRAINING, made)
            except LedgerError as error:
                return made, str(error)
        return 1000, ""

    made, text = in_another_life(release)
    assert 0 < made < 1000
    assert "nothing was released" in text
    assert look(path).releases == 42 + made
    fill(path, 1, boot="b4")


def test_on_a_full_disk_it_is_closed_in_good_order_all_the_same(path: Path) -> None:
    """What was set aside cannot be given back; all that was released is in the one file, without a log."""

    def release() -> int:
        with file_at(path, boot="b3") as ledger:
            ledger.open(OWNER)
            resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
            for made in range(1000):
                try:
                    ledger.write(TRAINING, made)
                except LedgerError:
                    return made
        return 1000

    made = in_another_life(release)
    assert 0 < made < 1000
    assert read_mark(path) == CLOSED
    assert look(path).releases == 42 + made


def test_the_disk_is_full_from_the_start(path: Path) -> None:
    def release() -> LedgerFile:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        return file_at(path, boot="b3").open(OWNER)

    assert "expected" in in_another_life(release)
    assert look(path).releases == 42


def test_a_full_database(path: Path) -> None:
    with file_at(path, boot="b3") as ledger:
        connection = ledger.open(OWNER)._connection
        assert connection is not None
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(LedgerError, match=r"full \(SQLITE_FULL\): expected room.*nothing was released"):
            deque((ledger.write(TRAINING, ticket) for ticket in range(1000)), maxlen=0)
    assert look(path).releases > 42
