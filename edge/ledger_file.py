"""The file in which an edge writes every release down before it leaves: SQLite, one file for one edge.

One transaction for each release, in the write-ahead log, before `write` returns. So whatever ends the process, what was
sent is in the file, and at most one release that was not. When the machine goes down, releases count that were set
aside and perhaps never made (`ledger_reserve`).

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
from common.storage import synchronise
from edge.ledger_content import Content, read
from edge.ledger_database import hold, look, make_room, settle, translated
from edge.ledger_format import LAPSED, NOW, Kind, Life, create, life_link, mark, release_link, text_of
from edge.ledger_log import check_log, fault_of, log_of
from edge.ledger_mark import CLOSED, make_folder, mark_of, write_mark
from edge.ledger_reserve import Reserve
from edge.owner import Owner
from edge.uptime import current

LOG = logging.getLogger(__name__)
PATIENCE = 5.0
"""Seconds that the last process may still take to let go of the file."""
_HEADER = 100  # bytes at the beginning of every database


class LedgerFile:
    """The ledger of one edge on disk, held by this process; a context that lets go of it."""

    def __init__(
        self,
        path: Path,
        run: str,
        boot: str,
        randomness: str,
        *,
        shown: int = 0,
        patience: float = PATIENCE,
        uptime: str | None = None,
    ) -> None:
        """Nothing is opened yet.

        Args:
            path: the file, such as ledgers/edge-0001.db.
            run: the present run.
            boot: this process.
            randomness: where its noise comes from, "secure" or "reproducible".
            shown: releases of this run that the edge's own records show.
            patience: seconds to wait for another process to let go.
            uptime: the machine's (`uptime`); None: the present one.
        """
        self.path = path
        self._run, self._boot, self._randomness = run, boot, randomness
        self._shown, self._patience = shown, patience
        self._uptime = current() if uptime is None else uptime
        self._connection: sqlite3.Connection | None = None
        self._content: Content | None = None
        self._reserve: Reserve | None = None
        self._number, self._life, self._head = 0, 0, b""
        self._log_size = 0
        self._held: tuple[int, int] | None = None
        self._kinds: dict[Event, Kind] = {}

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
            look(self.path, patience=self._patience, uptime=self._uptime)
        with translated(self.path):
            self._connection = connection = hold(self.path, self._patience)
            is_new = may_begin and not connection.execute("SELECT 1 FROM sqlite_master").fetchone()
            if is_new:
                connection.execute("BEGIN EXCLUSIVE")
                create(connection, owner.edge)
                connection.execute("COMMIT")
            content = read(connection, self.path, uptime=self._uptime)
            check_log(self.path, content, log_fault, self._uptime)
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

    def write(self, event: Event, ticket: int, room: int | None = None) -> None:
        """Adds a release; once this returns, no ledger is found without it.

        Args:
            event: what is released.
            ticket: the work that it answers.
            room: releases of this kind that the budget leaves, this one included; None for no limit.

        Raises:
            LedgerError: it could not be written.
        """
        connection = self._connection
        if connection is None:
            raise LedgerError(f"ledger: {self.path}: not open: expected it to be open for every release")
        if self._place() != self._held:  # SQLite would go on writing to a file that nobody finds again
            raise LedgerError(f"ledger: {self.path}: removed or replaced while it was open: expected the same file")
        with translated(self.path):
            kind = self._kinds.get(event)
            if kind is None:
                kind = self._kinds[event] = _enter(connection, text_of(event))
            if self._reserve is not None and self._reserve.lacks(kind):
                self._head = self._reserve.add(self._head, self._number, kind, room)
                self._mark(self._reserve.written)
            (now,) = connection.execute(NOW).fetchone()
            self._add(connection, self._life, ticket, kind, now)
        if self._reserve is not None:
            self._reserve.use(kind)

    def close(self) -> None:
        """Lets go of the file; a second call does nothing. Afterwards, all that it holds is on the disk."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._content is not None:
            with suppress(sqlite3.Error):  # on a full disk it stays set aside, and the rest is settled all the same
                if self._reserve is not None:
                    self._reserve.give_back(self._head, self._number)
            with suppress(sqlite3.Error, OSError):
                settle(connection, self.path)
        connection.close()

    def _add(self, connection: sqlite3.Connection, life: int, ticket: int, kind: Kind, now: int) -> None:
        """Adds a row for a release."""
        link = release_link(self._head, self._number + 1, ticket, now, kind.mark)
        row = (self._number + 1, life, ticket, kind.number, now, link)
        connection.execute("INSERT INTO releases VALUES(?, ?, ?, ?, ?, ?)", row)
        self._number, self._head = self._number + 1, link

    def _mark(self, reserves: int) -> None:
        """Writes the mark of this process, on the disk when this returns."""
        try:
            write_mark(self.path, self._boot, self._log_size, reserves)
        except OSError as error:
            raise LedgerError(f"ledger: {mark_of(self.path)}: {error.strerror}: expected to write it") from error

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
        self._head, self._number = content.head, content.releases
        (now,) = connection.execute(NOW).fetchone()
        if content.lapsed:
            self._lapse(connection, content, now)
        settle(connection, self.path)
        life = Life(self._run, self._boot, self._uptime, owner, self._randomness, now)
        self._head = life_link(self._head, life)
        row = (*life.run_and_data, life.randomness, now, self._head)
        self._life = len(content.lives) + 1
        connection.execute("INSERT INTO lives VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (self._life, *row))
        content.lives.append(life)
        write_mark(self.path, CLOSED)  # a database with a log has a mark, so that without both something was lost
        connection.execute("PRAGMA journal_mode=WAL")
        make_room(connection)  # from now on, the log has pages
        synchronise(log_of(self.path))
        self._log_size = log_of(self.path).stat().st_size
        self._mark(content.reserves)
        if self._uptime:
            self._reserve = Reserve(connection, self._life, content.reserves)

    def _lapse(self, connection: sqlite3.Connection, content: Content, now: int) -> None:
        """Enters what was set aside when the machine went down, in the name of the process that had set it aside."""
        LOG.warning(
            "ledger %s: the machine went down: %d releases that were set aside then count as made",
            self.path,
            content.lapsed.total(),
        )
        connection.execute("BEGIN IMMEDIATE")
        for text in content.lapsed.elements():
            self._add(connection, len(content.lives), LAPSED, _enter(connection, text), now)
        connection.execute("COMMIT")


def new_command(path: Path, edge: str) -> str:
    """The command that closes this ledger and begins another."""
    return f"mapa ledger new {path.parent}" + (f" --edge {edge}" if path.stem == edge else "")


def _enter(connection: sqlite3.Connection, content: str) -> Kind:
    """An event as the ledger knows it, which is added if it is new."""
    connection.execute("INSERT OR IGNORE INTO events(content) VALUES(?)", (content,))
    (place,) = connection.execute("SELECT id FROM events WHERE content = ?", (content,)).fetchone()
    return Kind(place, mark(content))
