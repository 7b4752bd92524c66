"""A shaped line: first in, first out, each after its time; and the machine that has two of them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from common.events import Event
from common.fleet import Churn, Cycle, Device, Link, Profile
from common.line import Line
from common.machine import Machine
from common.messages import Directive, Hello, Model, Probe, Stop
from common.tensors import Layout, Tensors

EMPTY = Tensors(Layout.of({"w": (1,)}), np.zeros(1, dtype=np.float32))


def line(**link: float) -> Line[str]:
    return Line(Profile(link=Link(**link)), np.random.default_rng(3))


def model(ticket: int) -> Model:
    return Model(ticket=ticket, version=0, directive=Directive(), tensors=EMPTY)


def probe(ticket: int) -> Probe:
    return Probe(ticket=ticket, version=0, cap=1.0, bound=1.0, tensors=EMPTY)


def test_what_is_put_on_a_line_arrives_after_sending_and_latency() -> None:
    wire = line(latency=0.5, bandwidth=100.0)
    wire.put("a", 200, now=10.0)
    assert wire.due == 12.5
    assert wire.take(12.49) == []
    assert wire.take(12.5) == ["a"]
    assert wire.due == math.inf
    assert wire.newest == 12.5


def test_one_waits_for_the_other_while_it_is_sent_but_not_while_it_travels() -> None:
    wire = line(latency=5.0, bandwidth=100.0)
    for name in "abc":
        wire.put(name, 100, now=0.0)
    assert [wire.take(time) for time in (5.9, 6.0, 7.0, 8.0)] == [[], ["a"], ["b"], ["c"]]
    wire.put("later", 100, now=50.0)
    assert wire.due == 56.0, "an idle line costs nothing"


def test_without_bandwidth_a_burst_arrives_together() -> None:
    wire = line(latency=1.0)
    for name in "abc":
        wire.put(name, 10**9, now=0.0)
    assert wire.take(1.0) == ["a", "b", "c"]


def test_losses_and_jitter_delay_but_never_lose_nor_reorder() -> None:
    wire = line(latency=0.3, jitter=0.9, loss=0.4)
    sent = [f"{number}" for number in range(500)]
    for number, name in enumerate(sent):
        wire.put(name, 10, now=0.01 * number)
    got, times, now = [], [], 0.0
    while wire.due < math.inf:
        now = wire.due
        arrived = wire.take(now)
        got += arrived
        times += [now] * len(arrived)
    assert got == sent
    delays = np.array(times) - 0.01 * np.arange(500)
    assert delays.min() >= 0.03 - 1e-9
    assert delays.max() > 1.0, "the control: some were sent again more than once"


def test_an_infinite_now_empties_it() -> None:
    wire = line(latency=100.0)
    wire.put("a", 1, now=0.0)
    wire.put("b", 1, now=0.0)
    assert wire.take(math.inf) == ["a", "b"]


def test_only_new_tickets_of_known_kinds_are_work() -> None:
    machine = Machine(Profile(Device(speed=10.0)), {"model": 20.0, "probe": 100.0}, 1, "edge-0001")
    hello = Hello(digest="0" * 64, boot="b", samples=1, event=Event(mechanism="none"))
    assert machine.finish(hello, 5.0) is None
    assert machine.finish(model(1), 5.0) == 7.0
    assert machine.finish(model(1), 7.0) is None, "sent again: it was done"
    assert machine.finish(probe(2), 7.0) == 17.0
    assert machine.finish(model(1), 17.0) is None
    assert Machine(Profile(Device(speed=10.0)), {}, 1, "edge-0001").finish(model(1), 0.0) is None


def test_a_stop_is_the_end_of_leaving() -> None:
    machine = Machine(Profile(), {}, 1, "edge-0001")
    machine.finish(model(1), 0.0)
    assert not machine.is_over
    assert machine.finish(Stop(reason="done"), 0.0) is None
    machine.finish(model(2), 0.0)
    assert machine.is_over


def test_in_a_cycle_all_work_takes_its_turn() -> None:
    machine = Machine(Profile(cycle=Cycle(2.0, 0.5)), {"model": 1.0, "probe": 1e6}, 1, "edge-0001")
    assert machine.finish(model(1), 0.5) == 2.5
    assert machine.finish(probe(2), 2.5) == 4.5


def test_steps_are_counted_and_the_first_slow_one_is_told() -> None:
    machine = Machine(Profile(Device(speed=10.0)), {"model": 20.0}, 1, "edge-0001")
    assert [machine.lag(7.0, now) for now in (6.9, 7.1, 7.2, 5.0)] == [False, True, False, False]
    assert (machine.steps, machine.slower) == (4, 2)


def test_absences_follow_from_seed_and_edge_alone() -> None:
    churn = Profile(Device(speed=1.0, jitter=0.5), Link(loss=0.5), Churn(up=100.0, down=5.0))

    def habits(seed: int, edge: str, *, busy: bool) -> list[float]:
        machine = Machine(churn, {"model": 1.0}, seed, edge)
        drawn = []
        for ticket in range(1, 200):
            if busy:
                machine.finish(model(ticket), 0.0)
                machine.up.arrival(10, 0.0)
            drawn += [machine.stay(), machine.absence()]
        return drawn

    one = habits(1, "edge-0001", busy=False)
    assert habits(1, "edge-0001", busy=True) == one, "whatever else happened"
    assert habits(2, "edge-0001", busy=False) != one
    assert habits(1, "edge-0002", busy=False) != one
    assert np.mean(one[::2]) == pytest.approx(100.0, rel=0.2)
    assert np.mean(one[1::2]) == pytest.approx(5.0, rel=0.2)


def test_who_does_not_churn_stays() -> None:
    assert Machine(Profile(), {}, 1, "edge-0001").stay() == math.inf
