"""The shell on a real broker: what it carries, what it refuses, how it ends."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from toys import LAYOUT, Place, Pupil, Stranger, Teacher, Toy, tensors, wait_for

from common.address import Protocol
from common.errors import BudgetExhausted
from common.messages import Bye, Directive, Message, Model, Refusal, Report, Running, Stop
from common.node import CLOUD, EDGES, INTERRUPTED, Effect, Halt, Measure, NodeId, Record, Send, Wake
from common.tensors import Layout, Tensors
from common.wire import Envelope, encode

pytestmark = pytest.mark.broker


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_three_edges_do_each_piece_of_work_once(place: Place, protocol: Protocol) -> None:
    address = dataclasses.replace(place.address, protocol=protocol)
    cloud = Teacher(edges=3, rounds=40)
    pupils = [Pupil() for _ in range(3)]
    edges = [place.live(pupil, f"edge-{number}", address=address) for number, pupil in enumerate(pupils)]
    first = place.live(cloud, CLOUD, address=address)
    assert first.end() == 0
    assert [edge.end() for edge in edges] == [0, 0, 0]
    assert len(set(cloud.accepted)) == len(cloud.accepted) == 120
    assert all(value == ticket + 1.0 for _, ticket, value in cloud.accepted)
    assert all(pupil.kinds().count("model") == 40 for pupil in pupils)
    assert first.rows("end")[0]["reason"] == "done"
    assert first.rows("connection")[0]["protocol"] == protocol


def test_twelve_megabytes_go_both_ways(place: Place) -> None:
    layout = Layout.of({"w": (3_000_000,)})
    cloud, edge = Teacher(edges=1, rounds=3, layout=layout), Pupil(layout)
    lives = [place.live(edge, "edge-1", layout=layout), place.live(cloud, CLOUD, layout=layout)]
    assert [life.end() for life in lives] == [0, 0]
    assert cloud.accepted == [("edge-1", ticket, ticket + 1.0) for ticket in (1, 2, 3)]


def test_a_second_delivery_is_not_a_second_message(place: Place) -> None:
    cloud = Toy()
    place.joined(cloud, CLOUD)
    stranger = Stranger(place.address)
    for number in (1, 1, 2, 1, 2):
        report = Report(iteration=number, metrics={})
        stranger.say(place.topic("edge/edge-1/up/report"), encode(Envelope(place.run, "b", number, 0.0, report)))
    wait_for(lambda: len(cloud.heard) >= 2)
    stranger.say(place.topic("edge/edge-1/up/report"), encode(Envelope(place.run, "b", 3, 0.0, report)))
    wait_for(lambda: len(cloud.heard) >= 3)
    assert len(cloud.heard) == 3
    stranger.leave()


def bad_model(place: Place) -> dict[str, bytes]:
    """Payloads that no node may ever see, and why."""
    nan = np.full(100, np.nan, dtype=np.float32)
    good = Model(ticket=1, version=0, directive=Directive(), tensors=tensors(1.0))
    wrong = Model(ticket=1, version=0, directive=Directive(), tensors=tensors(1.0, Layout.of({"w": (10,)})))
    poison = Model(ticket=1, version=0, directive=Directive(), tensors=Tensors(LAYOUT, nan))
    return {
        "payload": b"{}",
        "header": b"\x00" * 7 + b"\x7f{}",
        "JSON": (9).to_bytes(8, "little") + b'{"a": NaN' + bytes(90),
        "run": encode(Envelope("another", "b", 1, 0.0, good)),
        "finite": encode(Envelope(place.run, "b", 2, 0.0, poison)),
        "tensors": encode(Envelope(place.run, "b", 3, 0.0, wrong)),
    }


def test_the_cloud_refuses_what_is_no_message_and_tells_the_sender(place: Place) -> None:
    cloud = Toy()
    life = place.joined(cloud, CLOUD)
    senders = {reason: Toy() for reason in bad_model(place)}
    names = {reason: f"edge-{number}" for number, reason in enumerate(senders)}
    for reason, toy in senders.items():
        place.joined(toy, names[reason])
    stranger = Stranger(place.address)
    for reason, payload in bad_model(place).items():
        stranger.say(place.topic(f"edge/{names[reason]}/up/model"), payload)
    stranger.say(place.topic("edge/edge-0/up/chunk"), b"MC1\n" + bytes(100))
    stranger.say(place.topic("edge/edge-0/status"), b"hello")
    for reason, toy in senders.items():
        wait_for(lambda toy=toy: toy.heard)
        sender, refusal = toy.heard[0]
        assert sender == CLOUD
        assert isinstance(refusal, Refusal)
        assert reason in refusal.reason
    assert cloud.heard == []
    assert {row["sender"] for row in life.rows("dropped")} == set(names.values())
    stranger.leave()


def test_an_edge_drops_and_records_what_is_no_message(place: Place) -> None:
    edge = Toy()
    life = place.joined(edge, "edge-1")
    stranger = Stranger(place.address)
    for payload in bad_model(place).values():
        stranger.say(place.topic("edge/edge-1/down/model"), payload)
    stranger.say(place.topic("edge/edge-1/down/stop"), encode(Envelope(place.run, "b", 9, 0.0, Stop(reason="done"))))
    assert life.end() == 0
    assert edge.kinds() == ["stop"]
    assert [row["sender"] for row in life.rows("dropped")] == [CLOUD]
    stranger.leave()


def test_a_flood_of_garbage_costs_one_row_a_second(place: Place) -> None:
    cloud = Toy()
    life = place.joined(cloud, CLOUD)
    stranger = Stranger(place.address, place.topic("edge/edge-1/down/+"))
    for _ in range(500):
        stranger.say(place.topic("edge/edge-1/up/update"), b"garbage")
    wait_for(lambda: life.rows("dropped"))
    assert len(life.rows("dropped")) <= 5
    assert len(stranger.heard) <= 5
    stranger.leave()


def test_an_edge_that_joins_after_the_end_is_told_so(place: Place) -> None:
    cloud = place.live(
        Toy(Send(EDGES, Running(boot="b", digest="0" * 64)), Send(EDGES, Stop(reason="over")), Halt("x")), CLOUD
    )
    assert cloud.end() == 0
    late = Toy()
    assert place.live(late, "edge-1").end() == 0
    assert late.heard == [(CLOUD, Stop(reason="over"))]


def test_presence_tells_who_is_there(place: Place) -> None:
    edge = Toy(Wake("end", 0.5))
    edge.wake = lambda _name: [Halt("done")]  # type: ignore[method-assign]
    watcher = Stranger(place.address, place.topic("edge/+/status"))
    life = place.live(edge, "edge-1")
    assert life.end() == 0
    wait_for(lambda: len(watcher.heard) == 2)
    boot = life.shell.identity.boot
    assert [payload for _, payload in watcher.heard] == [
        f'{{"state": "{state}", "boot": "{boot}"}}'.encode() for state in ("online", "offline")
    ]
    watcher.leave()


class Slow(Toy):
    """Answers every wake-up "again" with the next, and counts."""

    def wake(self, name: str) -> Sequence[Effect]:
        if name == "end":
            return [Halt("done", exit_code=7)]
        return [Wake("again", 0.01), Record("tick", {"count": self.woken.count("again")})]


def test_wake_ups_records_and_the_exit_code(place: Place) -> None:
    life = place.live(Slow(Wake("again", 0.0), Wake("end", 9.0), Wake("end", 0.4)), "edge-1")
    assert life.end(5.0) == 7
    counts = [row["count"] for row in life.rows("tick")]
    assert counts == list(range(1, len(counts) + 1))
    assert len(counts) > 5
    assert {(row["run"], row["node"]) for row in life.rows("tick")} == {(place.run, "edge-1")}


def test_measurements_use_the_values_of_their_moment_and_none_of_the_last_is_lost(place: Place) -> None:
    flat = np.zeros(LAYOUT.size, dtype=np.float32)

    class Cloud(Toy):
        def wake(self, name: str) -> Sequence[Effect]:
            flat[:] += 1.0
            measure = Measure(int(flat[0]), Tensors(LAYOUT, flat))
            return [measure, Halt("done")] if flat[0] == 4 else [measure, Wake("more", 0.0)]

    gate = threading.Event()
    threading.Timer(0.5, gate.set).start()
    life = place.live(
        Cloud(Wake("more", 0.0)), CLOUD, evaluate=lambda given: {"loss": float(given.flat.mean()) * gate.wait(9)}
    )
    assert life.end() == 0
    found = {row["version"]: row["loss"] for row in life.rows("evaluation")}
    assert found == {version: float(version) for version in (1, 2, 3, 4)}


def test_an_evaluation_that_fails_ends_the_process(place: Place) -> None:
    def fail(_: Tensors) -> dict[str, float]:
        raise ValueError("no test set")

    life = place.live(Toy(Measure(1, tensors(0.0))), CLOUD, evaluate=fail)
    life.end()
    assert isinstance(life.error, ValueError)
    assert life.rows("failed")[0]["reason"] == "ValueError: no test set"


class Failing(Toy):
    """Raises at its first message."""

    def __init__(self, error: Exception, *first: Effect) -> None:
        super().__init__(*first)
        self.error = error

    def reply(self, sender: NodeId, message: Message) -> Sequence[Effect]:
        raise self.error


def test_an_edge_that_may_not_go_on_says_bye_and_ends_with_the_errors_code(place: Place) -> None:
    cloud = Toy(Send("edge-1", Refusal(reason="go")))
    edge = place.joined(Failing(BudgetExhausted("edge-1: 5 releases: expected at most 4")), "edge-1")
    place.live(cloud, CLOUD)
    assert edge.end() == BudgetExhausted.exit_code
    wait_for(lambda: cloud.heard)
    bye = Bye(reason="edge-1: 5 releases: expected at most 4", boot=edge.shell.identity.boot, failed=True)
    assert cloud.heard == [("edge-1", bye)]
    assert edge.rows("failed")[0]["error"] == "BudgetExhausted"


def test_a_bug_in_the_cloud_stops_all_and_is_raised(place: Place) -> None:
    edge = Toy(Send(CLOUD, Report(iteration=1, metrics={})))
    cloud = place.joined(Failing(ZeroDivisionError("oh")), CLOUD)
    assert place.live(edge, "edge-1").end() == 0
    assert edge.heard == [(CLOUD, Stop(reason="ZeroDivisionError: oh", failed=True))]
    cloud.end()
    assert isinstance(cloud.error, ZeroDivisionError)


def test_a_full_disk_stops_the_run(place: Place) -> None:
    edge = place.joined(Toy(), "edge-1")
    cloud = place.live(Toy(Record("x", {})), CLOUD, path=Path("/dev/full"))
    assert cloud.end() == 6
    del edge


def test_an_interrupt_is_the_nodes_to_answer(place: Place) -> None:
    class Polite(Toy):
        def wake(self, name: str) -> Sequence[Effect]:
            return [Halt(name, exit_code=130)] if name == INTERRUPTED else []

    node = Polite()
    life = place.joined(node, CLOUD)
    life.shell.interrupt()
    assert life.end() == 130
