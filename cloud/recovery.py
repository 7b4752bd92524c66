"""Brings a cloud back to where its process died: the newest sound snapshot, then all that it heard since, once more.

The node is deterministic, so it decides again what it decided: nothing that it had accepted is lost, for it was
written down before the node heard of it, and nothing counts twice. What it says meanwhile goes nowhere: edges ask for
it. Its rows are compared with those in its records, and those that are missing there are added.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cloud.build import Cloud
from cloud.checkpoint import Checkpoint, Found
from cloud.state import State
from cloud.transcript import END, SHELL
from common.errors import RecordError
from common.measurer import WAITING
from common.node import Effect, Halt, Measure, Record, Seconds, Wake
from common.records import line_of
from common.tensors import Tensors

LOG = logging.getLogger(__name__)
STAMP = ("run", "node", "time")
"""What a shell adds to a row."""


@dataclass
class Memory:
    """What a shell owes its node, and would forget with its process.

    `now`: when the node heard of something last. `due`: when wake-ups are. `evaluating`: parameters whose scores are
    not in the records, None where only their version is known. `halt`: the node is done.
    """

    now: Seconds = 0.0
    due: dict[str, Seconds] = field(default_factory=dict)
    evaluating: dict[int, Tensors | None] = field(default_factory=dict)
    halt: Halt | None = None

    def note(self, effect: Effect) -> None:
        """Keeps what an effect, released just now, asks for; of parameters, their version alone."""
        match effect:
            case Wake(name, after):
                self.due[name] = self.now + after
            case Measure(version, _):
                self.evaluating[version] = None
            case Halt():
                self.halt = effect


@dataclass
class Recovered:
    """A cloud that is where its predecessor was. `events`, `size`: heard since the snapshot, and their bytes.

    `number`: of the snapshot; `end`: sound bytes of the last file of events; `rows`: missing, to be added, with their
    times; `lost`: rows that were cut off, for the events that led to them are gone; `looked`: bytes of the records that
    are known.
    """

    cloud: Cloud
    memory: Memory
    number: int
    events: int = 0
    size: int = 0
    end: int = 0
    rows: list[tuple[Seconds, Record]] = field(default_factory=list)
    lost: int = 0
    looked: int = 0

    @property
    def has_begun(self) -> bool:
        """Whether the node was ever started."""
        return bool(self.number or self.events)


def recover(checkpoint: Checkpoint, make: Callable[[], Cloud], records: Path) -> Recovered:
    """The cloud at its last event. In the records, what is torn is cut off, and what no event on disk leads to.

    Raises:
        RecordError: there is nothing sound to go on with.
    """
    _mend(records)
    faults = []
    for found in checkpoint.ways():
        try:
            return _gone_through(found, make(), records)
        except RecordError as error:
            faults.append(str(error))
            LOG.warning("snapshot %d: %s", found.number, error)
    told = faults[0] if faults else f"{checkpoint.folder}: damaged"
    raise RecordError(f"checkpoint: {told}: expected something sound to go on with; begin another run (--run, --out)")


def _gone_through(found: Found, cloud: Cloud, records: Path) -> Recovered:
    """Everything since one snapshot, once more."""
    recovered = Recovered(cloud, Memory(), found.number, end=found.events[-1][1] if found.events else 0)
    start = 0 if found.content is None else _restore(recovered, found)
    rows = _Rows(records, start)
    memory = recovered.memory
    for event, is_in_last in found.heard(cloud.layout):
        if event.kind == END:
            break
        recovered.events, recovered.size, memory.now = recovered.events + 1, recovered.size + event.size, event.now
        recovered.end = event.until if is_in_last else recovered.end
        if event.kind == "wake":
            memory.due.pop(event.who, None)
        for effect in event.happen(cloud.node):
            memory.note(effect)
            if isinstance(effect, Record) and not rows.has(effect):
                recovered.rows.append((event.now, effect))
            elif isinstance(effect, Measure) and effect.version not in rows.scored:
                memory.evaluating[effect.version] = effect.tensors.copy()
                _forget(memory, WAITING + 1)
    if not recovered.has_begun:
        rows.expect_none()
    recovered.lost = rows.cut()
    memory.evaluating = {key: value for key, value in memory.evaluating.items() if key not in rows.scored}
    recovered.looked = rows.end
    return recovered


def _restore(recovered: Recovered, found: Found) -> int:
    """Gives the node the state of a snapshot; how much of the records belongs to it, in bytes."""
    content, memory = found.content or {}, recovered.memory
    try:
        State(recovered.cloud.layout, found.arrays).give(recovered.cloud.node, content["state"])
        memory.now, memory.due = float(content["now"]), dict(content["due"])
        memory.evaluating = dict.fromkeys(content["evaluating"])
        return int(content["records"])
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        text = f"snapshot {found.number}: {error!r}: expected the state of this experiment's cloud, by this version"
        raise RecordError(text) from error


def _forget(memory: Memory, most: int) -> None:
    """Keeps the newest parameters that wait for their scores: as many as a shell does."""
    kept = [version for version, tensors in memory.evaluating.items() if tensors is not None]
    for version in kept[:-most]:
        memory.evaluating[version] = None


class _Rows:
    """The rows that follow byte `start` of the records, held against those that the node decides."""

    def __init__(self, path: Path, start: int) -> None:
        self.scored: set[int] = set()
        """Versions of which the records have scores, or why not."""
        self.end = start
        self._path = path
        self._rows = self._read(start)
        self._next = next(self._rows, None)

    def has(self, effect: Record) -> bool:
        """Whether the next row is this one; False if there is none.

        Raises:
            RecordError: it is another.
        """
        if self._next is None:
            return False
        found, wanted = self._next[1], json.loads(line_of({"kind": effect.kind, **effect.row}))
        if found != wanted:
            raise RecordError(f"records: {self._path}: {found}: expected {wanted}, which the events lead to")
        self._next = next(self._rows, None)
        return True

    def cut(self) -> int:
        """Cuts off what follows the last row that was asked for; how many rows of the node.

        Events are written before rows, but a power failure may keep the rows and take the events.
        """
        if self._next is None:
            return 0
        self.end, lost = self._next[0], 1 + sum(1 for _ in self._rows)
        with self._path.open("r+b") as file:
            file.truncate(self.end)
        text = "%s: %d rows tell of what came after the last event on disk, as after a power failure: cut off"
        LOG.warning(text, self._path, lost)
        return lost

    def expect_none(self) -> None:
        """RecordError if there are rows of a node that, as far as events tell, was never started."""
        if self._next is not None:
            raise RecordError(f"records: {self._path}: {self._next[1]}: expected none, for there are no events")

    def _read(self, start: int) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Each row of the node, with where it begins."""
        content = self._path.read_bytes() if self._path.exists() else b""
        if len(content) < start:
            raise RecordError(f"records: {self._path}: {len(content)} bytes: expected at least {start}")
        self.end = len(content)
        lines = content[start:].splitlines(keepends=True)
        rows = [json.loads(line) for line in lines]
        self.scored = {row["version"] for row in rows if row["kind"] in ("evaluation", "skipped")}
        for line, row in zip(lines, rows, strict=True):
            if row["kind"] not in SHELL:
                yield start, {key: value for key, value in row.items() if key not in STAMP}
            start += len(line)


def _mend(records: Path) -> None:
    """Cuts off a row that a killed process left incomplete."""
    if not records.exists():
        return
    content = records.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        with records.open("r+b") as file:
            file.truncate(whole)
