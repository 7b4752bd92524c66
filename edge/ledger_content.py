"""What a ledger holds: reads the file and makes sure that nothing in it was changed."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from common.errors import LedgerError
from common.events import Event
from edge.ledger_format import APPLICATION, SCHEMA, VERSION, Life, first_link, life_link, mark, release_link
from edge.owner import Owner

CURE = "put the undamaged file back, or begin a new one (mapa ledger new)"


@dataclass(frozen=True)
class Release:
    """One release, as `read` comes by it. `event`: its content as JSON."""

    number: int
    run: str
    ticket: int
    event: str


@dataclass
class Content:
    """What a sound ledger holds. `head`: the newest chain value; `counts`: releases by run and event (as JSON)."""

    edge: str
    head: bytes
    releases: int = 0
    carried: int = 0
    is_seed_carried: bool = False
    lives: list[Life] = field(default_factory=list)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def owner(self) -> Owner | None:
        """Whose records it is about; None as long as no process has opened it."""
        return self.lives[-1].owner if self.lives else None

    @property
    def runs(self) -> Sequence[str]:
        """The runs that released something, in the order of their first release."""
        return list(dict.fromkeys(run for run, _ in self.counts))

    @property
    def summary(self) -> str:
        """How much it is, in a few words."""
        return f"{self.counts.total()} releases in {len(self.runs)} runs by {len(self.lives)} processes so far"

    @property
    def is_simulated(self) -> bool:
        """Whether noise of some life came from a seed."""
        return self.is_seed_carried or any(life.randomness != "secure" for life in self.lives)

    def events(self, run: str | None = None) -> Counter[Event]:
        """How often each event happened, in one run or in all."""
        found: Counter[Event] = Counter()
        for (name, content), count in self.counts.items():
            if run in (None, name):
                found[Event.model_validate_json(content)] += count
        return found


def read(connection: sqlite3.Connection, path: Path, see: Callable[[Release], None] | None = None) -> Content:
    """Reads all of it and follows the chain; `see` is shown every release.

    Raises:
        LedgerError: it is no ledger, of another version, damaged, or was tampered with.
        sqlite3.Error: the file cannot be read as a database.
    """
    _check_format(connection, path)
    try:
        (edge, previous) = _one(connection, "SELECT edge, previous FROM ledger", path)
        carried = connection.execute("SELECT run, event, count, randomness FROM carried").fetchall()
        content = Content(edge, first_link(edge, previous, carried), carried=sum(row[2] for row in carried))
        for run, event, count, randomness in carried:
            content.counts[run, event] += count
            content.is_seed_carried |= randomness != "secure"
        _follow(connection, path, content, see)
        content.events()  # whether they can be read at all
    except (TypeError, ValueError) as error:
        raise LedgerError(f"ledger: {path}: damaged ({error}): expected a whole ledger; {CURE}") from error
    return content


def _check_format(connection: sqlite3.Connection, path: Path) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION:
        raise LedgerError(f"ledger: {path}: a database of something else: expected a privacy ledger; {CURE}")
    if version != VERSION:
        text = f"version {version}: expected {VERSION}; use the version of this software that wrote it"
        raise LedgerError(f"ledger: {path}: {text}")
    (state, *_) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if state != "ok":
        raise LedgerError(f"ledger: {path}: damaged ({state}): expected a whole database; {CURE}")
    tables = [text for (text,) in connection.execute("SELECT sql FROM sqlite_master WHERE sql NOT NULL ORDER BY rowid")]
    if tables != list(SCHEMA):
        raise LedgerError(f"ledger: {path}: its tables were changed: expected those of version {VERSION}; {CURE}")


def _one(connection: sqlite3.Connection, query: str, path: Path) -> tuple[str, bytes]:
    rows = connection.execute(query).fetchall()
    if len(rows) != 1:
        raise LedgerError(f"ledger: {path}: {len(rows)} rows of its own: expected 1; {CURE}")
    return rows[0][0], rows[0][1]


def _follow(
    connection: sqlite3.Connection, path: Path, content: Content, see: Callable[[Release], None] | None
) -> None:
    """Takes lives and releases in the order in which they were added, and checks each link."""
    events = dict(connection.execute("SELECT id, content FROM events"))
    marks = {key: mark(text) for key, text in events.items()}
    lives = _lives(connection, path, content)
    current = 0
    rows = connection.execute("SELECT number, life, ticket, event, time, chain FROM releases ORDER BY number")
    for number, life, ticket, event, time, chain in rows:
        while current < life:
            current = next(lives, life + 1)  # its link is checked on the way
        content.releases += 1
        sound = current == life and number == content.releases and event in events
        if not sound or chain != release_link(content.head, number, ticket, time, marks[event]):
            text = f"release {number}: altered, or one before it is missing: expected the chain to hold"
            raise LedgerError(f"ledger: {path}: {text}; {CURE}")
        content.head = chain
        run = content.lives[-1].run
        content.counts[run, events[event]] += 1
        if see is not None:
            see(Release(number, run, ticket, events[event]))
    for _ in lives:
        pass


def _lives(connection: sqlite3.Connection, path: Path, content: Content) -> Iterator[int]:
    """Adds one life after the other to `content`, and gives its number."""
    query = "SELECT id, run, boot, data_set, records, fingerprint, randomness, time, chain FROM lives ORDER BY id"
    for number, run, boot, data_set, records, fingerprint, randomness, time, chain in connection.execute(query):
        life = Life(run, boot, Owner(content.edge, data_set, records, fingerprint), randomness, time)
        if number != len(content.lives) + 1 or chain != life_link(content.head, life):
            text = f"process {number} ({boot}): altered, or something before it is: expected the chain to hold"
            raise LedgerError(f"ledger: {path}: {text}; {CURE}")
        content.lives.append(life)
        content.head = chain
        yield number
