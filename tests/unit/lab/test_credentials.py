"""What an edge elsewhere is given: its own credentials and nobody else's, by hand of a bundle or of an engine."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
import yaml

from common.errors import ConfigError
from lab.__main__ import main
from lab.credentials import credentials
from lab.engine import OWNER, Order, archive_of

DEMO = str(Path(__file__).parents[3] / "experiments" / "demo.yaml")


@pytest.fixture
def certs(tmp_path: Path) -> Path:
    folder = tmp_path / "certs"
    folder.mkdir()
    for name in (
        "ca.crt",
        "ca.key",
        "cloud.crt",
        "cloud.key",
        "edge-0001.crt",
        "edge-0001.key",
        "edge-0002.crt",
        "edge-0002.key",
    ):
        (folder / name).write_text(f"content of {name}")
    return folder


def test_each_edge_has_its_own(certs: Path) -> None:
    found = credentials(certs, ["edge-0001", "edge-0002"])
    assert set(found["edge-0002"]) == {"certs/ca.crt", "certs/edge-0002.crt", "certs/edge-0002.key"}
    assert found["edge-0001"]["certs/edge-0001.key"] == b"content of edge-0001.key"
    assert credentials(None, ["edge-0001"]) == {"edge-0001": {}}


def test_all_that_is_missing_is_named_at_once(certs: Path) -> None:
    (certs / "ca.crt").unlink()
    (certs / "edge-0001.key").unlink()
    with pytest.raises(ConfigError) as caught:
        credentials(certs, ["edge-0001", "edge-0002"])
    assert len(caught.value.faults) == 2
    assert "ca.crt" in str(caught.value)
    assert "mapa certs edge edge-0001" in str(caught.value)


def test_only_the_image_s_user_can_read_what_is_laid_into_a_volume(certs: Path) -> None:
    order = Order("run-1", "edge-0001", "mapa-edge", credentials(certs, ["edge-0001"])["edge-0001"], ())
    with tarfile.open(fileobj=io.BytesIO(archive_of(order.files))) as archive:
        members = {member.name: (member.mode, member.uid, member.gid) for member in archive}
    assert members.pop("certs") == (0o500, OWNER, OWNER)
    assert set(members) == set(order.files)
    assert set(members.values()) == {(0o400, OWNER, OWNER)}


def bundled(tmp_path: Path, *arguments: str) -> dict[str, tuple[int, bytes]]:
    target = tmp_path / "edge.tar.gz"
    call = [
        "bundle",
        "edge",
        "edge-0001",
        DEMO,
        "--run",
        "study-1",
        "--broker",
        "broker.example.org",
        "--out",
        str(target),
    ]
    assert main([*call, *arguments]) == 0
    assert target.stat().st_mode & 0o077 == 0
    found = {}
    with tarfile.open(target) as archive:
        for member in archive:
            file = archive.extractfile(member)
            assert file is not None
            found[member.name] = (member.mode, file.read())
    return found


def test_a_bundle_has_all_that_its_edge_needs_and_no_more(
    certs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = bundled(tmp_path, "--certs", str(certs), "--set", "privacy.randomness=secure")
    assert {name.removeprefix("edge-0001/") for name in found} == {
        "compose.yaml",
        "start.sh",
        "README.txt",
        "experiment.yaml",
        "certs/ca.crt",
        "certs/edge-0001.crt",
        "certs/edge-0001.key",
    }
    assert found["edge-0001/start.sh"][0] == 0o755
    assert found["edge-0001/certs/edge-0001.key"][0] == 0o600
    service = yaml.safe_load(found["edge-0001/compose.yaml"][1])["services"]["edge"]
    assert service["command"] == [
        *("--experiment", "/run/mapa/experiment.yaml", "--broker", "broker.example.org", "--run", "study-1"),
        *("--out", "/results/study-1", "--certs", "/run/mapa/certs", "--id", "edge-0001", "--ledger", "/ledger"),
    ]
    everything = b"".join(content for _, content in found.values())
    assert b"edge-0002.key" not in everything
    assert b"content of ca.key" not in everything
    assert "hand it over by a way that nobody else reads" in capsys.readouterr().out


def test_a_bundle_without_certificates(tmp_path: Path) -> None:
    found = bundled(tmp_path, "--plain")
    assert b"--plain" in found["edge-0001/compose.yaml"][1]
    assert not any("certs" in name for name in found)


@pytest.mark.parametrize(
    ("change", "clue"),
    [
        ({"edge-0001": "edge-0099"}, "NAME: 'edge-0099': expected one of edge-0001 to edge-0005"),
        ({"broker.example.org": "broker:x"}, "broker: 'broker:x'"),
        ({"--plain": ""}, "--certs"),
    ],
)
def test_what_is_asked_wrongly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, str], clue: str
) -> None:
    call = ["bundle", "edge", "edge-0001", DEMO, "--run", "r", "--broker", "broker.example.org", "--plain"]
    words = [change.get(word, word) for word in call]
    assert main([*(word for word in words if word), "--out", str(tmp_path / "x.tar.gz")]) == 2
    assert clue in capsys.readouterr().err
    assert not (tmp_path / "x.tar.gz").exists()
