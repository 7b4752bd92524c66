"""Carries effects between nodes in memory: a network with a clock of its own, in any order, with loss and repeats.

Every message goes through the real wire format. The harness behaves like the product's shell and its mailbox:
effects are encoded at once, a message is delivered at most once per process (unless `repeat` asks for copies that
the mailbox would have let through), wake-ups of one name replace each other, and nothing reaches a halted node.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

from cloud.build import Cloud
from cloud.build import build as build_cloud
from common.events import Event
from common.experiment import Experiment, edge_ids, parse
from common.messages import Answer, Bye, Message, Model, Probe, Update
from common.node import CLOUD, CONNECTED, EDGES, Effect, Halt, Measure, Node, NodeId, Record, Send, Wake
from common.privacy.ledger import Counts
from common.tensors import Layout, Tensors
from common.wire import Envelope, Limits, decode, encode
from edge.build import build as build_edge
from edge.owner import Owner

Delay = Callable[[NodeId, Message], float]


@dataclass(frozen=True)
class Faults:
    """What the network does to a message: loses it, or delivers it again a little later."""

    loss: float = 0.0
    repeat: float = 0.0


@dataclass
class Remembered:
    """A ledger that outlives the processes of its edge, in memory."""

    counts: Counter[Event] = field(default_factory=Counter)
    owner: Owner | None = None
    is_simulated: bool = False

    def open(self, owner: Owner) -> Remembered:
        assert self.owner in (None, owner), "the ledger of other records"
        self.owner = owner
        return self

    def booked(self) -> tuple[Counts, Counts]:
        return dict(self.counts), dict(self.counts)

    def write(self, event: Event, ticket: int, room: int | None = None) -> None:
        self.counts[event] += 1


@dataclass
class _Process:
    node: Node
    boot: int
    halt: Halt | None = None
    wakes: dict[str, int] = field(default_factory=dict)


@dataclass
class Pump:
    """The network and the clock. `records` holds every row as (time, node, kind, row)."""

    layout: Layout | None = None
    seed: int = 0
    latency: tuple[float, float] = (0.001, 0.001)
    faults: Faults = Faults()
    delay: Delay | None = None
    evaluate: Callable[[Tensors], Mapping[str, float]] | None = None
    now: float = 0.0
    records: list[tuple[float, NodeId, str, Mapping[str, Any]]] = field(default_factory=list)
    sent: list[tuple[float, NodeId, object, Message]] = field(default_factory=list)
    measured: list[tuple[int, np.ndarray[Any, Any]]] = field(default_factory=list)
    ledgers: dict[NodeId, Remembered] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)
        self._order = count()
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._processes: dict[NodeId, _Process] = {}
        self._boots = count(1)
        self._cut: set[NodeId] = set()
        self._retained: bytes | None = None

    # Nodes come and go

    def add(self, node_id: NodeId, node: Node) -> None:
        """Starts a node; one of the same id that ran before is gone."""
        process = self._processes[node_id] = _Process(node, next(self._boots))
        self._carry(node_id, process, node.start(self.now))
        self._tell_retained(node_id)

    def kill(self, edge: NodeId) -> None:
        """The edge's process dies; the broker tells the cloud by its last will."""
        process = self._processes.pop(edge)
        process.halt = Halt("killed", 137)
        self._send(edge, CLOUD, Bye(reason="connection lost"))

    def cut(self, node_id: NodeId) -> None:
        """Nothing reaches or leaves this node until `mend`."""
        self._cut.add(node_id)

    def mend(self, node_id: NodeId) -> None:
        """The link is up again, and the shell says so."""
        self._cut.discard(node_id)
        self._tell_retained(node_id)
        self.wake(node_id, CONNECTED)

    def wake(self, node_id: NodeId, name: str) -> None:
        """A wake-up that comes from outside."""
        process = self._processes[node_id]
        self._at(self.now, lambda: self._react(node_id, process, lambda: process.node.on_wake(name, self.now)))

    def halted(self, node_id: NodeId) -> Halt | None:
        """How the node ended; None while it runs."""
        return self._processes[node_id].halt

    # The clock

    def run(self, until: float = 1e9, stop: Callable[[], bool] = lambda: False, most: int = 1_000_000) -> None:
        """Goes on until `until`, until `stop()`, or until nothing is left to happen."""
        for _ in range(most):
            if stop() or not self._heap:
                return
            if self._heap[0][0] > until:
                self.now = until
                return
            time, _, action = heapq.heappop(self._heap)
            self.now = max(self.now, time)
            action()
        raise AssertionError(f"{most} events: the nodes never come to rest")

    def rows(self, kind: str, node: NodeId = CLOUD) -> list[Mapping[str, Any]]:
        """The rows of one kind that a node recorded, in order."""
        return [row for _, who, what, row in self.records if who == node and what == kind]

    def stamped(self) -> Iterable[dict[str, Any]]:
        """The cloud's rows as they would stand in its file."""
        for time, who, kind, row in self.records:
            if who == CLOUD:
                yield {"run": "test", "node": who, "time": time, "kind": kind, **row}

    # Inside

    def _react(self, node_id: NodeId, process: _Process, event: Callable[[], Iterable[Effect]]) -> None:
        if process.halt is None:
            self._carry(node_id, process, event())

    def _carry(self, node_id: NodeId, process: _Process, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(to, message):
                    self._send(node_id, to, message)
                case Wake(name, after):
                    self._wake_later(node_id, process, name, after)
                case Record(kind, row):
                    self.records.append((self.now, node_id, kind, dict(row)))
                case Measure(version, tensors):
                    self.measured.append((version, tensors.flat.copy()))
                    if self.evaluate is not None:
                        row = {"version": version, **self.evaluate(tensors)}
                        self.records.append((self.now, node_id, "evaluation", row))
                case Halt():
                    process.halt = effect

    def _wake_later(self, node_id: NodeId, process: _Process, name: str, after: float) -> None:
        turn = process.wakes[name] = process.wakes.get(name, 0) + 1

        def due() -> None:
            if process.wakes.get(name) == turn:
                self._react(node_id, process, lambda: process.node.on_wake(name, self.now))

        self._at(self.now + after, due)

    def _send(self, sender: NodeId, to: object, message: Message) -> None:
        self.sent.append((self.now, sender, to, message))
        payload = encode(Envelope("test", "boot", next(self._order), self.now, message))
        if to is EDGES:
            self._retained = payload
            for node_id in self._processes:
                self._tell_retained(node_id)
        elif self._rng.random() >= self.faults.loss:
            self._deliver(sender, str(to), payload)
            if self._rng.random() < self.faults.repeat:
                self._deliver(sender, str(to), payload)

    def _tell_retained(self, node_id: NodeId) -> None:
        """What is for all edges is kept by the broker, so whoever connects later gets it."""
        if node_id != CLOUD and self._retained is not None:
            self._deliver(CLOUD, node_id, self._retained)

    def _deliver(self, sender: NodeId, target: NodeId, payload: bytes) -> None:
        process = self._processes.get(target)
        if process is None or sender in self._cut or target in self._cut:
            return
        arrived = decode(payload, Limits.of(self.layout), self.layout).message
        extra = self.delay(sender, arrived) if self.delay is not None else 0.0
        due = self.now + self._rng.uniform(*self.latency) + extra
        self._at(due, lambda: self._react(target, process, lambda: process.node.on_message(sender, arrived, self.now)))

    def _at(self, time: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (time, next(self._order), action))


def check_invariants(pump: Pump) -> None:
    """What must hold of every run, whatever the network did.

    Every ticket is answered by one message and counts once; versions follow from each other; every release is in
    its edge's records, once, and in the ledger it said Bye with.
    """
    updates = pump.rows("update")
    tickets = Counter((row["edge"], row["ticket"]) for row in updates)
    assert not [key for key, times in tickets.items() if times > 1], "an update counted twice"
    numbers = [row["update"] for row in updates if row["applied"]]
    assert numbers == sorted(numbers), "updates went backwards"
    assert all(row["staleness"] >= 0 for row in updates), "an update from the future"
    _check_releases(pump)


def _check_releases(pump: Pump) -> None:
    answers: dict[tuple[NodeId, int, int], Message] = {}
    for _, sender, _, message in pump.sent:
        if isinstance(message, Update | Answer):
            key = (sender, message.ticket, message.version)
            first = answers.setdefault(key, message)
            assert first is message, f"ticket {message.ticket} of {sender} was computed twice"
    released = Counter(who for _, who, kind, _ in pump.records if kind == "release")
    assert released.total() == len(answers), "a release that was not recorded, or recorded and not sent"
    last = {who: row for _, who, kind, row in pump.records if kind == "bye" and who != CLOUD}
    for who, row in last.items():
        assert row["ledger_releases"] == row["releases"] >= released[who], f"{who} released more than its ledger holds"
    asked = Counter((to, message.ticket) for _, _, to, message in pump.sent if isinstance(message, Model | Probe))
    for (sender, ticket, _), _ in answers.items():
        assert asked[sender, ticket] >= 1, f"{sender} answered a ticket it was never given"


# Whole federations


def experiment(**changes: Any) -> Experiment:
    """A small valid experiment on the digits; `changes` are `section__key=value`, or `section=mapping` to merge."""
    content: dict[str, Any] = {
        "name": "test",
        "seed": 3,
        "data": {"name": "digits", "edges": 3},
        "model": {"name": "softmax", "l2": 0.0},
        "algorithm": {"name": "audp", "batch_size": 12, "cloud": {"radius": 30.0}},
        "privacy": {"mechanism": "gaussian", "noise_multiplier": 1.0, "randomness": "reproducible"},
        "stop": {"updates": 60},
        "evaluation": {"every": 0},
    }
    for path, value in changes.items():
        *sections, key = path.split("__")
        target = content
        for section in sections:
            target = target.setdefault(section, {})
        target[key] = value
    content["privacy"].setdefault("randomness", "reproducible")  # so that a test may be run again
    return parse(content)


def settings_for(algorithm: str) -> dict[str, Any]:
    """What an experiment with this algorithm needs besides the defaults of `experiment`."""
    if algorithm in ("csgd", "asgd"):
        edges = 1 if algorithm == "csgd" else 3
        return {
            "algorithm": {"name": algorithm, "batch_size": 12},
            "privacy": {"mechanism": "none"},
            "data__edges": edges,
        }
    return {"algorithm": {"name": algorithm, "batch_size": 12}}


def federate(
    plan: Experiment, pump: Pump, edges: int | None = None, boots: Mapping[NodeId, str] | None = None
) -> Cloud:
    """Adds the cloud and the edges of an experiment to a network; `boots`: what their processes are called."""
    cloud = build_cloud(plan, "cloud-boot-1")
    pump.layout = cloud.layout
    pump.add(CLOUD, cloud.node)
    for edge in edge_ids(plan.data.edges)[: plan.data.edges if edges is None else edges]:
        join(plan, pump, edge, boot=None if boots is None else boots[edge])
    return cloud


def join(plan: Experiment, pump: Pump, edge: NodeId, boot: str | None = None) -> None:
    """Starts one edge; its ledger goes on where an earlier process of it left off."""
    ledger = pump.ledgers.setdefault(edge, Remembered())
    name = boot or f"{edge}-boot-{len(pump.rows('start', edge)) + 1}"
    pump.add(edge, build_edge(plan, edge, name, ledger.open).node)
