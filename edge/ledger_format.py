"""What stands in a ledger file: tables, and the chain of hashes that makes changes show.

| table | one row for | it says |
|---|---|---|
| ledger | the file | edge; chain value of the ledger that it carries on from, if any |
| carried | a run and an event of that ledger | how often; source of the noise |
| lives | a process that opened the file | run, boot id, uptime, data set, records, fingerprint, noise source, time |
| events | a kind of release | its content as JSON |
| reserves | releases set aside (`ledger_reserve`) | life, releases before it, event, how many; below 0: given back |
| releases | a release | life, ticket, event, time (unix seconds, of the database's clock) |

A release with the ticket LAPSED was set aside when the machine went down: nobody knows whether it was made.

Rows are added only (triggers refuse everything else). Each life, reserve and release has a SHA-256 over the one before
it and its own content, the first over the file's own row and what is carried. So a row that is altered, removed from
the middle or put in shows. What does not show is the end cut off cleanly, or a chain made anew by somebody who means
to deceive; against the first, compare with the records of a run.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from common.events import Event
from edge.owner import Owner

VERSION = 2
APPLICATION = 0x6D617061
"""Marks the file as one of ours, for SQLite's own header."""
_GENESIS = b"\0" * 32
LAPSED = -1
_TABLES = ("ledger", "carried", "lives", "events", "reserves", "releases")
SCHEMA = (
    "CREATE TABLE ledger(edge TEXT NOT NULL, previous BLOB NOT NULL)",
    "CREATE TABLE carried(run TEXT NOT NULL, event TEXT NOT NULL, count INTEGER NOT NULL, randomness TEXT NOT NULL)",
    "CREATE TABLE lives(id INTEGER PRIMARY KEY, run TEXT NOT NULL, boot TEXT NOT NULL, uptime TEXT NOT NULL, "
    "data_set TEXT NOT NULL, records INTEGER NOT NULL, fingerprint TEXT NOT NULL, randomness TEXT NOT NULL, "
    "time INTEGER NOT NULL, chain BLOB NOT NULL)",
    "CREATE TABLE events(id INTEGER PRIMARY KEY, content TEXT NOT NULL UNIQUE)",
    "CREATE TABLE reserves(number INTEGER PRIMARY KEY, life INTEGER NOT NULL, after INTEGER NOT NULL, "
    "event INTEGER NOT NULL, count INTEGER NOT NULL, chain BLOB NOT NULL)",
    "CREATE TABLE releases(number INTEGER PRIMARY KEY, life INTEGER NOT NULL, ticket INTEGER NOT NULL, "
    "event INTEGER NOT NULL, time INTEGER NOT NULL, chain BLOB NOT NULL)",
    *(
        f"CREATE TRIGGER {table}_{what} BEFORE {what} ON {table} "
        f"BEGIN SELECT RAISE(ABORT, 'a ledger is added to only'); END"
        for table in _TABLES
        for what in ("UPDATE", "DELETE")
    ),
)
Carried = tuple[str, str, int, str]
"""Run, event (as JSON), count and source of the noise."""
NOW = "SELECT CAST(strftime('%s', 'now') AS INTEGER)"


@dataclass(frozen=True)
class Life:
    """One process that opened the ledger; `uptime`: the machine's, empty where there is no telling (`uptime`)."""

    run: str
    boot: str
    uptime: str
    owner: Owner
    randomness: str
    time: int

    @property
    def run_and_data(self) -> tuple[str, str, str, str, int, str]:
        """The columns from run to fingerprint."""
        return self.run, self.boot, self.uptime, self.owner.data_set, self.owner.records, self.owner.fingerprint


class Kind(NamedTuple):
    """An event as its ledger knows it: by the number of its row, and by what stands for it in the chain."""

    number: int
    mark: bytes


def text_of(event: Event) -> str:
    """An event as it is stored: one text for equal events."""
    return json.dumps(event.model_dump(mode="json", exclude_none=True), sort_keys=True, separators=(",", ":"))


def first_link(edge: str, previous: bytes, carried: Sequence[Carried]) -> bytes:
    """The chain's first value; `previous`: the last one of the ledger that this one carries on from."""
    content = json.dumps([VERSION, edge, previous.hex(), sorted(carried)])
    return hashlib.sha256(_GENESIS + content.encode()).digest()


def life_link(previous: bytes, life: Life) -> bytes:
    """The chain value of a process."""
    content = [*life.run_and_data, life.randomness, life.time]
    return hashlib.sha256(previous + json.dumps(content).encode()).digest()


def release_link(previous: bytes, number: int, ticket: int, time: int, event: bytes) -> bytes:
    """The chain value of a release; `event`: `mark` of its content."""
    return hashlib.sha256(b"%b%d %d %d %b" % (previous, number, ticket, time, event)).digest()


def reserve_link(previous: bytes, number: int, count: int, event: bytes) -> bytes:
    """The chain value of a reserve; `event`: `mark` of its content."""
    return hashlib.sha256(b"%breserve %d %d %b" % (previous, number, count, event)).digest()


def mark(event: str) -> bytes:
    """What stands for an event in the chain."""
    return hashlib.sha256(event.encode()).digest()


def create(connection: sqlite3.Connection, edge: str, previous: bytes = b"", carried: Sequence[Carried] = ()) -> None:
    """Makes the tables, inside a transaction of the caller's."""
    for statement in SCHEMA:
        connection.execute(statement)
    connection.execute("INSERT INTO ledger VALUES(?, ?)", (edge, previous))
    connection.executemany("INSERT INTO carried VALUES(?, ?, ?, ?)", carried)
    connection.execute(f"PRAGMA application_id={APPLICATION}")
    connection.execute(f"PRAGMA user_version={VERSION}")
