"""`mapa certs`: what a person types, and what is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.__main__ import main


@pytest.fixture
def certs(tmp_path: Path) -> Path:
    return tmp_path / "certs"


def run(certs: Path, *words: str) -> int:
    return main(["certs", words[0], "--dir", str(certs), *words[1:]])


def test_from_nothing_to_a_fleet(certs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(certs, "init", "10.0.0.9", "--at", "/etc/mosquitto/mapa") == 0
    assert "cafile /etc/mosquitto/mapa/ca.crt" in (certs / "broker" / "mosquitto.conf").read_text()
    assert run(certs, "edge", "edge-0001", "edge-0002", "dashboard", "--days", "10") == 0
    assert run(certs, "host", "fl.example.org") == 0
    assert "10.0.0.9, fl.example.org" in capsys.readouterr().out
    assert run(certs, "revoke", "edge-0002") == 0
    assert "1 certificate revoked" in capsys.readouterr().out
    assert run(certs, "show") == 0
    shown = capsys.readouterr()
    lines = {line.split()[0]: line for line in shown.out.splitlines()}
    assert list(lines) == ["authority", "broker", "cloud", "dashboard", "edge-0001", "edge-0002"]
    assert "revoked" in lines["edge-0002"]
    assert len(lines["edge-0001"].split()[-1].split(":")) == 32
    assert "warning: edge-0001 expires on" in shown.err
    assert "mapa certs edge edge-0001 --renew" in shown.err
    assert "edge-0002" not in shown.err


def test_a_key_that_stays_at_the_edge(certs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(certs, "init")
    assert run(tmp_path / "far", "request", "edge-0001") == 0
    asked = tmp_path / "far" / "edge-0001.csr"
    assert run(certs, "edge", "edge-0001", "--csr", str(asked)) == 0
    assert (certs / "edge-0001.crt").exists()
    assert not (certs / "edge-0001.key").exists()
    assert run(certs, "edge", "edge-0001", "edge-0002", "--csr", str(asked)) == 2
    assert run(certs, "edge", "edge-0001", "--csr", str(tmp_path / "none")) == 2
    assert run(tmp_path / "far", "request", "edge-0001") == 2
    assert "No such file" in capsys.readouterr().err


def test_passwords_come_from_files(certs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(certs, "init")
    secret = tmp_path / "secret"
    secret.write_text("correct horse battery\n")
    assert run(certs, "password", "edge-0001") == 0
    assert run(certs, "password", "edge-0002", "--password-file", str(secret)) == 0
    shown = capsys.readouterr().out
    assert "correct horse" not in shown
    assert (certs / "edge-0001.password").read_text().strip() not in shown
    assert run(certs, "password", "edge-0003", "--password-file", str(tmp_path / "none")) == 2


@pytest.mark.parametrize("words", [("edge", "edge-0001"), ("show",), ("revoke", "cloud"), ("host",)])
def test_without_an_authority_one_is_told_to_make_it(
    certs: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(certs, *words) == 2
    assert "error: " in capsys.readouterr().err


def test_nonsense_is_refused(certs: Path) -> None:
    assert run(certs, "init") == 0
    assert run(certs, "init") == 2
    assert run(certs, "edge", "edge-0001", "--days", "0") == 2
    assert run(certs, "edge", "No Name") == 2
    assert run(certs, "init", "--replace", "a b") == 2
    assert run(certs, "edge", "edge-0001") == 0, "a refused replacement has replaced nothing"
