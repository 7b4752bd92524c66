"""What a ledger holds: reads the file and makes sure that nothing in it was changed."""

from __future__ import annotations

import heapq
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from common.errors import LedgerError
from common.events import Event
from edge.ledger_format import (
    APPLICATION,
    LAPSED,
    SCHEMA,
    VERSION,
    Life,
    first_link,
    life_link,
    mark,
    release_link,
    reserve_link,
)
from edge.owner import Owner

CURE = "put the undamaged file back, or begin a new one (mapa ledger new)"


@dataclass(frozen=True)
class Release:
    """One release, as `read` comes by it. `ticket`: LAPSED if it may not have been made; `event`: as JSON."""

    number: int
    run: str
    ticket: int
    event: str


@dataclass
class Content:
    """What a sound ledger holds.

    Attributes:
        head: the newest chain value.
        counts: releases by run and event (as JSON).
        reserves: how often releases were set aside, or given back.
        left: what the newest process has set aside and not used, by event.
        lapsed: of that, what counts as made although it is not in the file.
    """

    edge: str
    head: bytes
    releases: int = 0
    reserves: int = 0
    carried: int = 0
    is_seed_carried: bool = False
    lives: list[Life] = field(default_factory=list)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)
    lapsed: Counter[str] = field(default_factory=Counter)

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


def read(
    connection: sqlite3.Connection, path: Path, see: Callable[[Release], None] | None = None, uptime: str = ""
) -> Content:
    """Reads all of it and follows the chain; `see` is shown every release.

    With the present `uptime`, releases count as made that were set aside in another one and never heard of again.

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
        if uptime and content.lives and uptime != content.lives[-1].uptime:
            _lapse(content, see)
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
    """Takes lives, reserves and releases in the order in which they were added, and checks each link."""
    events = dict(connection.execute("SELECT id, content FROM events"))
    marks = {key: mark(text) for key, text in events.items()}
    lives = _lives(connection, path, content)
    current = 0
    releases = connection.execute("SELECT number, 0, life, ticket, event, time, chain FROM releases ORDER BY number")
    reserves = connection.execute("SELECT after, number, life, count, event, 0, chain FROM reserves ORDER BY number")
    for place, reserve, life, value, event, time, chain in heapq.merge(releases, reserves):
        while current < life:
            current = next(lives, life + 1)  # its link is checked on the way
        if reserve:
            content.reserves += 1
            link = reserve_link(content.head, reserve, value, marks.get(event, b""))
        else:
            content.releases += 1
            link = release_link(content.head, place, value, time, marks.get(event, b""))
        is_next = place == content.releases and reserve in (0, content.reserves)
        if not (current == life and is_next and event in events and chain == link):
            text = f"release {place}: altered, or one before it is missing: expected the chain to hold"
            raise LedgerError(f"ledger: {path}: {text}; {CURE}")
        content.head = chain
        content.left[events[event]] += value if reserve else -1
        if not reserve:
            _count(content, value, events[event], see)
    for _ in lives:
        pass


def _count(content: Content, ticket: int, event: str, see: Callable[[Release], None] | None) -> None:
    run = content.lives[-1].run
    content.counts[run, event] += 1
    if see is not None:
        see(Release(content.releases, run, ticket, event))


def _lapse(content: Content, see: Callable[[Release], None] | None) -> None:
    """Counts what the newest process had set aside when its machine went down: it may have been released."""
    content.lapsed = +content.left
    for event in content.lapsed.elements():
        _count(content, LAPSED, event, see)


def _lives(connection: sqlite3.Connection, path: Path, content: Content) -> Iterator[int]:
    """Adds one life after the other to `content`, and gives its number."""
    for number, *process, data_set, records, fingerprint, randomness, time, chain in connection.execute(
        "SELECT id, run, boot, uptime, data_set, records, fingerprint, randomness, time, chain FROM lives ORDER BY id"
    ):
        run, boot, uptime = process
        life = Life(run, boot, uptime, Owner(content.edge, data_set, records, fingerprint), randomness, time)
        if number != len(content.lives) + 1 or chain != life_link(content.head, life):
            text = f"process {number} ({boot}): altered, or something before it is: expected the chain to hold"
            raise LedgerError(f"ledger: {path}: {text}; {CURE}")
        content.lives.append(life)
        content.left.clear()
        content.head = chain
        yield number
