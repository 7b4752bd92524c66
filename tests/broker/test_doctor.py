"""`mapa doctor` on a real Mosquitto: every step that can fail is made to fail, and named with its cure."""

from __future__ import annotations

import dataclasses
import socket
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from guarded import Client, Guarded, foreign
from test_shell_trouble import gate
from toys import Mosquitto, Place, Toy, wait_for

from common.access import Access
from common.address import Address
from common.broker import HOST, free_port
from common.messages import Running
from common.node import CLOUD, EDGES, Send
from common.trust.folder import Folder
from lab.__main__ import main
from lab.doctor import Patient, examine

pytestmark = [
    pytest.mark.broker,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # as in test_tls
]
Own = Callable[..., Mosquitto]
PlaceAt = Callable[[Address], Place]
STEPS = ["files", "name", "port", "TLS", "login", "version", "packets", "publish", "subscribe", "clock"]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path / "certs")
    made.begin()
    made.client("edge-0001")
    return made


def patient_of(address: Address, folder: Folder | None = None, name: str = "edge-0001", **more: object) -> Patient:
    access = Access() if folder is None else Access(folder=folder.root)
    return dataclasses.replace(Patient(address, access, name, patience=4.0), **more)  # type: ignore[arg-type]


def examined(patient: Patient) -> list[list[str]]:
    """Verdict, step and text of each line."""
    lines: list[str] = []
    verdict = examine(patient, lines.append)
    found = [line.split(maxsplit=2) for line in lines]
    assert verdict == all(line[0] == "ok" for line in found)
    return found


def failure(patient: Patient) -> tuple[str, str]:
    """The step that failed, the last one looked at, and what was said of it."""
    *before, (verdict, step, text) = examined(patient)
    assert verdict == "failed"
    assert all(line[0] == "ok" for line in before)
    assert ": expected " in text
    return step, text


@pytest.mark.parametrize("name", [CLOUD, "edge-0001"])
def test_a_healthy_node_passes_every_step_and_leaves_nothing_behind(guarded: Guarded, name: str) -> None:
    found = examined(patient_of(guarded.address, guarded.folder, name))
    assert [(line[0], line[1]) for line in found] == [("ok", step) for step in STEPS]
    watcher = Client(guarded.address_of(CLOUD), "fl/+/edge/+/status", "fl/+/cloud/status", "fl/+/public/+")
    assert watcher.may_say("fl/r/public/mark")
    wait_for(lambda: watcher.heard)
    assert [topic for topic, _ in watcher.heard] == ["fl/r/public/mark"]
    watcher.leave()


