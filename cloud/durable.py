"""A node that outlives its process: all that it hears is on disk before it reacts, and now and then its state.

What leaves the node are effects, and those its shell gets only after the event that led to them was written. So
whenever the process dies, `cloud.recovery` leads to a state in which everything was accepted that an edge may take for
accepted, and nothing else.

A snapshot is due after so many events, or so many bytes of them, as can be gone through in about half a second. It
waits for evaluations that are under way, since it would not hold their parameters; but not for ever.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from cloud.algorithms.asynchronous import AsynchronousCloud
from cloud.charter import RESUMED
from cloud.checkpoint import Checkpoint
from cloud.recovery import Recovered
from cloud.state import State
from cloud.transcript import SHELL
from common.errors import RecordError
from common.messages import Message
from common.node import Effect, Halt, Measure, NodeId, Record, Seconds, Wake
from common.storage import synchronise

EVENTS, BYTES = 2048, 256 * 1024**2
"""Events since a snapshot, and their bytes, after which the next one is due."""
PATIENCE = 4
"""Times as many, after which it is written though evaluations are under way."""


class Durable:
    """The cloud's node, its events and its snapshots."""

    def __init__(self, recovered: Recovered, checkpoint: Checkpoint, records: Path, began: Seconds) -> None:
        """`records`: of this node, with the rows that were missing; `began`: when this process did, in unix seconds."""
        self._node: AsynchronousCloud = recovered.cloud.node
        self._layout = recovered.cloud.layout
        self._recovered, self._memory = recovered, recovered.memory
        self._checkpoint, self._records, self._began = checkpoint, records, began
        self._transcript = checkpoint.go_on(recovered.number, recovered.end)
        self._events, self._since = recovered.events, self._transcript.size - recovered.size
        self._looked = recovered.looked
        self._tried_at = 0

    @property
    def halt(self) -> Halt | None:
        """How the node wants to end."""
        return self._memory.halt

    def start(self, now: Seconds) -> Sequence[Effect]:
        """Starts the node, or goes on: wake-ups that were due when its predecessor died are due as soon as then."""
        if not self._recovered.has_begun:
            self._memory.now = now
            self._transcript.start(now)
            return self._noted(self._node.start(now))
        effects: list[Effect] = list(self._return(now))
        if self.halt is not None:
            return [*effects, self.halt]
        now = self._advanced(now)
        self._transcript.wake(RESUMED, now)
        return [*effects, *self._noted(self._node.on_wake(RESUMED, now))]

    def on_message(self, sender: NodeId, message: Message, now: Seconds) -> Sequence[Effect]:
        """As the node."""
        now = self._advanced(now)
        self._transcript.message(sender, message, now)
        return self._noted(self._node.on_message(sender, message, now))

    def on_wake(self, name: str, now: Seconds) -> Sequence[Effect]:
        """As the node."""
        now = self._advanced(now)
        self._memory.due.pop(name, None)
        self._transcript.wake(name, now)
        return self._noted(self._node.on_wake(name, now))

    def close(self) -> None:
        """Closes the file of events; the run is over if the node is."""
        self._transcript.close(is_over=self.halt is not None)

    def _return(self, now: Seconds) -> Iterator[Effect]:
        """What the shell of the process before this one has forgotten, and a row about it."""
        recovered, memory = self._recovered, self._memory
        gone = max(0.0, now - memory.now)
        about = {
            "events": recovered.events,
            "rows": len(recovered.rows),
            "lost": recovered.lost,
            "gone": gone,
            "took": now - self._began,
        }
        yield Record("resumed", {"snapshot": recovered.number, **about})
        for version, tensors in memory.evaluating.items():
            if tensors is None:
                reason = "the cloud was restarted, and these parameters are gone"
                yield Record("skipped", {"version": version, "reason": reason})
            else:
                yield Measure(version, tensors)
        memory.evaluating = {version: None for version, tensors in memory.evaluating.items() if tensors is not None}
        for name, due in memory.due.items():
            yield Wake(name, max(0.0, due - memory.now))
        memory.due = {name: due + gone for name, due in memory.due.items()}

    def _advanced(self, now: Seconds) -> Seconds:
        """The time, which never goes back, not from one process to the next either; then a snapshot, if it is due."""
        memory = self._memory
        if self._events >= EVENTS or self._transcript.size - self._since >= BYTES:
            self._save()
        self._events += 1
        memory.now = max(now, memory.now)
        return memory.now

    def _noted(self, effects: Sequence[Effect]) -> Sequence[Effect]:
        for effect in effects:
            if isinstance(effect, Wake | Measure | Halt):
                self._memory.note(effect)
        return effects

    def _save(self) -> None:
        """Writes a snapshot, unless parameters are being evaluated; then a little later."""
        memory = self._memory
        is_urgent = self._events >= PATIENCE * EVENTS or self._transcript.size - self._since >= PATIENCE * BYTES
        if memory.evaluating and not is_urgent:
            if self._events < self._tried_at:
                return
            self._tried_at = self._events + EVENTS // 16
            self._look()
            if memory.evaluating:
                return
        try:
            synchronise(self._records)
            size = self._records.stat().st_size
        except OSError as error:
            raise RecordError(f"records: {self._records}: {error.strerror}: expected them where they were") from error
        state = State(self._layout)
        content = {"state": state.take(self._node), "now": memory.now, "due": memory.due, "records": size}
        content["evaluating"] = list(memory.evaluating)
        self._transcript = self._checkpoint.save(content, state.arrays, self._transcript)
        self._events, self._since, self._tried_at = 0, self._transcript.size, 0

    def _look(self) -> None:
        """Finds the scores in the records that have come since the last look."""
        with self._records.open("rb") as file:
            file.seek(self._looked)
            content = file.read()
        self._looked += len(content)  # rows are whole: this thread writes them
        for line in content.splitlines():
            if b'"kind":"evaluation"' in line or b'"kind":"skipped"' in line:
                row = json.loads(line)
                assert row["kind"] in SHELL
                self._memory.evaluating.pop(row["version"], None)
