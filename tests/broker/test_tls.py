"""TLS on a real Mosquitto: what connects, and how soon and how clearly what does not connect is told."""

from __future__ import annotations

import dataclasses
import socket
import ssl
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from guarded import Guarded, certified, foreign, tls_of
from toys import Life, Place, Pupil, Teacher, Toy, wait_for

from common.access import Access
from common.address import Address, Tls
from common.broker import HOST
from common.node import CLOUD
from common.tls import context
from common.trust.folder import Folder

pytestmark = [
    pytest.mark.broker,
    # The client lets go of a socket whose handshake failed without closing it; Python closes it, and says so.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
PlaceAt = Callable[[Address], Place]
LONG = 60.0
"""Patience of nodes here: whoever ends sooner has not waited for a better time."""


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path / "certs")
    made.begin()
    for name in ("edge-0001", "edge-0002"):
        made.client(name)
    return made


def refused(place: Place, name: str, address: Address) -> str:
    """Why a node ended, which it has to do at once and with code 4."""
    began = time.monotonic()
    life = place.live(Toy(), name, address=address, patience=LONG)
    assert life.end(30.0) == 4
    assert time.monotonic() - began < 10.0
    reason = life.rows("failed")[0]["reason"]
    assert isinstance(reason, str)
    assert reason.startswith(f"broker {address}: ")
    return reason


def test_three_nodes_with_certificates_do_their_work(guarded: Guarded, place_at: PlaceAt) -> None:
    place = place_at(guarded.address)
    cloud = Teacher(edges=2, rounds=20)
    lives = [place.live(Pupil(), name, address=guarded.address_of(name)) for name in ("edge-0001", "edge-0002")]
    lives.append(place.live(cloud, CLOUD, address=guarded.address_of(CLOUD)))
    assert [life.end() for life in lives] == [0, 0, 0]
    assert len(set(cloud.accepted)) == len(cloud.accepted) == 40


def test_and_with_passwords_beside_them(folder: Folder, place_at: PlaceAt) -> None:
    for name in ("edge-0003", "edge-0004"):
        folder.password(name, None)
    guarded = Guarded(folder)
    try:
        place = place_at(guarded.address)
        cloud = Teacher(edges=2, rounds=20)
        where = dataclasses.replace(guarded.address, port=guarded.password_port)
        access = Access(folder=folder.root)
        lives = [place.live(Pupil(), name, address=access.secured(where, name)) for name in ("edge-0003", "edge-0004")]
        lives.append(place.live(cloud, CLOUD, address=guarded.address_of(CLOUD)))
        assert [life.end() for life in lives] == [0, 0, 0]
        assert len(cloud.accepted) == 40
        wrong = dataclasses.replace(access.secured(where, "edge-0003"), password="not the password")
        assert "not authorized: expected a user name and password" in refused(place, "edge-0003", wrong)
    finally:
        guarded.kill()


def test_a_certificate_of_another_authority_is_refused(guarded: Guarded, place_at: PlaceAt, tmp_path: Path) -> None:
    other = foreign(tmp_path / "other", "edge-0001")
    tls = tls_of(guarded.folder, other, "edge-0001")
    reason = refused(place_at(guarded.address), "edge-0001", dataclasses.replace(guarded.address, tls=tls))
    assert "it does not know the authority that made this certificate" in reason


def test_a_broker_of_another_authority_is_not_trusted(guarded: Guarded, place_at: PlaceAt, tmp_path: Path) -> None:
    other = foreign(tmp_path / "other", "edge-0001")
    tls = tls_of(other, guarded.folder, "edge-0001")
    reason = refused(place_at(guarded.address), "edge-0001", dataclasses.replace(guarded.address, tls=tls))
    assert "the broker's certificate is not from the authority that was given" in reason


