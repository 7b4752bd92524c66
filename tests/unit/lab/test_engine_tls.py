"""What keeps a deployment from an engine behind TLS: one error, with the host and the cure."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from common.broker import HOST, free_port
from common.errors import DeployError
from common.trust.folder import Folder
from lab.engine import Engine
from lab.hosts import Host

OTHER = "127.0.0.2"
"""An address of this machine that no certificate here has."""
LONG_AGO = datetime.now(UTC) - timedelta(days=900)


class Door:
    """A port that shakes hands, and then says one word or nothing to anybody."""

    def __init__(self, made: Folder, word: bytes = b"") -> None:
        self._word = word
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(made.broker / "broker.crt", made.broker / "broker.key")
        self._context.load_verify_locations(made.ca)
        self._context.verify_mode = ssl.CERT_REQUIRED
        self._listener = socket.create_server(("", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, suppress(OSError), self._context.wrap_socket(connection, server_side=True) as secured:
                if self._word:
                    secured.recv(4096)
                    secured.sendall(self._word)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)


def authority(folder: Path, now: datetime) -> Folder:
    made = Folder(folder, clock=lambda: now)
    made.begin()
    return made


@pytest.fixture
def own(tmp_path: Path) -> Folder:
    return authority(tmp_path / "own", datetime.now(UTC))


@pytest.fixture
def door(own: Folder) -> Iterator[Door]:
    found = Door(own)
    yield found
    found.close()


def told(folder: Path, port: int, at: str = HOST, *, ca: Folder, client: Folder) -> str:
    """What is said of an engine, by who trusts one authority and comes from another."""
    for source, name in (
        (ca.ca, "ca.pem"),
        (client.root / "cloud.crt", "cert.pem"),
        (client.root / "cloud.key", "key.pem"),
    ):
        (folder / name).write_bytes(source.read_bytes())
    host = Host(name="far", engine=f"tcp://{at}:{port}", tls=str(folder), edges=["edge-0001"])
    with pytest.raises(DeployError) as caught, Engine(host):
        pass
    said = str(caught.value)
    start = f"host far (tcp://{at}:{port}): "
    assert said.startswith(start)
    return said.removeprefix(start).replace(str(folder), "FOLDER")


def test_each_side_is_told_whom_the_other_does_not_trust(door: Door, own: Folder, tmp_path: Path) -> None:
    other = authority(tmp_path / "other", datetime.now(UTC))
    assert told(tmp_path, door.port, ca=other, client=own) == (
        "the engine's certificate is not from the authority in FOLDER/ca.pem: "
        "expected the ca.pem of the authority that made it"
    )
    said = told(tmp_path, door.port, ca=own, client=other)
    assert said.startswith(("it refuses FOLDER/cert.pem: ", "it hangs up on FOLDER/cert.pem without a word: "))
    assert "expected one that its authority (--tlscacert there) has made for a client" in said


def test_no_other_authority_is_trusted_though_the_environment_names_it(
    door: Door, own: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(own.ca))
    said = told(tmp_path, door.port, ca=authority(tmp_path / "other", datetime.now(UTC)), client=own)
    assert said.startswith("the engine's certificate is not from the authority in FOLDER/ca.pem: ")


def test_a_name_that_is_not_the_engines_is_told(door: Door, own: Folder, tmp_path: Path) -> None:
    said = told(tmp_path, door.port, OTHER, ca=own, client=own)
    assert said.startswith("its certificate is not for this name: expected one that holds it (subjectAltName)")


def test_certificates_out_of_date_are_told(own: Folder, tmp_path: Path) -> None:
    stale = authority(tmp_path / "stale", LONG_AGO)
    found = Door(stale)
    try:
        said = told(tmp_path, found.port, ca=stale, client=stale)
    finally:
        found.close()
    assert said.startswith("the engine's certificate has expired: expected a new one there")


@pytest.mark.parametrize("answer", [b"{}", b"[]", b"<p>"])
def test_a_server_that_is_no_engine_is_told(own: Folder, tmp_path: Path, answer: bytes) -> None:
    found = Door(own, b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(answer) + answer)
    try:
        said = told(tmp_path, found.port, ca=own, client=own)
    finally:
        found.close()
    assert said.endswith(": expected a Docker engine there")


def test_a_port_without_tls_or_without_anybody_is_told(own: Folder, tmp_path: Path) -> None:
    with socket.create_server((HOST, 0)) as plain:

        def answer() -> None:
            connection, _ = plain.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        said = told(tmp_path, plain.getsockname()[1], ca=own, client=own)
        thread.join(10)
    assert said == "it does not speak TLS on this port: expected dockerd --tlsverify, whose port is 2376 by default"
    assert told(tmp_path, free_port(), ca=own, client=own).endswith("refused: expected a Docker engine there")
