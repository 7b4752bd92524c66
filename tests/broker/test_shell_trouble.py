"""The shell when the broker or the other side is in trouble: it goes on if it can, and says why if it cannot."""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import toys
from toys import Mosquitto, Place, Pupil, Stranger, Teacher, Toy, tensors, wait_for

from common.address import Address
from common.broker import HOST, free_port
from common.messages import Bye, Directive, Model, Running
from common.node import CLOUD, CONNECTED, EDGES, Halt, Send, Wake
from common.tensors import Layout

pytestmark = pytest.mark.broker
Own = Callable[..., Mosquitto]
PlaceAt = Callable[[Address], Place]


def test_a_broker_that_is_killed_and_comes_back_costs_nothing(own_broker: Mosquitto, own_place: Place) -> None:
    class Paced(Pupil):
        def reply(self, sender, message):  # type: ignore[no-untyped-def]
            time.sleep(0.02)
            return super().reply(sender, message)

    cloud, edges = Teacher(edges=2, rounds=60), [Paced(), Paced()]
    lives = [own_place.live(edge, f"edge-{number}") for number, edge in enumerate(edges)]
    lives.append(own_place.live(cloud, CLOUD))
    wait_for(lambda: len(cloud.accepted) > 20)
    own_broker.kill()
    time.sleep(0.5)
    own_broker.start()
    assert [life.end() for life in lives] == [0, 0, 0]
    assert len(set(cloud.accepted)) == len(cloud.accepted) == 120, "no update was taken twice"
    assert all(CONNECTED in node.woken for node in (cloud, *edges))
    for life in lives:
        assert [row["state"] for row in life.rows("connection")] == ["up", "down", "up"]


def test_a_broker_that_forgot_everything_is_told_the_state_of_the_run_again(
    own_broker: Mosquitto, own_place: Place
) -> None:
    cloud = Toy(Send(EDGES, Running(boot="b", digest="0" * 64)))
    own_place.joined(cloud, CLOUD)
    own_broker.kill()
    own_broker.start()
    wait_for(lambda: CONNECTED in cloud.woken)
    late = Toy()
    own_place.joined(late, "edge-1")
    wait_for(lambda: late.kinds() == ["running"])


def test_a_large_transfer_survives_the_loss_of_the_broker(own_broker: Mosquitto, own_place: Place) -> None:
    layout = Layout.of({"w": (10_000_000,)})
    cloud, edge = Toy(), Toy()
    own_place.joined(edge, "edge-1", layout=layout)
    model = Model(ticket=1, version=0, directive=Directive(), tensors=tensors(3.0, layout))
    cloud.first = (Send("edge-1", model),)
    own_place.joined(cloud, CLOUD, layout=layout)
    own_broker.kill()
    assert not edge.heard, "the transfer should have been cut"
    own_broker.start()
    wait_for(lambda: edge.heard, 30.0)
    assert edge.heard[0] == (CLOUD, model)


def test_an_edge_that_is_killed_leaves_and_comes_back_as_another_process(place: Place) -> None:
    cloud = Teacher(edges=1, rounds=10**9)
    place.joined(cloud, CLOUD)
    command = [sys.executable, toys.__file__, str(place.address), place.run, "edge-1", str(place.folder / "e.jsonl")]
    process = subprocess.Popen(command)
    try:
        wait_for(lambda: len(cloud.accepted) > 10)
    finally:
        process.kill()
        process.wait()
    killed = time.monotonic()
    wait_for(lambda: "bye" in cloud.kinds())
    assert time.monotonic() - killed < 5.0
    assert cloud.heard[-1] == ("edge-1", Bye(reason="connection lost"))
    again = Pupil()
    place.joined(again, "edge-1")
    wait_for(lambda: again.kinds().count("model") > 3)
    assert cloud.kinds().count("bye") == 1


