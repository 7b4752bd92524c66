"""`mapa launch` on a broker with TLS: every process has an identity of its own, and no secret is written anywhere."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from guarded import Guarded
from test_launch import EXPERIMENT

from common.records import read
from common.trust.folder import Folder

pytestmark = pytest.mark.broker
EDGES = ("edge-0001", "edge-0002", "edge-0003")


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    folder = Folder(tmp_path / "certs")
    folder.begin()
    for name in EDGES[:2]:
        folder.client(name)
    folder.password(EDGES[2], None)
    broker = Guarded(folder)
    yield broker
    broker.kill()


def launch(tmp_path: Path, *words: str) -> subprocess.Popen[str]:
    file = tmp_path / "small.yaml"
    file.write_text(yaml.safe_dump(EXPERIMENT))
    command = [sys.executable, "-m", "lab", "launch", str(file), "--out", str(tmp_path / "run"), *words]
    return subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True
    )


def commands_of(process: subprocess.Popen[str]) -> str:
    """Command lines and environments of all processes, over and over until the launch ends."""
    seen: set[str] = set()
    while process.poll() is None:
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                for name in ("cmdline", "environ"):
                    try:
                        seen.add((entry / name).read_bytes().decode(errors="replace"))
                    except OSError:
                        continue
        time.sleep(0.2)
    return "\n".join(seen)


def test_a_run_with_certificates_and_no_secret_in_sight(tmp_path: Path, guarded: Guarded) -> None:
    guarded.folder.client(EDGES[2])
    secret = (guarded.folder.root / f"{EDGES[2]}.password").read_text().strip()
    (guarded.folder.root / f"{EDGES[2]}.password").unlink()
    process = launch(tmp_path, "--broker", str(guarded.address), "--certs", str(guarded.folder.root))
    said: list[str] = []
    reader = threading.Thread(target=lambda: said.extend(process.stdout or ()))
    reader.start()
    commands = commands_of(process)
    reader.join()
    assert process.stdout is not None
    process.stdout.close()
    assert process.returncode == 0, "".join(said)
    rows = [row for row in read(tmp_path / "run" / "cloud" / "records.jsonl") if row["kind"] == "joined"]
    assert {row["edge"] for row in rows} == set(EDGES)
    assert str(guarded.folder.root) in commands, "they are told where it is"
    written = b"".join(path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file())
    assert len(written) > 10_000
    secrets = [secret, *(path.read_text().splitlines()[1] for path in guarded.folder.root.glob("*.key"))]
    assert len(secrets) == 5
    for one in secrets:
        assert len(one) >= 32
        assert one.encode() not in written
        assert one not in commands
        assert one not in "".join(said)
    assert b"PRIVATE KEY" not in written


def test_a_node_without_an_identity_is_told_before_anything_starts(tmp_path: Path, guarded: Guarded) -> None:
    (guarded.folder.root / f"{EDGES[1]}.key").unlink()
    (guarded.folder.root / f"{EDGES[1]}.crt").unlink()
    process = launch(tmp_path, "--broker", str(guarded.address), "--certs", str(guarded.folder.root))
    assert "expected edge-0002.crt and edge-0002.key, or edge-0002.password there" in process.communicate()[0]
    assert process.returncode == 2
    assert not (tmp_path / "run").exists()


def test_plain_text_to_another_machine_needs_a_word(tmp_path: Path) -> None:
    process = launch(tmp_path, "--broker", "fl.example.org")
    text = process.communicate()[0]
    assert process.returncode == 2
    assert "--broker: 'fl.example.org:1883': expected TLS on the way to another machine" in text
    assert not (tmp_path / "run").exists()
