"""The simulator's clock moves as the fleet says: turns, speeds, lines, absences, and what a busy edge does not hear."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from common.events import Event
from common.fleet import Churn, Device, Fleet, Link, Profile
from common.mailbox import WAITING
from common.messages import Bye, Directive, Hello, Message, Model, Refusal, Stop, Update
from common.node import CLOUD, CONNECTED, EDGES, Effect, Halt, NodeId, Record, Send, Wake
from common.tensors import Layout, Tensors
from lab.simulator import Simulator

LAYOUT = Layout.of({"w": (100,)})
EVENT = Event(mechanism="none")
WORK = {"model": 12.0}


class Cloud:
    """Hands the newest version to whoever sent an update, until there were enough."""

    def __init__(self, edges: int, updates: int) -> None:
        self.edges, self.updates, self.version = edges, updates, 0
        self.tickets: dict[NodeId, int] = {}
        self.lost: list[NodeId] = []
        self.tensors = Tensors(LAYOUT, np.zeros(100, dtype=np.float32))

    def start(self, now: float) -> Sequence[Effect]:
        return ()

    def on_message(self, sender: NodeId, message: Message, now: float) -> Sequence[Effect]:
        if isinstance(message, Bye):
            self.lost.append(sender)
            return ()
        if isinstance(message, Hello):
            self.tickets[sender] = 1
            whole = len(self.tickets) == self.edges
            return [self.model(edge) for edge in self.tickets] if whole else ()
        if not isinstance(message, Update) or message.ticket != self.tickets[sender]:
            return [self.model(sender)] if isinstance(message, Update) else ()
        row = {"edge": sender, "staleness": self.version - message.version, "time": now}
        self.version += 1
        self.tickets[sender] += 1
        if self.version == self.updates:
            return [Record("update", row), Send(EDGES, Stop(reason="done")), Halt("done")]
        return [Record("update", row), self.model(sender)]

    def model(self, edge: NodeId) -> Send:
        ticket = self.tickets[edge]
        return Send(edge, Model(ticket=ticket, version=self.version, directive=Directive(), tensors=self.tensors))

    def on_wake(self, name: str, now: float) -> Sequence[Effect]:
        return ()


class Edge:
    """One update for each model; says the last thing again on every connection and after `patience`."""

    def __init__(self, patience: float = 1e9) -> None:
        self.last: Message = Hello(digest="0" * 64, boot="b", samples=1, event=EVENT)
        self.patience, self.ticket = patience, 0
        self.woken: list[tuple[str, float]] = []

    def say(self) -> Sequence[Effect]:
        return [Send(CLOUD, self.last), Wake("repeat", self.patience)]

    def start(self, now: float) -> Sequence[Effect]:
        return self.say()

    def on_message(self, sender: NodeId, message: Message, now: float) -> Sequence[Effect]:
        if isinstance(message, Stop):
            return [Halt("told to")]
        if not isinstance(message, Model) or message.ticket <= self.ticket:
            return ()
        self.ticket = message.ticket
        self.last = Update(
            ticket=message.ticket, version=message.version, work=12.0, event=EVENT, tensors=message.tensors
        )
        return self.say()

    def on_wake(self, name: str, now: float) -> Sequence[Effect]:
        self.woken.append((name, now))
        return self.say() if name in ("repeat", CONNECTED) else ()


def simulate(
    profiles: Sequence[Profile], updates: int, patience: float = 1e9
) -> tuple[list[Mapping[str, Any]], Any, Any]:
    rows: list[Mapping[str, Any]] = []
    simulator = Simulator(7, lambda _node, kind, row, _now: rows.append(row) if kind == "update" else None)
    cloud, edges = Cloud(len(profiles), updates), [Edge(patience) for _ in profiles]
    simulator.add(CLOUD, cloud)
    for number, (edge, profile) in enumerate(zip(edges, profiles, strict=True)):
        simulator.add(f"edge-{number:04d}", edge, profile, WORK)
    assert simulator.run(200_000)
    return rows, cloud, edges


@pytest.mark.parametrize("count", [1, 2, 7, 20])
def test_edges_that_take_turns_are_as_stale_as_there_are_others(count: int) -> None:
    fleet = Fleet(cyclic=1.0)
    rows, _, _ = simulate([fleet.profile(index, count) for index in range(count)], 10 * count)
    staleness = [row["staleness"] for row in rows]
    assert staleness[:count] == list(range(count))
    assert set(staleness[count:]) == {count - 1}
    assert [row["edge"] for row in rows[count:]] == [row["edge"] for row in rows[:-count]], "always in the same order"
    assert np.allclose(np.diff([row["time"] for row in rows]), 1.0 / count), "one after the other"


def test_edges_that_do_not_take_turns_are_not() -> None:
    rows, _, _ = simulate([Profile(Device(speed=12.0 + index)) for index in range(7)], 70)
    assert len({row["staleness"] for row in rows[7:]}) > 1


def test_a_device_that_is_four_times_as_fast_makes_four_times_the_updates() -> None:
    rows, _, _ = simulate([Profile(Device(speed=48.0)), Profile(Device(speed=12.0))], 500)
    made = [sum(row["edge"] == f"edge-000{number}" for row in rows) for number in (0, 1)]
    assert made == [400, 100]


def test_latency_both_ways_is_in_every_turnaround() -> None:
    rows, _, _ = simulate([Profile(Device(speed=12.0), Link(latency=0.5))], 20)
    assert np.allclose(np.diff([row["time"] for row in rows]), 1.0 + 2 * 0.5)


def test_a_wake_up_that_comes_due_during_work_and_is_asked_for_anew_does_not_ring_twice() -> None:
    rows, _, (edge,) = simulate([Profile(Device(speed=1.0))], 5, patience=20.0)
    assert [row["time"] for row in rows] == [12.0, 24.0, 36.0, 48.0, 60.0]
    assert edge.woken == [], "each answer, 12 s apart, put the repeat off"
    _, _, (edge,) = simulate([Profile(Device(speed=1.0))], 5, patience=5.0)
    assert edge.woken == [], "as on a broker: what was due during the work is replaced by its effects"


def test_work_that_is_sent_again_is_not_done_again() -> None:
    late = Profile(Device(speed=12.0), Link(latency=2.0))
    rows, _, (edge,) = simulate([late], 10, patience=3.0)
    assert edge.woken, "the control: it asked again before the answer came"
    assert np.allclose(np.diff([row["time"] for row in rows]), 5.0)


def test_edges_come_and_go_and_the_run_ends() -> None:
    profiles = [Profile(Device(speed=12.0), Link(latency=0.01), Churn(up=5.0, down=2.0)) for _ in range(5)]
    rows, cloud, edges = simulate(profiles, 300)
    assert len(rows) == 300
    assert len(cloud.lost) > 10
    assert all(any(name == CONNECTED for name, _ in edge.woken) for edge in edges)


def test_numbers_that_are_not_finite_are_refused_as_on_a_broker() -> None:
    class Broken(Edge):
        told: list[Refusal]

        def on_message(self, sender: NodeId, message: Message, now: float) -> Sequence[Effect]:
            self.told += [message] if isinstance(message, Refusal) else []
            effects = super().on_message(sender, message, now)
            if isinstance(self.last, Update):
                bad = Tensors(LAYOUT, np.array([np.nan, np.inf] + [1e38] * 98, dtype=np.float32))
                self.last = self.last.model_copy(update={"tensors": bad})
            return [Send(CLOUD, self.last) if isinstance(each, Send) else each for each in effects]

    rows: list[tuple[NodeId, str, Mapping[str, Any]]] = []
    simulator = Simulator(7, lambda node, kind, row, _now: rows.append((node, kind, row)))
    cloud, bad, good = Cloud(2, 10), Broken(), Edge()
    bad.told = []
    for name, node in ((CLOUD, cloud), ("edge-0000", bad), ("edge-0001", good)):
        simulator.add(name, node, Profile(Device(speed=12.0)), WORK)
    assert simulator.run(2_000)
    reason = "tensors: 2 of 100 values: expected finite numbers"
    dropped = [row for row in rows if row[1] == "dropped"]
    assert dropped == [(CLOUD, "dropped", {"sender": "edge-0000", "reason": reason, "count": 1})]
    assert [message.reason for message in bad.told] == [reason]
    assert {row["edge"] for _, kind, row in rows if kind == "update"} == {"edge-0001"}


def test_what_a_busy_edge_has_no_room_for_is_dropped_as_on_a_broker() -> None:
    class Talker(Cloud):
        def on_message(self, sender: NodeId, message: Message, now: float) -> Sequence[Effect]:
            words = [Send(sender, Refusal(reason=f"{number}")) for number in range(WAITING + 2)]
            return [*super().on_message(sender, message, now), *(words if isinstance(message, Hello) else ())]

    rows: list[tuple[NodeId, str, Mapping[str, Any]]] = []
    simulator = Simulator(7, lambda node, kind, row, _now: rows.append((node, kind, row)))
    simulator.add(CLOUD, Talker(1, 3))
    simulator.add("edge-0000", Edge(), Profile(Device(speed=12.0)), WORK)
    assert simulator.run(2_000)
    reason = f"{WAITING} messages of cloud wait already: expected it to wait for an answer"
    dropped = ("edge-0000", "dropped", {"sender": CLOUD, "reason": reason, "count": 1})
    assert [row for row in rows if row[1] == "dropped"] == [dropped, dropped]
    assert len([row for row in rows if row[1] == "update"]) == 3
