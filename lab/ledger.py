"""Ledgers in a folder, to people: what is in them, whether they are sound, and how one is closed and another begun."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from common.errors import ConfigError, Fault, LedgerError
from common.events import Event
from common.privacy.ledger import cost_of
from common.records import read as read_records
from edge.ledger_content import Content, Release, read
from edge.ledger_database import hold, look, settle, translated
from edge.ledger_format import LAPSED, Carried, create, text_of
from edge.ledger_log import fault_of
from edge.ledger_mark import CLOSED, mark_of, read_log_size, read_mark, read_reserves, write_mark
from edge.uptime import current

_CLOSED = ".closed-"
MEANING = """\
What these ledgers count was released, and stays with whoever received it: nothing is taken back, and no guarantee is
renewed. The next run begins a new count from nothing. Its epsilon will say nothing about the releases before it, so it
holds as it stands only for records that had no part in them. The old files stay, renamed."""
CARRIED = """\
The next run goes on from the same counts, and accepts the records as they are then: data that grew, or were corrected.
What is counted holds for every record, old or new; a new one has paid less. The old files stay, renamed."""


@dataclass(frozen=True)
class Finding:
    """What was found at one place: a sound ledger, or what is wrong."""

    path: Path
    content: Content | None
    fault: str = ""

    @property
    def summary(self) -> str:
        """How much it holds, in a few words."""
        return self.content.summary if self.content is not None else ""

    @property
    def name(self) -> str:
        """The edge, and whether the ledger is closed."""
        edge = self.content.edge if self.content is not None else self.path.stem.partition(_CLOSED)[0]
        return f"{edge} (closed)" if is_closed(self.path) else edge


def is_closed(path: Path) -> bool:
    """Whether this ledger has a successor."""
    return _CLOSED in path.name


def places(folder: Path) -> list[Path]:
    """Where ledgers are, or should be, in a folder and those below it; the closed ones too.

    Raises:
        ConfigError: nowhere.
    """
    found = {path for path in folder.rglob("*.db") if path.is_file()}
    found |= {path.with_suffix(".db") for path in folder.rglob("*.begun")}
    if not found:
        raise ConfigError(Fault("DIR", str(folder), "a folder with ledgers, such as ledgers/digits-1a2b3c4d"))
    return sorted(found)


def survey(folder: Path, edge: str | None = None) -> Iterator[Finding]:
    """What every ledger holds; of one edge only, if it is named.

    Raises:
        ConfigError: there is none.
    """
    is_found = False
    for path in places(folder):
        finding = _look_at(path)
        if edge in (None, finding.name.removesuffix(" (closed)"), path.stem):
            is_found = True
            yield finding
    if not is_found:
        raise ConfigError(Fault("--edge", edge, f"an edge with a ledger in {folder}"))


def _look_at(path: Path, see: Callable[[Release], None] | None = None) -> Finding:
    if not path.exists():
        return Finding(path, None, f"ledger: {path}: missing: expected it, for {mark_of(path).name} says it was begun")
    try:
        return Finding(path, look(path, see))
    except LedgerError as error:
        return Finding(path, None, str(error))


def describe(finding: Finding, dp_delta: float) -> dict[str, Any]:
    """A ledger as one JSON object; `error` in place of what it holds if that cannot be relied on."""
    content, file = finding.content, str(finding.path)
    if content is None:
        return {"edge": finding.name, "file": file, "error": finding.fault}
    events, owner = content.events(), content.owner
    cost = cost_of(events, dp_delta)
    return {
        "edge": content.edge,
        "file": file,
        "closed": is_closed(finding.path),
        "data_set": owner.data_set if owner is not None else None,
        "records": owner.records if owner is not None else None,
        "fingerprint": owner.fingerprint if owner is not None else None,
        "releases": events.total(),
        "carried": content.carried,
        "runs": {run: content.events(run).total() for run in content.runs},
        "processes": len(content.lives),
        "events": [{"event": event.model_dump(exclude_none=True), "count": events[event]} for event in events],
        "epsilon": cost.epsilon,
        "dp_delta": dp_delta,
        "simulated": content.is_simulated,
        "note": cost.note,
    }


def compare(folder: Path, run_folder: Path) -> dict[str, str]:
    """What the edges' own records in a run folder show and their ledgers do not hold, by edge; empty text if nothing.

    Raises:
        ConfigError: the run folder has no records of edges.
        RecordError: records cannot be read.
    """
    files = sorted(run_folder.glob("edges/*/records.jsonl"))
    if not files:
        raise ConfigError(Fault("--run", str(run_folder), "a run folder with edges/<id>/records.jsonl"))
    held: dict[str, Counter[tuple[str, int, str]]] = {}
    for path in places(folder):
        rows: Counter[tuple[str, int, str]] = Counter()
        finding = _look_at(path, partial(_count, rows))
        held.setdefault(finding.name.removesuffix(" (closed)"), Counter()).update(rows)
    return {file.parent.name: _missing(file, held.get(file.parent.name)) for file in files}


def _count(rows: Counter[tuple[str, int, str]], release: Release) -> None:
    rows[release.run, release.ticket, release.event] += 1


def _missing(records: Path, held: Counter[tuple[str, int, str]] | None) -> str:
    shown = Counter(_release(row) for row in read_records(records) if row.get("kind") == "release")
    if held is None:
        return f"no ledger: expected one with the {shown.total()} releases of {records}" if shown else ""
    gone = shown - held
    for (run, ticket, event), count in held.items():
        if ticket == LAPSED:  # set aside when the machine went down, so that nobody knows their tickets
            _forgive(gone, run, event, count)
    if not gone:
        return ""
    (run, ticket, _), _ = gone.most_common(1)[0]
    return (
        f"{gone.total()} of {shown.total()} releases in {records} are not in it, such as ticket {ticket} of run {run}"
    )


def _forgive(gone: Counter[tuple[str, int, str]], run: str, event: str, count: int) -> None:
    for key in list(gone):
        if (key[0], key[2]) == (run, event):
            taken = min(count, gone[key])
            count -= taken
            gone[key] -= taken
            if not gone[key]:
                del gone[key]


def _release(row: Mapping[str, Any]) -> tuple[str, int, str]:
    return str(row["run"]), int(row["ticket"]), text_of(Event.model_validate(row["event"]))


def renew(path: Path, *, carry: bool) -> Path:
    """Closes a ledger and begins another in its place; where the old file is now.

    Args:
        path: the file; it may be missing or damaged if nothing is carried.
        carry: whether the counts go on.

    Raises:
        LedgerError: it is in use, or its counts are to be carried and cannot be read; nothing was changed.
    """
    content: Content | None = None
    with translated(path):
        old = _hold_old(path, carry=carry)
        try:
            if carry and old is not None:
                content = read(old, path, uptime=current())
            if old is not None and not fault_of(path):
                settle(old, path)
            closed = _put_away(path)
            _begin(path, content)
        except OSError as error:
            raise LedgerError(f"ledger: {path}: {error.strerror}: expected a folder that can be written") from error
        finally:
            if old is not None:
                old.close()
    return closed


def _hold_old(path: Path, *, carry: bool) -> sqlite3.Connection | None:
    """The old file, held so that no edge goes on with it; None if it is missing or beyond use."""
    if carry:
        if not path.exists():
            raise LedgerError(f"ledger: {path}: missing: expected it, to carry its counts on")
        look(path)  # sound, and its log is there
    if not path.exists():
        return None
    try:
        return hold(path, 0.0)
    except sqlite3.DatabaseError as error:
        if carry or error.sqlite_errorname in ("SQLITE_BUSY", "SQLITE_LOCKED"):
            raise
        return None


def _put_away(path: Path) -> Path:
    """Renames a ledger, and what may lie beside it; the first free number counts the closed ones."""
    number = 1
    while (closed := path.with_name(f"{path.stem}{_CLOSED}{number}{path.suffix}")).exists():
        number += 1
    for suffix in ("", "-wal", "-journal"):
        part = path.with_name(path.name + suffix)
        if part.exists():
            part.rename(closed.with_name(closed.name + suffix))
    # The mark tells whether it is whole; and this makes the names durable.
    write_mark(closed, read_mark(path), read_log_size(path), read_reserves(path))
    return closed


def _begin(path: Path, content: Content | None) -> None:
    edge = content.edge if content is not None else _edge_of(path)
    carried: list[Carried] = []
    if content is not None:
        randomness = "reproducible" if content.is_simulated else "secure"
        carried = [(run, event, count, randomness) for (run, event), count in content.counts.items()]
    new = hold(path, 0.0)
    try:
        new.execute("BEGIN EXCLUSIVE")
        create(new, edge, content.head if content is not None else b"", carried)
        new.execute("COMMIT")
        write_mark(path, CLOSED)
    finally:
        new.close()


def _edge_of(path: Path) -> str:
    """The edge whose ledger lies here: by the name of the file, or, in a run folder, of the folder around it."""
    return path.parent.name if path.stem == "ledger" else path.stem
