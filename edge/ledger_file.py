"""The file in which an edge writes every release down before it leaves: SQLite, one file for one edge.

One transaction for each release, in the write-ahead log, synchronised to the disk before `write` returns. So whatever
ends the process or the machine, what was sent is in the file; at most, one release is in it that was not sent.

One process holds the file at a time: by SQLite's exclusive lock, which ends with the process. While it is held the
database has a write-ahead log beside it; closed in good order, everything is in the one file again.

| what is found | what is done |
|---|---|
| neither file nor mark (`ledger_mark`), and the edge's records know of no release | a ledger is begun |
| no file, an empty one, or one without its (whole) log, though there was one; damage; changed rows | LedgerError |
| the ledger of another edge, another data set, other records; a newer version | LedgerError |
| in use; cannot be written; no room, removed or replaced, also in the middle of a run | LedgerError |
| fewer releases of this run than the edge's own records show | LedgerError |
"""

from __future__ import annotations

import logging
import sqlite3
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from common.errors import LedgerError
from common.events import Event
from common.privacy.ledger import Counts
from edge.ledger_content import Content, read
from edge.ledger_database import hold, look, make_room, settle, translated
from edge.ledger_format import NOW, Life, create, life_link, mark, release_link, text_of
from edge.ledger_log import check_log, fault_of, log_of
from edge.ledger_mark import CLOSED, make_folder, mark_of, write_mark
from edge.owner import Owner

LOG = logging.getLogger(__name__)
PATIENCE = 5.0
"""Seconds that the last process may still take to let go of the file."""
_HEADER = 100  # bytes at the beginning of every database