def test_the_command_says_so_and_gives_the_exit_code(
    guarded: Guarded, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    where = ["doctor", "--broker", str(guarded.address), "--certs", str(guarded.folder.root)]
    assert main([*where, "--as", "edge-0001"]) == 0
    assert capsys.readouterr().out.count("ok  ") == len(STEPS)
    assert main([*where, "--as", "edge-0002"]) == 4
    assert capsys.readouterr().out.startswith("failed  files ")
    monkeypatch.setenv("MQTT_HOST", "localhost")
    monkeypatch.setenv("MQTT_PORT", str(guarded.port))
    monkeypatch.setenv("MQTT_CERTS", str(guarded.folder.root))
    assert main(["doctor"]) == 0
    monkeypatch.delenv("MQTT_HOST")
    assert main(["doctor"]) == 2
    assert main(["doctor", "--broker", "x", "--as", "No Name"]) == 2


def test_plain_text_on_this_machine(own_broker: Mosquitto) -> None:
    found = examined(patient_of(own_broker.address))
    assert [line[1] for line in found] == [step for step in STEPS if step != "TLS"]
    assert failure(patient_of(Address("fl.example.org")))[0] == "files"


def test_files(guarded: Guarded, tmp_path: Path) -> None:
    for path, said in (("edge-0001.key", "edge-0001.key"), ("ca.crt", "a folder with ca.crt")):
        (guarded.folder.root / path).rename(tmp_path / path)
        step, text = failure(patient_of(guarded.address, guarded.folder))
        assert step == "files"
        assert said in text
    old = Folder(tmp_path / "old", clock=lambda: datetime.now(UTC) - timedelta(days=400))
    old.begin()
    assert failure(patient_of(guarded.address, old, CLOUD))[1].count("expired on") == 1


def test_name(folder: Folder) -> None:
    step, text = failure(patient_of(Address("nowhere.invalid"), folder))
    assert step == "name"
    assert text.startswith("nowhere.invalid: ")


def test_port(folder: Folder) -> None:
    step, text = failure(patient_of(Address("localhost", free_port()), folder))
    assert (step, "refused" in text, "firewall" in text) == ("port", True, True)


def test_tls(guarded: Guarded, own_broker: Mosquitto, tmp_path: Path) -> None:
    other = foreign(tmp_path / "other", "edge-0001")
    cases = [
        (patient_of(guarded.address, other), "not from the authority that was given"),
        (patient_of(dataclasses.replace(guarded.address, host=HOST), guarded.folder), None),
        (patient_of(own_broker.address, guarded.folder), "speaks TLS there"),
    ]
    for patient, said in cases:
        if said is None:
            assert [line[0] for line in examined(patient)] == ["ok"] * len(STEPS)
            continue
        step, text = failure(patient)
        assert step == "TLS"
        assert said in text
    Folder(guarded.folder.root, clock=lambda: datetime.now(UTC) - timedelta(days=1000)).hosts()
    guarded.reload()
    wait_for(lambda: examined(patient_of(guarded.address, guarded.folder))[-1][1] == "TLS")
    assert "has expired" in failure(patient_of(guarded.address, guarded.folder))[1]


def test_a_wrong_name_in_the_brokers_certificate(guarded: Guarded) -> None:
    """`localhost` is in every certificate; a name of this machine that is not, comes from the hosts file or nowhere."""
    address = dataclasses.replace(guarded.address, host="127.0.0.3")
    server = socket.create_server(("127.0.0.3", guarded.port))

    def pass_on() -> None:
        while True:
            client = server.accept()[0]
            broker = socket.create_connection((HOST, guarded.port))
            for source, sink in ((client, broker), (broker, client)):
                threading.Thread(target=pump, args=(source, sink), daemon=True).start()

    threading.Thread(target=pass_on, daemon=True).start()
    step, text = failure(patient_of(address, guarded.folder))
    assert step == "TLS"
    assert "not for the name that it was called by" in text


def pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            sink.sendall(data)
    except OSError:
        pass
    finally:
        sink.close()


def test_login(guarded: Guarded, own: Own, tmp_path: Path) -> None:
    guarded.folder.revoke("edge-0001")
    guarded.reload()
    wait_for(lambda: examined(patient_of(guarded.address, guarded.folder))[-1][0] == "failed")
    step, text = failure(patient_of(guarded.address, guarded.folder))
    assert step == "login"
    assert "this certificate has been revoked" in text
    strict = own("allow_anonymous false")
    secret = tmp_path / "secret"
    secret.write_text("a wrong password\n")
    step, text = failure(patient_of(strict.address, access=Access(password=secret)))
    assert (step, "not authorized" in text) == ("login", True)
    with socket.create_server((HOST, 0)) as server:  # accepts, and never says a word
        address = Address(HOST, server.getsockname()[1])
        assert failure(patient_of(address, patience=1.0))[0] == "login"


def test_version(own_broker: Mosquitto) -> None:
    with gate(own_broker.address, b"") as old:
        found = examined(patient_of(old, patience=15.0))
    assert ["MQTT 3.1.1" in line[2] for line in found if line[1] == "version"] == [True]


def test_packets(own: Own) -> None:
    step, text = failure(patient_of(own("allow_anonymous true", "max_packet_size 1000").address))
    assert (step, "packets of 1000 bytes at most" in text) == ("login", True)
    found = examined(patient_of(own("allow_anonymous true", "max_packet_size 50000").address))
    assert [line[2] for line in found if line[1] == "packets"] == ["up to 49,488 bytes of payload"]


def test_publish_and_subscribe(tmp_path: Path, own: Own) -> None:
    rules = tmp_path / "acl"
    for rule, step in (("topic read #", "publish"), ("topic write #", "subscribe")):
        rules.write_text(f"{rule}\n")
        broker = own("allow_anonymous true", f"acl_file {rules}")
        found, text = failure(patient_of(broker.address))
        assert found == step
        assert "the right of edge-0001" in text


def test_clock(own_broker: Mosquitto, own_place: Place) -> None:
    own_place.joined(Toy(Send(EDGES, Running(boot="b", digest="0" * 64))), CLOUD)
    patient = patient_of(own_broker.address, run=own_place.run)
    assert examined(patient)[-1][0] == "ok"
    late = dataclasses.replace(patient, clock=lambda: datetime.now(UTC) - timedelta(minutes=10))
    step, text = failure(late)
    assert step == "clock"
    assert "s behind the cloud's: expected the right time" in text
    step, text = failure(dataclasses.replace(patient, run="another-run"))
    assert (step, "its cloud has said nothing" in text) == ("clock", True)