def test_a_broker_under_another_name_is_not_trusted_until_its_certificate_holds_it(
    guarded: Guarded, place_at: PlaceAt
) -> None:
    address = guarded.address_of("edge-0001", "127.0.0.2")
    relay(guarded.port, "127.0.0.2")
    reason = refused(place_at(guarded.address), "edge-0001", address)
    assert "not for the name that it was called by: expected one that holds this name (mapa certs host NAME)" in reason
    guarded.folder.hosts(["127.0.0.2"])
    guarded.reload()
    time.sleep(0.5)
    place_at(address).joined(Toy(), "edge-0001")


def relay(port: int, host: str) -> None:
    """The same port at another address of this machine."""
    server = socket.create_server((host, port))

    def pump(source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass
        finally:
            sink.close()

    def listen() -> None:
        while True:
            client = server.accept()[0]
            broker = socket.create_connection((HOST, port))
            threading.Thread(target=pump, args=(client, broker), daemon=True).start()
            threading.Thread(target=pump, args=(broker, client), daemon=True).start()

    threading.Thread(target=listen, daemon=True).start()


def test_without_a_certificate_nobody_gets_in(guarded: Guarded, place_at: PlaceAt) -> None:
    address = dataclasses.replace(guarded.address, tls=Tls(str(guarded.folder.ca)))
    assert "it wants a certificate: expected --certs" in refused(place_at(guarded.address), "edge-0001", address)


def test_a_certificate_that_is_out_of_date_is_refused_by_the_broker(guarded: Guarded, place_at: PlaceAt) -> None:
    past = Folder(guarded.folder.root, clock=lambda: datetime.now(UTC) - timedelta(days=500))
    past.client("edge-0003")
    tls = tls_of(guarded.folder, guarded.folder, "edge-0003")
    reason = refused(place_at(guarded.address), "edge-0003", dataclasses.replace(guarded.address, tls=tls))
    assert "it finds this certificate out of date" in reason


def test_a_brokers_certificate_that_is_out_of_date_is_not_trusted(folder: Folder, place_at: PlaceAt) -> None:
    Folder(folder.root, clock=lambda: datetime.now(UTC) - timedelta(days=1000)).hosts()
    guarded = Guarded(folder)
    try:
        reason = refused(place_at(guarded.address), "edge-0001", guarded.address_of("edge-0001"))
        assert "the broker's certificate has expired: expected a new one (mapa certs host)" in reason
    finally:
        guarded.kill()


def test_who_is_revoked_while_connected_does_not_come_back(guarded: Guarded, place_at: PlaceAt) -> None:
    place = place_at(guarded.address)
    lives = {name: place.joined(Toy(), name, address=guarded.address_of(name)) for name in ("edge-0001", "edge-0002")}
    assert guarded.folder.revoke("edge-0001") == 1
    guarded.reload()
    time.sleep(0.5)
    for life in lives.values():
        life.shell._link.cut(1.0)
    assert lives["edge-0001"].end(15.0) == 4
    assert "this certificate has been revoked" in lives["edge-0001"].rows("failed")[0]["reason"]
    wait_for(lambda: [row["state"] for row in lives["edge-0002"].rows("connection")] == ["up", "down", "up"])
    guarded.folder.client("edge-0001", renew=True)
    place.joined(Toy(), "edge-0001", address=guarded.address_of("edge-0001"))


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_old_versions_of_tls_are_refused(guarded: Guarded) -> None:
    """With a control: the same client gets in with 1.2, which it gets out of the way by wanting nothing newer."""
    tls = guarded.address_of("edge-0001").tls
    assert tls is not None

    def version(newest: ssl.TLSVersion) -> str | None:
        made = context(tls)
        made.set_ciphers("ALL:@SECLEVEL=0")
        made.minimum_version, made.maximum_version = ssl.TLSVersion.MINIMUM_SUPPORTED, newest
        with (
            socket.create_connection((HOST, guarded.port)) as bare,
            made.wrap_socket(bare, server_hostname="localhost") as link,
        ):
            return link.version()

    assert version(ssl.TLSVersion.MAXIMUM_SUPPORTED) == "TLSv1.3"
    assert version(ssl.TLSVersion.TLSv1_2) == "TLSv1.2"
    with pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
        version(ssl.TLSVersion.TLSv1_1)


def test_a_broker_without_tls_is_told_apart(place: Place, folder: Folder) -> None:
    """Mosquitto just hangs up, which may be for another reason: one tries again, for a while."""
    address = Access(folder=folder.root).secured(place.address, "edge-0001")
    life = place.live(Toy(), "edge-0001", address=address, patience=3.0)
    assert life.end(15.0) == 4
    assert "does it speak TLS on this port? for 3 s" in life.rows("failed")[0]["reason"]


def test_a_port_that_speaks_something_else_is_told_apart(place: Place, folder: Folder) -> None:
    with socket.create_server((HOST, 0)) as server:

        def greet() -> None:
            client = server.accept()[0]
            client.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
            client.recv(65536)

        threading.Thread(target=greet, daemon=True).start()
        address = Access(folder=folder.root).secured(Address("localhost", server.getsockname()[1]), "edge-0001")
        assert "it does not speak TLS on this port" in refused(place, "edge-0001", address)


def twins(place: Place, address: Address) -> tuple[Life, Life]:
    first = place.joined(Toy(), "edge-0001", address=address)
    return first, place.live(Toy(), "edge-0001", address=address)


def test_a_twin_with_the_same_certificate_stops(guarded: Guarded, place_at: PlaceAt) -> None:
    first, second = twins(place_at(guarded.address), guarded.address_of("edge-0001"))
    assert second.end(30.0) == 4
    assert "edge-0001 is already running as process" in second.rows("failed")[0]["reason"]
    wait_for(lambda: first.rows("connection")[-1]["state"] == "up")
    assert first.thread.is_alive()


def test_of_two_runs_with_one_identity_the_later_gives_up(guarded: Guarded, place_at: PlaceAt) -> None:
    """They use different topics, so neither hears of the other; the broker lets one in at a time."""
    place = place_at(guarded.address)
    first = place.joined(Toy(), CLOUD, address=guarded.address_of(CLOUD))
    first.shell._vigil._up_at -= 60.0  # it has been up for long
    second = place.live(Toy(), CLOUD, address=guarded.address_of(CLOUD), run="another")
    assert second.end(120.0) == 4
    assert "expected one process for each identity" in second.rows("failed")[0]["reason"]
    wait_for(lambda: first.rows("connection")[-1]["state"] == "up")
    assert first.thread.is_alive()


def test_a_certificate_made_for_a_request_is_as_good(guarded: Guarded, place_at: PlaceAt, tmp_path: Path) -> None:
    """The key never leaves the edge's own folder."""
    away = Folder(tmp_path / "hospital")
    asked = away.request("edge-0007")
    signed = guarded.folder.sign("edge-0007", asked.read_bytes())
    (away.root / "edge-0007.crt").write_bytes(signed)
    away.ca.write_bytes(guarded.folder.ca.read_bytes())
    assert not (guarded.folder.root / "edge-0007.key").exists()
    place_at(guarded.address).joined(
        Toy(), "edge-0007", address=Access(folder=away.root).secured(guarded.address, "edge-0007")
    )


def test_a_name_of_somebody_else_does_not_help(guarded: Guarded, place_at: PlaceAt) -> None:
    """A user name beside a certificate is ignored: the identity is the certificate's."""
    place = place_at(guarded.address)
    cloud = Toy()
    place.joined(cloud, CLOUD, address=guarded.address_of(CLOUD))
    posing = dataclasses.replace(certified(guarded, "edge-0002"), username="edge-0001", password="whatever it is")
    life = place.joined(Toy(), "edge-0001", address=posing)
    wait_for(lambda: life.rows("dropped"))
    assert "Not authorized" in life.rows("dropped")[0]["reason"]
    assert cloud.heard == []
