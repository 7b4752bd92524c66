"""Enrolment: a key that never leaves its node, a certificate for the one who asks, and nothing for anybody else."""

from __future__ import annotations

import io
import socket
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.access import Access
from common.address import Address
from common.broker import free_port
from common.errors import ConfigError, TransportError
from common.trust import __main__ as service
from common.trust import keys
from common.trust.containers import hosts_of, node_of
from common.trust.enrolment import LARGEST, Desk, enrol
from common.trust.folder import Folder

HOST = "127.0.0.1"


class Office:
    """A desk in a thread of its own, which takes everybody for `asker`."""

    def __init__(self, folder: Folder, asker: str | None) -> None:
        self.folder, self.said = folder, list[str]()
        self.desk = Desk(folder, lambda _address: asker, self.said.append, 0, HOST)
        self.where = f"{HOST}:{self.desk.server_address[1]}"
        self.thread = threading.Thread(target=self.desk.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.desk.shutdown()
        self.desk.server_close()
        self.thread.join()


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path / "authority")
    made.begin()
    return made


@pytest.fixture
def office(folder: Folder) -> Iterator[Office]:
    made = Office(folder, "edge-0003")
    yield made
    made.close()


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where identities are put."""
    place = tmp_path / "private"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))


def test_a_node_gets_a_certificate_for_a_key_that_it_made_itself(
    office: Office, folder: Folder, tmp_path: Path
) -> None:
    public = tmp_path / "certs"
    public.mkdir()
    (public / "ca.crt").write_bytes(folder.ca.read_bytes())
    access = Access(folder=public, enrolment=office.where)
    address = access.secured(Address("broker", 8883), "edge-0003", enrol)
    assert address.tls is not None
    assert address.tls.certificate is not None
    assert address.tls.key is not None
    held = keys.certificate(Path(address.tls.certificate))
    assert keys.name_of(held.subject) == "edge-0003"
    held.verify_directly_issued_by(keys.certificate(folder.ca))
    assert Path(address.tls.key).stat().st_mode & 0o777 == 0o600
    assert Path(address.tls.key).parent.stat().st_mode & 0o777 == 0o700
    assert not list(folder.root.rglob("edge-0003*.key")), "the authority has never seen it"
    assert "enrolled edge-0003" in office.said[0]
    again = access.secured(Address("broker", 8883), "edge-0003", enrol)
    assert again.tls != address.tls


@pytest.mark.parametrize("name", ["edge-0001", "cloud", "dashboard", "edge-0003/../cloud"])
def test_a_node_gets_no_certificate_of_another(office: Office, folder: Folder, name: str) -> None:
    with pytest.raises(TransportError, match=f"edge-0003 asks for {name}: expected its own certificate"):
        enrol(office.where, name, folder.ca)
    assert [entry.name for entry in folder.issued()] == ["cloud"]


def test_an_unknown_container_gets_none(folder: Folder) -> None:
    office = Office(folder, None)
    with pytest.raises(TransportError, match="an unknown container asks for edge-0003"):
        enrol(office.where, "edge-0003", folder.ca)
    office.close()


def test_a_request_for_another_name_than_the_one_asked_for_is_refused(office: Office, folder: Folder) -> None:
    status, _ = office.desk.decide(HOST, "edge-0003", keys.request(keys.make(), "cloud"))
    assert status == 400
    status, _ = office.desk.decide(HOST, "edge-0003", b"garbage")
    assert status == 400
    assert [entry.name for entry in folder.issued()] == ["cloud"]


def test_an_answer_of_another_authority_is_not_taken(office: Office, tmp_path: Path) -> None:
    other = Folder(tmp_path / "other")
    other.begin()
    with pytest.raises(TransportError, match="no certificate of"):
        enrol(office.where, "edge-0003", other.ca)


@pytest.mark.parametrize("kind", ["another key", "another name", "nothing"])
def test_an_answer_for_something_else_is_not_taken(folder: Folder, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    name = "edge-0004" if kind == "another name" else "edge-0003"

    def lie(self: Folder, asked: str, request: bytes, days: int) -> bytes:
        del asked, days
        if kind == "nothing":
            return b""
        key = keys.make() if kind == "another key" else None
        request = keys.request(key, name) if key is not None else request
        return sign(self, name, request) if key is not None else sign_as(self, name, request)

    sign = Folder.sign

    def sign_as(folder: Folder, name: str, request: bytes) -> bytes:
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization import Encoding

        public = x509.load_pem_x509_csr(request).public_key()
        authority = folder._authority()
        return authority.client(public, name, folder._clock()).public_bytes(Encoding.PEM)  # type: ignore[arg-type]

    monkeypatch.setattr(Folder, "sign", lie)
    office = Office(folder, "edge-0003")
    expected = "no certificate of" if kind == "nothing" else "a certificate of somebody else"
    with pytest.raises(TransportError, match=expected):
        enrol(office.where, "edge-0003", folder.ca)
    office.close()


def test_nobody_there_is_told_after_some_patience(folder: Folder) -> None:
    with pytest.raises(TransportError, match=r"refused: expected edge-0003.crt and edge-0003.key in the folder"):
        enrol(f"{HOST}:{free_port()}", "edge-0003", folder.ca, patience=0.6)
    with pytest.raises(ConfigError, match="No such file"):
        enrol(f"{HOST}:{free_port()}", "edge-0003", folder.root / "none")


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.0\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"POST /edge-0003 HTTP/1.0\r\n\r\n",
        b"POST /edge-0003 HTTP/1.0\r\nContent-Length: -5\r\n\r\n",
        f"POST /edge-0003 HTTP/1.0\r\nContent-Length: {LARGEST + 1}\r\n\r\n".encode(),
        b"POST /edge-0003 HTTP/1.0\r\nContent-Length: 10\r\n\r\nshort",
    ],
)
def test_nonsense_gets_nothing_and_disturbs_nobody(office: Office, folder: Folder, said: bytes) -> None:
    with socket.create_connection(office.desk.server_address[:2]) as link:  # type: ignore[arg-type]
        link.sendall(said)
        link.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: link.recv(4096), b""))
    assert b"CERTIFICATE" not in answer
    assert b" 200 " not in answer
    enrol(office.where, "edge-0003", folder.ca)


@pytest.mark.parametrize(
    ("container", "node"),
    [
        ("mapa-edge-3.mapa_default", "edge-0003"),
        ("mapa-edge-12", "edge-0012"),
        ("mapa-cloud-1.mapa_default", "cloud"),
        ("mapa-broker-1.mapa_default", None),
        ("mapa-edge-0.mapa_default", None),
        ("other-edge-3.mapa_default", None),
        ("other-mapa-edge-3.mapa_default", None),
        ("mapa-edge-3-edge-4.mapa_default", None),
        ("mapa-edge-3x", None),
        ("", None),
    ],
)
def test_a_container_is_the_node_that_its_name_says(container: str, node: str | None) -> None:
    assert node_of(container, "mapa", 0) == node


def test_an_offset_is_added() -> None:
    assert node_of("a.b-edge-3.net", "a.b", 5) == "edge-0008"
    assert node_of("axb-edge-3.net", "a.b", 5) is None


def test_where_the_broker_is_published_is_what_its_certificate_is_for() -> None:
    assert hosts_of("192.168.1.10:8883 fl.example.org") == ["192.168.1.10", "fl.example.org"]
    assert hosts_of("127.0.0.1:, [fd00::1]:8883") == ["127.0.0.1", "fd00::1"]
    assert hosts_of("0.0.0.0:8883 8883 ") == []


@pytest.fixture
def volumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "public").mkdir()
    for name, place in {"AUTHORITY": "volume", "PUBLIC": "public", "READY": "ready"}.items():
        monkeypatch.setattr(service, name, tmp_path / place)
    return tmp_path


def test_the_service_hands_out_what_an_edge_elsewhere_needs_and_keeps_no_key(
    volumes: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert service.main(["edge", "edge-0006", "edge-0007"]) == 0
    with tarfile.open(fileobj=io.BytesIO(capfdbinary.readouterr().out)) as archive:
        modes = {one.name: (one.mode, one.uid) for one in archive.getmembers()}
    assert modes == {
        "ca.crt": (0o644, 10001),
        "edge-0006.crt": (0o644, 10001),
        "edge-0006.key": (0o600, 10001),
        "edge-0007.crt": (0o644, 10001),
        "edge-0007.key": (0o600, 10001),
    }
    assert not list((volumes / "volume").glob("edge-*.key"))
    before = (volumes / "volume" / "ca.crt").read_bytes()
    assert service.main(["edge", "edge-0006"]) == 0
    assert (volumes / "volume" / "ca.crt").read_bytes() == before, "the authority stays"
    assert service.main(["revoke", "edge-0006"]) == 0
    assert service.main(["show"]) == 0
    assert service.main(["edge", "No Name"]) == 2
    assert service.main([]) == 2
    said = capfdbinary.readouterr().err
    assert b"edge-0006: 2 revoked" in said
    assert b"revoked" in next(line for line in said.splitlines() if line.startswith(b"edge-0006 "))


def test_the_service_ends_when_the_run_is_over(volumes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = iter([True, True])
    monkeypatch.setattr(service, "anybody", lambda: next(there, False))
    monkeypatch.setattr(service, "LINGER", 0.1)
    monkeypatch.setattr(service, "PORT", 0)
    assert service.main(["serve"]) == 0
    assert (volumes / "ready").exists()
    assert (volumes / "public" / "ca.crt").read_bytes() == (volumes / "volume" / "ca.crt").read_bytes()
    assert "cafile /mosquitto/guard/ca.crt" in (volumes / "volume" / "broker" / "mosquitto.conf").read_text()
