"""Who may do what at the broker that `mapa certs` sets up: every identity, every kind of topic, writing and reading.

A subscription that reaches too far is answered with success, so reading is judged by what is delivered. Everything is
tried on a second broker with no rules as well: there the same checks find everything allowed, so they can fail.
"""

from __future__ import annotations

import dataclasses
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from guarded import Client, Guarded
from toys import wait_for

from common.broker import mosquitto
from common.topics import Topics
from common.trust.folder import Folder

pytestmark = pytest.mark.broker

IDENTITIES = ("cloud", "edge-0001", "edge-0002", "dashboard")
TOPICS = {
    "own up": "fl/r/edge/edge-0001/up/update",
    "own report": "fl/r/edge/edge-0001/up/report",
    "own chunk": "fl/r/edge/edge-0001/up/chunk",
    "own status": "fl/r/edge/edge-0001/status",
    "own down": "fl/r/edge/edge-0001/down/model",
    "own down ack": "fl/r/edge/edge-0001/down/ack",
    "below own": "fl/r/edge/edge-0001/up/update/more",
    "beside own": "fl/r/edge/edge-0001/other",
    "public": "fl/r/public/state",
    "below public": "fl/r/public/state/more",
    "cloud status": "fl/r/cloud/status",
    "peer": "fl/r/peer/edge-0001/edge-0002",
    "peer back": "fl/r/peer/edge-0002/edge-0001",
    "peer to a third": "fl/r/peer/edge-0003/edge-0004",
    "another run": "fl/other/edge/edge-0001/up/update",
    "outside": "home/lamp",
    "system": "$SYS/broker/version",
}
_OF_ITS_OWN = {"own up", "own report", "own chunk", "own status", "another run"}
MAY_WRITE: Mapping[str, set[str]] = {
    "cloud": {"own down", "own down ack", "public", "cloud status"},
    "edge-0001": _OF_ITS_OWN | {"peer"},
    "edge-0002": {"peer back"},
    "dashboard": set(),
}
MAY_READ: Mapping[str, set[str]] = {
    "cloud": _OF_ITS_OWN | {"cloud status", "public", "system"},
    "edge-0001": {"own status", "own down", "own down ack", "public", "peer back"},
    "edge-0002": {"public", "peer"},
    "dashboard": {"own report", "own status", "public", "cloud status", "system"},
}
NO_WRITER = {"system"}
"""The broker itself writes it, on every subscription."""
WIDE = ("#", "+/#", "fl/#", "fl/+/#", "fl/+/+/+/+/+", "$SYS/broker/version", "$share/g/fl/#", "$share/g/#")


def made(place: Path) -> Folder:
    folder = Folder(place)
    folder.begin()
    for name in IDENTITIES[1:]:
        folder.client(name)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return made(tmp_path / "certs")


@pytest.fixture(scope="module", params=["our rules", "no rules"])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    broker = Guarded(made(tmp_path_factory.mktemp("certs")), is_open=request.param == "no rules")
    yield broker
    broker.kill()


def is_open(broker: Guarded) -> bool:
    return "pattern readwrite #" in (broker.folder.broker / "acl").read_text()


def allowed(table: Mapping[str, set[str]], broker: Guarded, name: str) -> set[str]:
    return set(TOPICS) - NO_WRITER if is_open(broker) else table[name] - NO_WRITER


@pytest.mark.parametrize("name", IDENTITIES)
def test_what_an_identity_may_write(broker: Guarded, name: str) -> None:
    writer = Client(broker.address_of(name))
    accepted = {kind for kind, topic in TOPICS.items() if kind not in NO_WRITER and writer.may_say(topic)}
    writer.leave()
    assert accepted == allowed(MAY_WRITE, broker, name)


@pytest.mark.parametrize("name", IDENTITIES)
def test_what_is_delivered_to_an_identity_however_it_asks(broker: Guarded, name: str) -> None:
    """Each topic by its own name, and all at once by filters that reach too far."""
    by_name, by_filter = (heard(broker, name, filters) for filters in ((*TOPICS.values(), MARK), (*WIDE, MARK)))
    expected = allowed(MAY_READ, broker, name) | (set() if is_open(broker) else MAY_READ[name] & NO_WRITER)
    assert {kind for kind, topic in TOPICS.items() if topic in by_name} == expected
    assert by_filter >= by_name
    assert {kind for kind, topic in TOPICS.items() if topic in by_filter} == expected


MARK = "fl/r/public/mark"


def heard(broker: Guarded, name: str, filters: Sequence[str]) -> set[str]:
    """The topics that reach this identity once everything has been said by those who may say it."""
    reader = Client(broker.address_of(name), *filters)
    writers = [Client(broker.address_of(other)) for other in IDENTITIES if other != name]
    for topic in TOPICS.values():
        if not topic.startswith("$"):
            [reader.may_say(topic), *(writer.may_say(topic) for writer in writers)]
    [writer.may_say(MARK) for writer in (*writers, reader)]
    wait_for(lambda: any(topic == MARK for topic, _ in reader.heard))
    time.sleep(0.1)
    for one in (reader, *writers):
        one.leave()
    return {topic for topic, _ in reader.heard}


