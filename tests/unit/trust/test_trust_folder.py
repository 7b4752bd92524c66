"""The folder of certificates: what is in it, who may read it, and what is not done by accident."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from common.address import Tls
from common.errors import ConfigError, RecordError
from common.tls import context, trouble_of
from common.trust import keys
from common.trust.folder import Folder
from common.trust.settings import settings

NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture(scope="session")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """One for all who only look."""
    made = Folder(tmp_path_factory.mktemp("certs"), clock=lambda: NOW)
    made.begin(["192.168.1.10", "fl.example.org"])
    made.client("edge-0001")
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path / "certs", clock=lambda: NOW)
    made.begin()
    return made


def openssl(*arguments: object) -> str:
    done = subprocess.run(["openssl", *(str(one) for one in arguments)], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_private_files_are_their_owners_and_the_rest_can_be_read(begun: Folder) -> None:
    modes = {
        str(path.relative_to(begun.root)): path.stat().st_mode & 0o777
        for path in begun.root.rglob("*")
        if path.is_file() and "issued" not in path.parts
    }
    private = {"authority/ca.key", "broker/broker.key", "broker/acl", "broker/acl.health", "cloud.key", "edge-0001.key"}
    assert {name for name, mode in modes.items() if mode == 0o600} == private
    assert {mode for name, mode in modes.items() if name not in private} == {0o644}
    assert {path.name for path in begun.root.iterdir() if path.is_dir() and path.stat().st_mode & 0o077 == 0} == {
        "authority",
        "broker",
    }
    assert not list(begun.root.rglob("*.part"))


def test_openssl_finds_the_certificates_good_for_their_purpose_only(begun: Folder) -> None:
    def verdict(purpose: str, path: Path) -> str:
        at = int((NOW + timedelta(days=1)).timestamp())
        return openssl(
            "verify", "-x509_strict", "-attime", at, "-purpose", purpose, "-crl_check", "-CRLfile",
            begun.broker / "crl.pem", "-CAfile", begun.ca, path,
        )  # fmt: skip

    assert "OK" in verdict("sslserver", begun.broker / "broker.crt")
    assert "OK" in verdict("sslclient", begun.root / "edge-0001.crt")
    assert "unsuitable certificate purpose" in verdict("sslclient", begun.broker / "broker.crt")
    assert "unsuitable certificate purpose" in verdict("sslserver", begun.root / "edge-0001.crt")


def test_the_brokers_certificate_is_for_all_its_names(begun: Folder) -> None:
    text = openssl("x509", "-in", begun.broker / "broker.crt", "-noout", "-text")
    for name in ("DNS:localhost", "IP Address:127.0.0.1", "DNS:broker,", "DNS:broker.mapa.internal"):
        assert name in text
    for name in ("IP Address:192.168.1.10", "DNS:fl.example.org", "prime256v1"):
        assert name in text


def test_a_fingerprint_is_what_openssl_shows(begun: Folder) -> None:
    shown = openssl("x509", "-in", begun.ca, "-noout", "-fingerprint", "-sha256").strip()
    assert shown.partition("=")[2] == begun.entries()[0].fingerprint


def test_an_authority_is_not_replaced_by_accident(folder: Folder) -> None:
    before = folder.ca.read_bytes()
    with pytest.raises(ConfigError, match="expected no authority here yet"):
        folder.begin()
    assert folder.ca.read_bytes() == before
    folder.client("edge-0001")
    (folder.root / "mine.key").write_text("of somebody else")
    folder.begin(replace=True)
    assert folder.ca.read_bytes() != before
    assert not (folder.root / "edge-0001.key").exists()
    assert (folder.root / "mine.key").exists()
    assert [entry.name for entry in folder.issued()] == ["cloud"]


def test_a_folder_with_somebody_elses_ca_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("not ours")
    with pytest.raises(ConfigError, match="no authority here yet"):
        Folder(tmp_path).begin()


def test_a_certificate_is_not_replaced_by_accident(folder: Folder) -> None:
    folder.client("edge-0001")
    before = (folder.root / "edge-0001.key").read_bytes()
    with pytest.raises(ConfigError, match="--renew makes a new key"):
        folder.client("edge-0001")
    assert (folder.root / "edge-0001.key").read_bytes() == before
    folder.client("edge-0001", renew=True)
    assert (folder.root / "edge-0001.key").read_bytes() != before


@pytest.mark.parametrize("name", ["broker", "Edge", "a/b", "../up", "", "#", "+", "a" * 65, "edge_1"])
def test_a_name_that_is_none_gets_nothing(folder: Folder, name: str) -> None:
    acts: list[Callable[[], object]] = [
        lambda: folder.client(name),
        lambda: folder.request(name),
        lambda: folder.password(name, None),
    ]
    for act in acts:
        with pytest.raises(ConfigError):
            act()


@pytest.mark.parametrize("host", ["", "a b", "x:8883", "mqtt://x", "*.example.org", "é.example"])
def test_a_host_that_is_none_is_refused(folder: Folder, host: str) -> None:
    with pytest.raises(ConfigError, match="a host name or an IP address"):
        folder.hosts([host])


def test_without_an_authority_nothing_is_signed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="mapa certs init makes one"):
        Folder(tmp_path).client("edge-0001")


def test_revoking_takes_every_certificate_of_a_name(folder: Folder) -> None:
    folder.client("edge-0001")
    folder.client("edge-0001", renew=True)
    folder.client("edge-0002")
    assert folder.revoke("edge-0001") == 2
    assert [(entry.name, entry.is_revoked) for entry in folder.issued()] == [
        ("cloud", False),
        ("edge-0001", True),
        ("edge-0001", True),
        ("edge-0002", False),
    ]
    folder.client("edge-0001", renew=True)
    folder.revoke("edge-0002")
    states = {(entry.name, entry.is_revoked) for entry in folder.issued()}
    assert states == {("cloud", False), ("edge-0001", True), ("edge-0001", False), ("edge-0002", True)}
    with pytest.raises(ConfigError, match="one that has a certificate or a password"):
        folder.revoke("edge-0009")


def test_the_list_of_revoked_certificates_stays_in_force_as_long_as_the_authority(folder: Folder) -> None:
    listed = x509.load_pem_x509_crl((folder.broker / "crl.pem").read_bytes())
    assert listed.next_update_utc == keys.certificate(folder.ca).not_valid_after_utc


def test_a_request_is_signed_for_its_name_and_key_only(folder: Folder, tmp_path: Path) -> None:
    asked = Folder(tmp_path / "edge").request("edge-0001").read_bytes()
    signed = x509.load_pem_x509_certificate(folder.sign("edge-0001", asked))
    held = keys.load(tmp_path / "edge" / "edge-0001.key")
    assert signed.public_key() == held.public_key()
    assert keys.name_of(signed.subject) == "edge-0001"
    with pytest.raises(ConfigError, match="expected a request for 'edge-0002'"):
        folder.sign("edge-0002", asked)
    position = len(asked) // 2
    for broken in (b"", b"\0" * 40, asked[:200], asked[:position] + b"AAAA" + asked[position + 4 :]):
        with pytest.raises(ConfigError):
            folder.sign("edge-0001", broken)


@pytest.mark.parametrize("kind", ["rsa", "p384"])
def test_a_request_with_another_kind_of_key_is_refused(folder: Folder, kind: str) -> None:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.serialization import Encoding

    key = rsa.generate_private_key(65537, 2048) if kind == "rsa" else ec.generate_private_key(ec.SECP384R1())
    builder = x509.CertificateSigningRequestBuilder().subject_name(keys.named("edge-0001"))
    with pytest.raises(ConfigError, match="curve P-256"):
        folder.sign("edge-0001", builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))


def test_dates_that_end_soon_are_told(folder: Folder) -> None:
    folder.client("edge-0001", days=20)
    folder.client("edge-0002", days=40)
    told = {entry.name: entry.warning(NOW) for entry in folder.entries()}
    assert told == {
        "authority": None,
        "broker": None,
        "cloud": None,
        "edge-0001": "expires on 2026-03-21",
        "edge-0002": None,
    }
    later = {entry.name: entry.warning(NOW + timedelta(days=21)) for entry in folder.entries()}
    assert later["edge-0001"] == "expired on 2026-03-21"
    assert later["edge-0002"] == "expires on 2026-04-10"
    assert "not valid before" in (folder.entries()[0].warning(NOW - timedelta(days=2)) or "")


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="expected to"):
        Folder(tmp_path / "file" / "certs").begin()


def test_the_settings_allow_nobody_without_an_identity() -> None:
    text = settings("/etc/m", password_port=8884)
    listeners = text.split("\nlistener ")[1:]
    assert [part.split()[0] for part in listeners] == ["8883", "8884", "1880"]
    for part in listeners[:2]:
        assert "allow_anonymous false" in part
        assert "tls_version tlsv1.2" in part
        assert "acl_file /etc/m/acl\n" in part
        assert "crlfile" in part
    assert listeners[2].startswith("1880 127.0.0.1\n")


def test_a_tls_context_checks_names_and_wants_new_versions(begun: Folder) -> None:
    made = context(Tls(str(begun.ca), str(begun.root / "edge-0001.crt"), str(begun.root / "edge-0001.key")))
    assert made.check_hostname
    assert made.verify_mode == ssl.CERT_REQUIRED
    assert made.minimum_version == ssl.TLSVersion.TLSv1_2
    assert [dict(part[0] for part in one["subject"])["commonName"][:4] for one in made.get_ca_certs()] == ["mapa"]


def test_files_that_do_not_fit_are_named(begun: Folder, tmp_path: Path) -> None:
    ca, cert, key = (str(begun.root / name) for name in ("ca.crt", "edge-0001.crt", "edge-0001.key"))
    other = str(begun.root / "cloud.key")
    garbage = tmp_path / "garbage"
    garbage.write_text("nothing")
    locked = tmp_path / "locked.key"
    locked.write_text(openssl("ec", "-in", key, "-aes128", "-passout", "pass:secret-1").partition("writing")[0])
    for tls, said in (
        (Tls(str(tmp_path / "none")), r"--ca: .*none.*No such file"),
        (Tls(str(garbage)), "--ca: .*garbage"),
        (Tls(ca, cert, other), "--key: .*cloud.key.*expected the key that .*edge-0001.crt was made for"),
        (Tls(ca, cert, str(garbage)), "--cert, --key"),
        (Tls(ca, str(tmp_path / "none"), key), "--cert, --key: .*none.*No such file"),
        (Tls(ca, cert, str(locked)), "--cert, --key: "),
    ):
        with pytest.raises(ConfigError, match=said):
            context(tls)


def test_errors_that_may_pass_are_not_called_final() -> None:
    assert trouble_of("Connection refused") is None
    assert trouble_of("[SSL: UNEXPECTED_EOF_WHILE_READING] EOF occurred in violation of protocol") is None
    found = trouble_of("[SSL: SSLV3_ALERT_CERTIFICATE_REVOKED] ssl/tls alert certificate revoked (_ssl.c:2580)")
    assert found is not None
    assert found.reason == "this certificate has been revoked"
