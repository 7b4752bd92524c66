"""A cloud in the harness that dies again and again, and goes on from what is on disk."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cloud.algorithms.asynchronous import AsynchronousCloud
from cloud.build import build
from cloud.checkpoint import About, Checkpoint, digest_of
from cloud.durable import Durable
from cloud.recovery import Memory, Recovered, recover
from cloud.state import State
from common.experiment import Experiment
from common.messages import Message
from common.node import CLOUD, Effect, Measure, NodeId, Record
from common.records import Recorder, read


@dataclass
class Deaths:
    """When the process dies: with `chance` at each event, at one of `STEPS`."""

    STEPS = ("unwritten", "unperformed", "half recorded", "unsent")

    chance: float = 0.0
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(1))
    most: int = 10_000
    count: int = 0

    def draw(self) -> str | None:
        if self.count >= self.most or self.rng.random() >= self.chance:
            return None
        self.count += 1
        return str(self.rng.choice(self.STEPS))


class Mortal:
    """A node for the harness. Its records are in a file, as a shell would write them, before effects go further."""

    def __init__(self, plan: Experiment, folder: Path, deaths: Deaths) -> None:
        self.plan, self.deaths = plan, deaths
        folder.mkdir(parents=True, exist_ok=True)
        self.records = folder / "records.jsonl"
        self.checkpoint = Checkpoint(folder, folder / "transcript.bin" if plan.transcript else None)
        self._boots = 1
        if self.checkpoint.about is None:
            self.checkpoint.begin(About("test", digest_of(plan), "cloud-boot-1"))
            recovered = Recovered(build(plan, "cloud-boot-1"), Memory(), 0)
        else:
            recovered = self.recovered()
        self._live(recovered)

    @property
    def node(self) -> AsynchronousCloud:
        return self.recovery.cloud.node

    def recovered(self) -> Recovered:
        self._boots += 1
        make = partial(build, self.plan, f"cloud-boot-{self._boots}", "cloud-boot-1")
        return recover(self.checkpoint, make, self.records)

    def start(self, now: float) -> Sequence[Effect]:
        return self._performed(self.durable.start(now), now)

    def on_message(self, sender: NodeId, message: Message, now: float) -> Sequence[Effect]:
        step = self.deaths.draw()
        if step == "unwritten":
            return self._die(now)
        return self._performed(self.durable.on_message(sender, message, now), now, step)

    def on_wake(self, name: str, now: float) -> Sequence[Effect]:
        step = self.deaths.draw()
        if step == "unwritten":
            return self._die(now)
        return self._performed(self.durable.on_wake(name, now), now, step)

    def close(self) -> None:
        self.recorder.close()
        self.durable.close()

    def rows(self, kind: str) -> list[dict[str, Any]]:
        return [row for row in read(self.records) if row["kind"] == kind]

    def _live(self, recovered: Recovered) -> None:
        self.recovery = recovered
        self.recorder = Recorder(self.records, "test", CLOUD)
        for time, row in recovered.rows:
            self.recorder.append(row.kind, row.row, time)
        self.durable = Durable(recovered, self.checkpoint, self.records, 0.0)

    def _performed(self, effects: Sequence[Effect], now: float, step: str | None = None) -> Sequence[Effect]:
        if step == "unperformed":
            return self._die(now)
        rows = [effect for effect in effects if isinstance(effect, Record)]
        for row in rows[: len(rows) // 2] if step == "half recorded" else rows:
            self.recorder.append(row.kind, row.row, now)
        for effect in effects if step is None else ():  # a shell would do that later, in the background
            if isinstance(effect, Measure):
                self.recorder.append("evaluation", {"version": effect.version, "accuracy": 0.5, "loss": 1.0}, now)
        if step == "half recorded":
            with self.records.open("ab") as file:
                file.write(b'{"run": "test", "ki')
        return self._die(now) if step else effects

    def _die(self, now: float) -> Sequence[Effect]:
        before = state_of(self.node)
        self.recorder.close()
        self.durable._transcript._file.close()
        self._live(self.recovered())
        assert state_of(self.node) == before, "another state than the one that died"
        return self.start(now)


def state_of(node: AsynchronousCloud) -> str:
    """All that a cloud's node knows, to compare."""
    state = State(node.tensors.layout)
    content = state.take(node)
    return json.dumps(_whole(content, state.arrays), sort_keys=True)


def _whole(content: Any, arrays: Sequence[np.ndarray[Any, Any]]) -> Any:
    """The same with arrays in it, not their numbers: one that is shared may come back as two."""
    if isinstance(content, list):
        return [_whole(item, arrays) for item in content]
    if isinstance(content, dict):
        return {
            key: arrays[item].tobytes().hex()
            if key in ("array", "tensors") and isinstance(item, int)
            else _whole(item, arrays)
            for key, item in content.items()
        }
    return content