def test_nobody_gets_in_without_an_identity(folder: Folder) -> None:
    """Neither on the port for certificates nor on the one for passwords, and in no other way."""
    folder.password("edge-0009", "a password that is long")
    broker = Guarded(folder)
    try:
        tls = dataclasses.replace(broker.address_of("cloud").tls, certificate=None, key=None)  # type: ignore[type-var]
        for port in (broker.port, broker.password_port):
            address = dataclasses.replace(broker.address, port=port, tls=tls)
            assert code_of(address) != 0
            assert code_of(dataclasses.replace(address, username="cloud")) != 0
            assert code_of(dataclasses.replace(address, username="", password="")) != 0
            assert code_of(dataclasses.replace(address, tls=None)) != 0
        known = dataclasses.replace(broker.address, port=broker.password_port, tls=tls)
        assert code_of(dataclasses.replace(known, username="edge-0009", password="a password that is long")) == 0
    finally:
        broker.kill()


def code_of(address: object) -> int:
    """What the broker says to a connection; -1 if it hangs up."""
    try:
        client = Client(address)  # type: ignore[arg-type]
    except OSError:
        return -1
    client.leave()
    return -1 if client.code is None else client.code


def test_the_health_check_sees_its_two_topics_and_nothing_else(folder: Folder) -> None:
    broker = Guarded(folder)
    try:
        health = Client(dataclasses.replace(broker.address, port=broker.health_port), "$SYS/broker/version", "fl/#")
        cloud = Client(broker.address_of("cloud"))
        assert cloud.may_say("fl/r/public/state")
        wait_for(lambda: health.heard)
        assert not health.may_say("fl/r/public/state")
        time.sleep(0.2)
        assert [topic for topic, _ in health.heard] == ["$SYS/broker/version"]
        for one in (health, cloud):
            one.leave()
    finally:
        broker.kill()


def test_a_last_will_in_the_name_of_another_is_not_delivered(folder: Folder) -> None:
    broker = Guarded(folder)
    try:
        cloud = Client(broker.address_of("cloud"), "fl/+/edge/+/status")
        address = broker.address_of("edge-0002")
        for victim in ("edge-0001", "edge-0002"):
            liar = Client(address, will=(f"fl/r/edge/{victim}/status", b"forged"))
            liar.vanish()
        wait_for(lambda: ("fl/r/edge/edge-0002/status", b"forged") in cloud.heard)
        assert [topic for topic, _ in cloud.heard] == ["fl/r/edge/edge-0002/status"]
        cloud.leave()
    finally:
        broker.kill()


def test_a_client_id_of_somebody_else_cuts_nobody_off(folder: Folder) -> None:
    broker = Guarded(folder)
    try:
        victim = Client(broker.address_of("edge-0001"), "fl/r/public/+")
        liar = Client(broker.address_of("edge-0002"), client_id="edge-0001")
        assert not liar.may_say("fl/r/edge/edge-0001/up/update")
        cloud = Client(broker.address_of("cloud"))
        cloud.may_say("fl/r/public/state")
        wait_for(lambda: victim.heard)
        assert victim.cuts == 0
        for one in (victim, liar, cloud):
            one.leave()
    finally:
        broker.kill()


def test_the_rules_cover_every_topic_of_the_shell() -> None:
    """A node must be able to read all that it subscribes to, and to say what its role says."""
    for name in ("cloud", "edge-0001"):
        for pattern in Topics("r", name).subscriptions:
            kinds = {kind for kind, topic in TOPICS.items() if matches(pattern, topic)}
            assert kinds
            assert kinds <= MAY_READ[name]


def matches(pattern: str, topic: str) -> bool:
    parts, levels = pattern.split("/"), topic.split("/")
    return len(parts) == len(levels) and all(one in ("+", level) for one, level in zip(parts, levels, strict=True))


def test_the_settings_are_read_without_a_complaint(folder: Folder) -> None:
    broker = Guarded(folder)
    broker.kill()
    program = mosquitto()
    assert program is not None
    process = subprocess.Popen([program, "-c", str(broker.settings)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    time.sleep(1.0)
    process.terminate()
    said = process.communicate()[0].decode()
    assert "Error" not in said
    warnings = {line.partition("Warning: ")[2] for line in said.splitlines() if "Warning" in line}
    known = {  # the first is ours, who run it as root here; the second does no harm: that rule is for everybody
        "Mosquitto should not be run as root/administrator.",
        "ACL pattern 'fl/+/public/+' does not contain '%c' or '%u'.",
    }
    assert warnings <= known