class LedgerFile:
    """The ledger of one edge on disk, held by this process; a context that lets go of it."""

    def __init__(
        self, path: Path, run: str, boot: str, randomness: str, *, shown: int = 0, patience: float = PATIENCE
    ) -> None:
        """Nothing is opened yet.

        Args:
            path: the file, such as ledgers/edge-0001.db.
            run: the present run.
            boot: this process.
            randomness: where its noise comes from, "secure" or "reproducible".
            shown: releases of this run that the edge's own records show.
            patience: seconds to wait for another process to let go.
        """
        self.path = path
        self._run, self._boot, self._randomness = run, boot, randomness
        self._shown, self._patience = shown, patience
        self._connection: sqlite3.Connection | None = None
        self._content: Content | None = None
        self._number, self._life, self._head = 0, 0, b""
        self._held: tuple[int, int] | None = None
        self._events: dict[Event, tuple[int, bytes]] = {}

    def __enter__(self) -> LedgerFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self, owner: Owner) -> LedgerFile:
        """Takes hold of the file, begins it if there never was one, and checks all that it holds.

        Raises:
            LedgerError: as the table above says; no release was added or lost.
        """
        may_begin, log_fault = self._may_begin(owner.edge), fault_of(self.path)
        if log_of(self.path).exists():  # a connection that may write would tidy away what is amiss, by being closed
            look(self.path, patience=self._patience)
        with translated(self.path):
            self._connection = connection = hold(self.path, self._patience)
            is_new = may_begin and not connection.execute("SELECT 1 FROM sqlite_master").fetchone()
            if is_new:
                connection.execute("BEGIN EXCLUSIVE")
                create(connection, owner.edge)
                connection.execute("COMMIT")
            content = read(connection, self.path)
            check_log(self.path, content, log_fault)
            self._content, self._held = content, self._place()
            self._check(content, owner)
            try:
                self._begin(connection, content, owner)
            except OSError as error:
                raise LedgerError(f"ledger: {mark_of(self.path)}: {error.strerror}: expected to write it") from error
        LOG.info("ledger %s %s: %s", self.path, "begun" if is_new else "opened", content.summary)
        return self

    @property
    def is_simulated(self) -> bool:
        """Whether noise of some release in it, or of this process, comes from a seed."""
        return self._content is not None and self._content.is_simulated

    def booked(self) -> tuple[Counts, Counts]:
        """What it held when it was opened: of this run, and of all."""
        if self._content is None:
            raise LedgerError(f"ledger: {self.path}: not open: expected it to be opened first")
        return self._content.events(self._run), self._content.events()

    def write(self, event: Event, ticket: int) -> None:
        """Adds a release; once this returns, it is on the disk.

        Raises:
            LedgerError: it could not be written.
        """
        connection = self._connection
        if connection is None:
            raise LedgerError(f"ledger: {self.path}: not open: expected it to be open for every release")
        if self._place() != self._held:  # SQLite would go on writing to a file that nobody finds again
            raise LedgerError(f"ledger: {self.path}: removed or replaced while it was open: expected the same file")
        with translated(self.path):
            if event not in self._events:
                self._events[event] = _enter(connection, text_of(event))
            place, content = self._events[event]
            (now,) = connection.execute(NOW).fetchone()
            link = release_link(self._head, self._number + 1, ticket, now, content)
            row = (self._number + 1, self._life, ticket, place, now, link)
            connection.execute("INSERT INTO releases VALUES(?, ?, ?, ?, ?, ?)", row)
        self._number, self._head = self._number + 1, link

    def close(self) -> None:
        """Lets go of the file; a second call does nothing. What it holds is on the disk already."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._content is not None:
            with suppress(sqlite3.Error, OSError):
                settle(connection, self.path)
        connection.close()

    def _place(self) -> tuple[int, int] | None:
        """What tells the file from another one of its name; None if there is none."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _may_begin(self, edge: str) -> bool:
        """Whether there never was a ledger here."""
        try:
            make_folder(self.path.parent)
            has_mark = mark_of(self.path).exists()
            size = self.path.stat().st_size if self.path.exists() else None
        except OSError as error:
            raise LedgerError(f"ledger: {self.path}: {error.strerror}: expected a folder for it") from error
        if not size and not has_mark and not self._shown:
            return True  # an empty file is what a process leaves that was killed before it made the tables
        if size is not None and size >= _HEADER:
            return not (has_mark or self._shown)  # there may be no tables yet
        state = "missing" if size is None else f"{size} bytes"
        signs = f"{self._shown} releases of run {self._run}" if self._shown else "one that was begun"
        cure = f"put it back, or begin a new one: {new_command(self.path, edge)}"
        if not has_mark:
            cure = "put it back; only another run may begin a new one"
        raise LedgerError(f"ledger: {self.path}: {state}: expected {signs}; {cure}")

    def _check(self, content: Content, owner: Owner) -> None:
        """Whether it is the ledger of this edge, these records, and this run so far."""
        held, new = content.owner, new_command(self.path, owner.edge)
        fault = ""
        if content.edge != owner.edge:
            fault = f"of {content.edge}: expected that of {owner.edge}; one file for one edge"
        elif held is not None and held.data_set != owner.data_set:
            other = f"expected {owner.data_set}; give another folder (--ledger), or close it: {new}"
            fault = f"of data set {held.data_set}: {other}"
        elif held is not None and held.fingerprint != owner.fingerprint:
            other = f"expected {owner.short}; give another folder (--ledger), or close it: {new}"
            fault = f"of {held.short}: {other} (--carry if these are the same data, grown or corrected)"
        elif (known := content.events(self._run).total()) < self._shown:
            other = f"expected the {self._shown} or more of the edge's own records; put the newest ledger back"
            fault = f"{known} releases of run {self._run}: {other}"
        if fault:
            raise LedgerError(f"ledger: {self.path}: {fault}")

    def _begin(self, connection: sqlite3.Connection, content: Content, owner: Owner) -> None:
        """Enters this process, goes over to the write-ahead log, and then names the process in the mark."""
        settle(connection, self.path)
        (now,) = connection.execute(NOW).fetchone()
        life = Life(self._run, self._boot, owner, self._randomness, now)
        self._head = life_link(content.head, life)
        row = (*life.run_and_data, life.randomness, now, self._head)
        self._number, self._life = content.releases, len(content.lives) + 1
        connection.execute("INSERT INTO lives VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)", (self._life, *row))
        content.lives.append(life)
        write_mark(self.path, CLOSED)  # a database with a log has a mark, so that without both something was lost
        connection.execute("PRAGMA journal_mode=WAL")
        make_room(connection)  # from now on, the log has pages
        write_mark(self.path, self._boot, log_of(self.path).stat().st_size)


def new_command(path: Path, edge: str) -> str:
    """The command that closes this ledger and begins another."""
    return f"mapa ledger new {path.parent}" + (f" --edge {edge}" if path.stem == edge else "")


def _enter(connection: sqlite3.Connection, content: str) -> tuple[int, bytes]:
    """The number of an event, which is added if it is new, and what stands for it in the chain."""
    connection.execute("INSERT OR IGNORE INTO events(content) VALUES(?)", (content,))
    (place,) = connection.execute("SELECT id FROM events WHERE content = ?", (content,)).fetchone()
    return place, mark(content)
