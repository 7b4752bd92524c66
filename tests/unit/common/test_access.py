"""How a program gets at its broker: what it needs, what it refuses, and what it says."""

from __future__ import annotations

import argparse
import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from common.access import Access, access_of, declare, is_loopback
from common.address import Address
from common.errors import ConfigError, TransportError
from common.trust.folder import Folder

FAR, HERE = Address("fl.example.org", 8883), Address("127.0.0.1", 1883)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    made = Folder(tmp_path_factory.mktemp("certs"))
    made.begin()
    made.client("edge-0001")
    made.password("edge-0002", "a long password")
    (made.root / "edge-0002.password").write_text("a long password\n")
    return made


def given(*words: str, **environment: str) -> Access:
    parser = argparse.ArgumentParser()
    declare(parser)
    return access_of(parser.parse_args(words), environment)


def test_a_folder_holds_what_each_node_needs(folder: Folder) -> None:
    access = given("--certs", str(folder.root))
    edge, other = access.secured(FAR, "edge-0001"), access.secured(FAR, "edge-0002")
    assert edge.tls is not None
    assert (edge.tls.ca, edge.tls.certificate) == (str(folder.ca), str(folder.root / "edge-0001.crt"))
    assert edge.username is None
    assert other.tls is not None
    assert other.tls.certificate is None
    assert (other.username, other.password) == ("edge-0002", "a long password")
    assert "a long password" not in repr(other)
    with pytest.raises(ConfigError, match=r"expected edge-0003.crt and edge-0003.key, or edge-0003.password there"):
        access.secured(FAR, "edge-0003")


def test_files_can_be_named_one_by_one_and_by_the_environment(folder: Folder) -> None:
    ca, cert, key = (str(folder.root / name) for name in ("ca.crt", "edge-0001.crt", "edge-0001.key"))
    named = given("--ca", ca, "--cert", cert, "--key", key)
    assert named == given(MQTT_CA=ca, MQTT_CERT=cert, MQTT_KEY=key)
    assert named.secured(FAR, "edge-0001") == given("--certs", str(folder.root)).secured(FAR, "edge-0001")
    secret = str(folder.root / "edge-0002.password")
    by_password = given("--ca", ca, MQTT_PASSWORD_FILE=secret, MQTT_USERNAME="somebody").secured(FAR, "edge-0002")
    assert (by_password.username, by_password.password) == ("somebody", "a long password")


def test_the_command_line_goes_first(folder: Folder) -> None:
    assert given("--ca", "a", MQTT_CA="b").ca == Path("a")
    assert given("--plain", MQTT_CERTS="b", MQTT_CA="c").has_tls is False
    assert given("--certs", "a", MQTT_PLAIN="1").has_tls
    assert not given(MQTT_CERTS="a", MQTT_PLAIN="1").has_tls
    with pytest.raises(ConfigError, match="no --certs and no --ca beside it"):
        given("--plain", "--ca", "a")


@pytest.mark.parametrize("words", [(), ("--certs", "a"), ("--ca", "a", "--cert", "b", "--key", "c"), ("--plain",)])
def test_it_can_be_handed_on(words: tuple[str, ...]) -> None:
    access = given(*words, "--username", "me")
    again = given(*access.arguments())
    assert again.arguments() == access.arguments()
    assert (again.has_tls, again.is_plain, again.username) == (access.has_tls, access.is_plain, "me")


def test_plain_text_stays_on_this_machine() -> None:
    for host in ("localhost", "127.0.0.1", "127.9.9.9", "::1"):
        assert given().secured(Address(host), "edge-0001") == Address(host)
    for host in ("broker", "10.0.0.7", "localhost.example.org", "0.0.0.0", "::"):
        assert not is_loopback(host)
        with pytest.raises(ConfigError, match=r"--broker: .*expected TLS on the way to another machine .*--plain"):
            given().secured(Address(host), "edge-0001")
        assert given("--plain").secured(Address(host), "edge-0001") == Address(host)
        assert given(MQTT_PLAIN="1").secured(Address(host), "edge-0001") == Address(host)


def test_the_port_follows_from_what_is_spoken() -> None:
    assert [given().port, given("--ca", "x").port, given("--plain").port] == [1883, 8883, 1883]


def test_the_certificate_of_somebody_else_is_refused_before_anything_is_sent(folder: Folder) -> None:
    ca, cert, key = (str(folder.root / name) for name in ("ca.crt", "edge-0001.crt", "edge-0001.key"))
    with pytest.raises(ConfigError, match="expected a certificate of 'edge-0002', not of 'edge-0001'"):
        given("--ca", ca, "--cert", cert, "--key", key).secured(FAR, "edge-0002")


@pytest.mark.parametrize("half", ["--cert", "--key"])
def test_half_an_identity_is_refused(folder: Folder, half: str) -> None:
    with pytest.raises(ConfigError, match="a certificate and its key, both"):
        given("--ca", str(folder.ca), half, "x").secured(FAR, "edge-0001")


def test_a_missing_half_in_the_folder_is_named(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(folder.ca.read_bytes())
    (tmp_path / "edge-0001.crt").write_bytes((folder.root / "edge-0001.crt").read_bytes())
    with pytest.raises(ConfigError, match=r"edge-0001.key.*No such file"):
        given("--certs", str(tmp_path)).secured(FAR, "edge-0001")


def test_a_missing_authority_is_named(tmp_path: Path) -> None:
    (tmp_path / "edge-0002.password").write_text("a long password")
    with pytest.raises(ConfigError, match=r"--certs: .*expected a folder with ca.crt"):
        given("--certs", str(tmp_path)).secured(FAR, "edge-0002")


def test_dates_of_the_own_certificate_are_looked_at(folder: Folder, caplog: pytest.LogCaptureFixture) -> None:
    access, now = given("--certs", str(folder.root)), datetime.now(UTC)
    with caplog.at_level(logging.WARNING):
        access.secured(FAR, "edge-0001", clock=lambda: now)
        assert caplog.text == ""
        access.secured(FAR, "edge-0001", clock=lambda: now + timedelta(days=350))
    assert "expires on" in caplog.text
    assert "mapa certs edge edge-0001 --renew" in caplog.text
    with pytest.raises(TransportError, match=r"expired on .*expected a valid one .*--renew"):
        access.secured(FAR, "edge-0001", clock=lambda: now + timedelta(days=400))
    with pytest.raises(TransportError, match=r"not valid before .*right time on this machine"):
        access.secured(FAR, "edge-0001", clock=lambda: now - timedelta(days=2))


def test_a_broker_on_this_machine_needs_nothing() -> None:
    assert given().secured(HERE, "edge-0001") == HERE
    assert given(MQTT_USERNAME="me").secured(HERE, "edge-0001").username == "me"
