"""Passwords: hashes in the broker's file, the password itself in its owner's only."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest

from common.errors import ConfigError
from common.trust import passwords
from common.trust.folder import Folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path / "certs")
    made.begin()
    return made


def test_passwords_are_in_the_brokers_file_as_hashes(folder: Folder) -> None:
    path = folder.password("edge-0001", None)
    assert path is not None
    assert path.stat().st_mode & 0o777 == 0o600
    secret = path.read_text().strip()
    assert len(secret) >= 32
    folder.password("edge-0002", "chosen by somebody")
    content = (folder.broker / "passwd").read_text()
    assert [line.partition(":")[0] for line in content.splitlines()] == ["edge-0001", "edge-0002"]
    assert secret not in content
    assert "chosen" not in content
    folder.password("edge-0001", "another password")
    assert len((folder.broker / "passwd").read_text().splitlines()) == 2
    assert folder.revoke("edge-0002") == 0
    assert "edge-0002" not in (folder.broker / "passwd").read_text()


def test_the_port_for_passwords_is_open_only_where_there_are_some(folder: Folder) -> None:
    assert "password_file" not in (folder.broker / "mosquitto.conf").read_text()
    folder.password("edge-0001", None)
    assert "password_file" in (folder.broker / "mosquitto.conf").read_text()


def test_a_hash_is_the_known_one_for_its_salt() -> None:
    """PBKDF2-HMAC-SHA512 of "password" with salt "salt", in the form that `mosquitto_passwd` writes."""
    known = passwords.line("me", "password-password", b"salt-of-12-b")
    name, _, rest = known.partition(":")
    _, kind, iterations, salt, digest = rest.split("$")
    assert (name, kind, iterations, salt) == ("me", "7", "20000", "c2FsdC1vZi0xMi1i")
    assert base64.b64decode(digest) == hashlib.pbkdf2_hmac("sha512", b"password-password", b"salt-of-12-b", 20_000)


@pytest.mark.parametrize("content", [b"", b"short\n", b"\xff\xfe" * 10])
def test_a_password_that_is_too_short_or_no_text_is_refused(content: bytes) -> None:
    with pytest.raises(ConfigError):
        passwords.cleaned(content, "file")


def test_a_password_is_the_first_line_of_its_file() -> None:
    assert passwords.cleaned(b"a long password\r\nsecond line\n", "file") == "a long password"
