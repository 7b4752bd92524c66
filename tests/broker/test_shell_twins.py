"""Two processes under one id: the one that started first stays, the other one is told and stops."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from toys import Mosquitto, Place, Pupil, Stranger, Teacher, Toy, wait_for

from common.address import Address
from common.broker import HOST
from common.messages import Report
from common.node import CLOUD, Halt, Send
from common.presence import Presence

pytestmark = pytest.mark.broker
Own = Callable[..., Mosquitto]
PlaceAt = Callable[[Address], Place]


@pytest.mark.parametrize("name", ["edge-1", CLOUD])
def test_a_second_process_with_the_same_id_is_told_and_stops(place: Place, name: str) -> None:
    first = place.joined(Toy(), name)
    node = Toy()
    second = place.live(node, name)
    assert second.end(10.0) == 4
    assert not node.started
    reason = second.rows("failed")[0]["reason"]
    assert (
        reason == f"{name} is already running as process {first.shell.identity.boot}: expected one process for each id"
    )
    assert first.thread.is_alive()
    watcher = Stranger(place.address, first.shell._topics.status)
    wait_for(lambda: watcher.heard)
    assert Presence.decode(watcher.heard[-1][1]) == Presence(state="online", boot=first.shell.identity.boot)
    watcher.leave()


def test_an_edge_that_works_is_not_disturbed_by_a_twin(place: Place) -> None:
    cloud, pupil = Teacher(edges=1, rounds=600), Pupil()
    lives = [place.live(pupil, "edge-1"), place.live(cloud, CLOUD)]
    wait_for(lambda: len(cloud.accepted) > 10)
    assert place.live(Toy(), "edge-1").end(10.0) == 4
    assert [life.end(60.0) for life in lives] == [0, 0]
    assert cloud.kinds().count("hello") == 1
    assert "bye" not in cloud.kinds()


def test_two_that_start_in_the_same_moment_sort_it_out(place: Place) -> None:
    lives = [place.live(Toy(), "edge-1") for _ in range(3)]
    wait_for(lambda: sum(life.thread.is_alive() for life in lives) == 1, 15.0)
    time.sleep(0.5)
    assert [life.code for life in lives] == [None, 4, 4]


def test_a_process_that_the_broker_still_believes_in_does_not_keep_its_successor_out(place: Place) -> None:
    """A connection that is half open: its `online` is retained, it answers no question, and at last its will comes."""
    status = place.topic("edge/edge-1/status")
    ghost = Stranger(place.address, will=(status, Presence(state="offline", boot="0001").encode()))
    ghost.say(status, Presence(state="online", boot="0001").encode(), retain=True)
    node = Toy()
    life = place.live(node, "edge-1")
    time.sleep(1.0)
    assert not node.started
    assert life.thread.is_alive()
    ghost.vanish()
    wait_for(lambda: node.started)


@pytest.mark.parametrize("name", ["edge-1", CLOUD])
def test_a_process_that_is_ended_before_it_joined_does_not_speak_for_an_earlier_one(place: Place, name: str) -> None:
    status = place.topic("cloud/status" if name == CLOUD else f"edge/{name}/status")
    up = Presence(state="online", boot="0001").encode()
    earlier = Stranger(place.address, place.topic("public/+"), place.topic("edge/+/up/+"))
    earlier.say(status, up, retain=True)
    life = place.live(Toy(), name)
    wait_for(lambda: life.rows("connection"))
    life.shell.interrupt()
    life.thread.join(10.0)
    assert not life.shell.node.started  # type: ignore[attr-defined]
    assert life.rows("failed")[0]["reason"] == "interrupted"
    mark = place.topic("public/mark")
    earlier.say(mark, b"")
    wait_for(lambda: earlier.heard)
    assert earlier.heard == [(mark, b"")]
    watcher = Stranger(place.address, status)
    wait_for(lambda: watcher.heard)
    assert watcher.heard == [(status, up)]
    for one in (earlier, watcher):
        one.leave()


def test_a_clean_end_and_a_kill_free_the_id_at_once(place: Place) -> None:
    for _ in range(3):
        began = time.monotonic()
        assert place.live(Toy(Halt("done")), "edge-1").end() == 0
        assert time.monotonic() - began < 3.0


def test_twins_that_cut_each_other_off_end_with_the_later_ones_stop(own: Own, place_at: PlaceAt) -> None:
    """With one connection for each user name the broker itself throws the earlier one out, again and again."""
    broker = own("allow_anonymous true", "use_username_as_clientid true")
    place = place_at(dataclasses.replace(broker.address, username="edge-1", password="x"))
    first = place.joined(Toy(), "edge-1")
    second = place.live(Toy(), "edge-1")
    assert second.end(30.0) == 4
    assert "already running" in second.rows("failed")[0]["reason"]
    time.sleep(2.5)
    assert first.thread.is_alive()
    assert first.rows("connection")[-1]["state"] == "up"
    watcher = Stranger(dataclasses.replace(broker.address, username="watcher"), place.topic("edge/edge-1/status"))
    wait_for(lambda: watcher.heard)
    assert Presence.decode(watcher.heard[-1][1]).boot == first.shell.identity.boot
    watcher.leave()


@contextlib.contextmanager
def newer(behind: Address) -> Iterator[Address]:
    """A broker as version 2.1 is: whoever is thrown out is told so, by "session taken over", before the end."""
    server = socket.create_server((HOST, 0))
    sockets = [server]

    def pump(source: socket.socket, sink: socket.socket, last: bytes) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
            sink.sendall(last)
            sink.shutdown(socket.SHUT_WR)

    def listen() -> None:
        with contextlib.suppress(OSError):
            while True:
                client = server.accept()[0]
                broker = socket.create_connection((behind.host, behind.port))
                sockets.extend((client, broker))
                for way in ((client, broker, b""), (broker, client, b"\xe0\x02\x8e\x00")):
                    threading.Thread(target=pump, args=way, daemon=True).start()

    threading.Thread(target=listen, daemon=True).start()
    yield dataclasses.replace(behind, port=server.getsockname()[1])
    server.shutdown(socket.SHUT_RDWR)
    for each in sockets:
        each.close()


def test_the_first_stays_also_where_the_broker_tells_it_that_it_was_taken_over(own: Own, place_at: PlaceAt) -> None:
    broker = own("allow_anonymous true", "use_username_as_clientid true")
    with newer(dataclasses.replace(broker.address, username="edge-1", password="x")) as address:
        place = place_at(address)
        first = place.joined(Toy(), "edge-1")
        second = place.live(Toy(), "edge-1")
        assert second.end(30.0) == 4
        assert "already running" in second.rows("failed")[0]["reason"]
        wait_for(lambda: first.rows("connection")[-1]["state"] == "up")
        assert "Session taken over" in {row.get("reason") for row in first.rows("connection")}
        assert first.thread.is_alive()
        place.leave()


def test_a_cloud_hears_of_the_process_that_is_there_only(place: Place) -> None:
    """The will of an earlier process that comes late does not make the present one leave."""
    cloud = Toy()
    place.joined(cloud, CLOUD)
    place.joined(Toy(Send(CLOUD, Report(iteration=1, metrics={}))), "edge-1")
    wait_for(lambda: cloud.heard)
    stranger = Stranger(place.address)
    stranger.say(place.topic("edge/edge-1/status"), Presence(state="offline", boot="0001").encode(), retain=True)
    time.sleep(0.5)
    assert cloud.kinds() == ["report"]
    stranger.leave()