def test_a_goodbye_is_told_once(place: Place) -> None:
    cloud = Toy()
    place.joined(cloud, CLOUD)
    edge = Toy(Send(CLOUD, Bye(reason="done", releases=3)), Halt("done"))
    assert place.live(edge, "edge-1").end() == 0
    stranger = Stranger(place.address, place.topic("edge/edge-1/status"))
    wait_for(lambda: any(b"offline" in payload for _, payload in stranger.heard))
    time.sleep(0.2)
    assert cloud.heard == [("edge-1", Bye(reason="done", releases=3))]
    stranger.leave()


def test_an_unreachable_broker_is_an_error_that_names_it_after_some_patience(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    nowhere = Address(HOST, free_port())
    life = place.live(Toy(), "edge-1", address=nowhere, patience=4.0)
    assert life.end(10.0) == 4
    reason = life.rows("failed")[0]["reason"]
    assert reason == f"broker {nowhere}: no connection: Connection refused for 4 s: expected an MQTT broker there"
    assert f"broker={nowhere} state=trying" in caplog.text


def test_a_broker_that_comes_late_is_found(place: Place, own: Own) -> None:
    late = own("allow_anonymous true")
    late.kill()
    node = Toy(Halt("here"))
    life = place.live(node, "edge-1", address=late.address, patience=20.0)
    time.sleep(0.5)
    late.start()
    assert life.end() == 0


def test_a_connection_that_stays_lost_ends_the_process(own_broker: Mosquitto, own_place: Place) -> None:
    life = own_place.joined(Toy(), "edge-1", patience_lost=1.0)
    own_broker.kill()
    assert life.end(10.0) == 4
    assert "for 1 s" in life.rows("failed")[0]["reason"]


def test_wrong_credentials_end_the_process_at_once(own: Own, place_at: PlaceAt) -> None:
    strict = own("allow_anonymous false")
    place = place_at(dataclasses.replace(strict.address, username="edge-1", password="wrong"))
    life = place.live(Toy(), "edge-1", patience=60.0)
    assert life.end(5.0) == 4
    assert (
        "not authorized: expected a user name and password, or a certificate, that it knows"
        in life.rows("failed")[0]["reason"]
    )


def test_a_forbidden_publication_is_recorded(tmp_path: Path, own: Own, place_at: PlaceAt) -> None:
    (tmp_path / "acl").write_text("topic read #\ntopic write fl/+/edge/+/status\n")
    strict = own("allow_anonymous true", f"acl_file {tmp_path}/acl")
    place = place_at(strict.address)
    life = place.joined(Toy(Send(CLOUD, Bye(reason="x")), Wake("end", 0.5)), "edge-1")
    wait_for(lambda: life.rows("dropped"))
    assert "Not authorized" in life.rows("dropped")[0]["reason"]


def test_payloads_keep_to_the_largest_packet_of_the_broker(own: Own, place_at: PlaceAt) -> None:
    small = own("allow_anonymous true", "max_packet_size 50000")
    place = place_at(small.address)
    layout = Layout.of({"w": (100_000,)})
    cloud, edge = Teacher(edges=1, rounds=3, layout=layout), Pupil(layout)
    lives = [place.live(edge, "edge-1", layout=layout), place.live(cloud, CLOUD, layout=layout)]
    assert [life.end() for life in lives] == [0, 0]
    assert len(cloud.accepted) == 3


def test_a_broker_with_tiny_packets_is_refused(own: Own, place_at: PlaceAt) -> None:
    tiny = own("allow_anonymous true", "max_packet_size 1000")
    life = place_at(tiny.address).live(Toy(), "edge-1")
    assert life.end(10.0) == 4
    assert "packets of 1000 bytes" in life.rows("failed")[0]["reason"]


@contextlib.contextmanager
def gate(behind: Address, refuse: bytes | None) -> Iterator[Address]:
    """A port that answers MQTT 5 with `refuse` (None: silence) and lets MQTT 3.1.1 through to a broker."""
    server = socket.create_server((HOST, 0))
    sockets = [server]

    def pump(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def serve(client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            first = client.recv(65536)
            if b"MQTT\x05" not in first[:12]:
                broker = socket.create_connection((behind.host, behind.port))
                sockets.append(broker)
                broker.sendall(first)
                threading.Thread(target=pump, args=(broker, client), daemon=True).start()
                pump(client, broker)
            elif refuse is not None:
                client.sendall(refuse)
                client.close()

    def listen() -> None:
        with contextlib.suppress(OSError):
            while True:
                sockets.append(server.accept()[0])
                threading.Thread(target=serve, args=(sockets[-1],), daemon=True).start()

    threading.Thread(target=listen, daemon=True).start()
    yield Address(HOST, server.getsockname()[1])
    server.shutdown(socket.SHUT_RDWR)
    for each in sockets:
        each.close()


@pytest.mark.parametrize("refuse", [b"\x20\x02\x00\x01", b"", None], ids=["told", "hung up", "silent"])
def test_a_broker_that_knows_the_older_version_only_is_spoken_to_in_it(place: Place, refuse: bytes | None) -> None:
    with gate(place.address, refuse) as old:
        cloud, edge = Teacher(edges=1, rounds=3), Pupil()
        lives = [place.live(edge, "edge-1", address=old), place.live(cloud, CLOUD, address=old)]
        assert [life.end() for life in lives] == [0, 0]
    assert len(cloud.accepted) == 3
    assert [row["state"] for row in lives[0].rows("connection")][:2] == ["downgraded", "up"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_network_thread_that_ends_does_not_go_unnoticed(place: Place) -> None:
    life = place.joined(Toy(), "edge-1")
    life.shell._link._client.disconnect()
    assert life.end(5.0) == 4
    assert "network thread: ended" in life.rows("failed")[0]["reason"]


def test_a_bug_in_a_callback_of_the_network_thread_is_raised(place: Place) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("in the network thread")

    edge = Toy()
    place.joined(edge, "edge-1")
    cloud = place.joined(Toy(), CLOUD)
    cloud.shell._link._client.on_message = cloud.shell._link._guarded(fail)
    stranger = Stranger(place.address)
    stranger.say(place.topic("edge/edge-1/up/update"), b"x")
    cloud.end(5.0)
    assert isinstance(cloud.error, ZeroDivisionError)
    wait_for(lambda: edge.kinds() == ["stop"])
    stranger.leave()


def test_a_broker_whose_answer_is_no_mqtt_is_given_up_after_some_patience(place: Place) -> None:
    with socket.create_server((HOST, 0)) as server:
        life = place.live(Toy(), "edge-1", address=Address(HOST, server.getsockname()[1]), patience=2.5)
        with server.accept()[0] as client:
            client.recv(65536)
            client.sendall(b"\x20\x01\x00")
            assert life.end(20.0) == 4
    assert "Protocol error for 2.5 s" in life.rows("failed")[0]["reason"]


def test_ctrl_c_says_goodbye_and_is_130(place: Place) -> None:
    script = (
        "import sys; from pathlib import Path; from common.address import Address; from common.mqtt import *\n"
        "from common.records import Recorder; import toys\n"
        "address, run, folder = Address.parse(sys.argv[1]), sys.argv[2], Path(sys.argv[3])\n"
        "node = toys.Toy(); node.start = lambda now: print('go', flush=True) or ()\n"
        "recorder = Recorder(folder / 'x.jsonl', run, 'edge-1')\n"
        "sys.exit(Shell(node, Identity.fresh(run, 'edge-1'), address, recorder).run())"
    )
    cloud = Toy()
    place.joined(cloud, CLOUD)
    command = [sys.executable, "-c", script, str(place.address), place.run, str(place.folder)]
    with subprocess.Popen(command, cwd=Path(toys.__file__).parent, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(10.0) == 130
    wait_for(lambda: cloud.heard)
    ((sender, bye),) = cloud.heard
    assert isinstance(bye, Bye)
    assert (sender, bye.reason, bye.failed) == ("edge-1", "interrupted", False)
    assert bye.boot is not None
