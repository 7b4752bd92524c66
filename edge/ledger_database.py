"""How a ledger's file is opened as a database: held by one process to write, or looked at; errors become ours."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from common.errors import LedgerError
from edge.ledger_content import CURE, Content, Release, read
from edge.ledger_log import check_log, fault_of
from edge.ledger_mark import CLOSED, mark_of, write_mark
from edge.uptime import current

_ROOM = 2**20  # bytes, for some hundred commits
_SPARE = 10  # pages that one commit may need

_EXPECTED = {
    "SQLITE_BUSY": "no other process to hold it: one edge, one process",
    "SQLITE_LOCKED": "no other process to hold it: one edge, one process",
    "SQLITE_FULL": "room for it; nothing was released, free some space",
    "SQLITE_IOERR": "a disk with room that can be written; nothing was released",
    "SQLITE_READONLY": "a file and a folder that can be written; nothing was released",
    "SQLITE_CANTOPEN": "a folder in which files can be made and written; nothing was released",
    "SQLITE_NOTADB": f"a ledger; {CURE}",
    "SQLITE_CORRUPT": f"a whole ledger; {CURE}",
}


def hold(path: Path, patience: float) -> sqlite3.Connection:
    """A connection that has the database for itself; at first, every commit is on the disk when it returns.

    Args:
        path: the file, which is made if need be.
        patience: seconds to wait for a process that has it.

    Raises:
        sqlite3.Error: it cannot be had.
    """
    connection = sqlite3.connect(path, timeout=patience, isolation_level=None)
    try:
        for setting in ("locking_mode=EXCLUSIVE", "synchronous=FULL", "fullfsync=ON"):
            connection.execute(f"PRAGMA {setting}")
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def settle(connection: sqlite3.Connection, path: Path) -> None:
    """Brings everything into the one file, without a log beside it.

    The mark says so as soon as nothing depends on the log, and before that is removed: whenever this is interrupted,
    nobody takes the log for lost.

    Raises:
        sqlite3.Error, OSError: that failed, as on a full disk; the log stays, and nothing is lost.
    """
    (is_busy, pages, moved) = connection.execute("PRAGMA wal_checkpoint(FULL)").fetchone()
    if is_busy or moved < pages:
        raise sqlite3.OperationalError(f"{moved} of {pages} pages moved into the database: expected all")
    if mark_of(path).exists():
        write_mark(path, CLOSED)
    (mode,) = connection.execute("PRAGMA journal_mode=DELETE").fetchone()
    if mode != "delete":
        raise sqlite3.OperationalError(f"journal mode {mode}: expected delete")


def make_room(connection: sqlite3.Connection) -> None:
    """Lets the log grow now, so that a commit has nothing to do but to overwrite a page of it.

    A file that grows costs the disk a second write, of the file system's own journal. What is written here is taken
    back at once: it leaves nothing but room. The log begins anew before it is longer than that.
    """
    connection.execute("PRAGMA cache_size=1")  # so that pages go to the log before the end of the transaction
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("CREATE TABLE room(blank BLOB)")
    connection.execute("INSERT INTO room VALUES(zeroblob(?))", (_ROOM,))
    connection.execute("ROLLBACK")
    connection.execute("PRAGMA cache_size=-2000")
    (page_size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.execute(f"PRAGMA wal_autocheckpoint={_ROOM // page_size - _SPARE}")


def look(
    path: Path, see: Callable[[Release], None] | None = None, *, patience: float = 0.0, uptime: str | None = None
) -> Content:
    """What a ledger that no process holds contains; it stays as it is.

    Args:
        path: the file.
        see: is shown every release.
        patience: seconds to wait for a process that has it.
        uptime: the machine's (`uptime`); None: the present one.

    Raises:
        LedgerError: it is in use, damaged, or not whole.
    """
    log_fault = fault_of(path)
    uptime = current() if uptime is None else uptime
    with translated(path):
        connection = _read_only(path, patience)
        try:
            content = read(connection, path, see, uptime)
        finally:
            connection.close()
    check_log(path, content, log_fault, uptime)
    return content


def _read_only(path: Path, patience: float) -> sqlite3.Connection:
    """A connection that only reads; a transaction that a killed process left half done is taken back first."""
    if path.with_name(f"{path.name}-journal").exists():
        held = hold(path, patience)
        try:
            settle(held, path)
        finally:
            held.close()
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=patience)


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Makes errors of SQLite errors of ours."""
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", type(error).__name__)
        expected = next((text for start, text in _EXPECTED.items() if name.startswith(start)), "to use it")
        raise LedgerError(f"ledger: {path}: {error} ({name}): expected {expected}") from error
