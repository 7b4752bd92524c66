"""Edges on other hosts, by `mapa deploy`: one behind the engine's socket, one over SSH, one that nobody can reach."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from docker.errors import NotFound
from premises import IMAGE, build_image, gateway, left, start_broker
from stack import ROOT, engine, rows

from common.broker import free_port
from lab.__main__ import main
from lab.engine import LABEL

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

UPDATES = 300
DEPLOYED, ORPHANED = (f"{name}-{secrets.token_hex(3)}" for name in ("deployed", "orphaned"))
"""Runs whose volumes no earlier run can have left."""
SSHD = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile {folder}/sshd.pid
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
AllowStreamLocalForwarding yes
"""
SSH = """\
Host *
  IdentityFile {folder}/user
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known
  StrictHostKeyChecking accept-new
"""


@dataclass(frozen=True)
class Site:
    """What a deployment needs: a broker that both sides reach, certificates, and a way in by SSH."""

    folder: Path
    broker: str
    ssh: str
    environment: dict[str, str]

    def hosts(self, **more: object) -> Path:
        path, ledgers = self.folder / "hosts.yaml", self.folder / "ledgers"
        ledgers.mkdir(exist_ok=True)
        ledgers.chmod(0o777)  # the edges' user is another
        hosts = [
            {
                "name": "here",
                "engine": "unix:///var/run/docker.sock",
                "edges": ["edge-0001"],
                "records": "fetch",
                "ledgers": str(ledgers),
            },
            {
                "name": "there",
                "engine": self.ssh,
                "edges": ["edge-0002"],
                "cpus": 0.9,
                "memory": "600m",
                "ledgers": str(ledgers),
            },
            {"name": "nowhere", "engine": "ssh://127.0.0.1:1", "edges": ["edge-0003"]},
        ]
        content = {"broker": self.broker, "certs": str(self.folder / "certs"), "image": IMAGE, "hosts": hosts, **more}
        path.write_text(yaml.safe_dump(content))
        return path

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "lab", *words],
            cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=400, check=False,
        )  # fmt: skip


@pytest.fixture(scope="module")
def ssh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """An address, and the folder of an `ssh` that gets in there."""
    folder = tmp_path_factory.mktemp("ssh")
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    port = free_port()
    (folder / "sshd.conf").write_text(SSHD.format(port=port, folder=folder))
    (folder / "ssh.conf").write_text(SSH.format(folder=folder))
    tools = folder / "bin"
    tools.mkdir()
    (tools / "ssh").write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {folder}/ssh.conf "$@"\n')
    (tools / "ssh").chmod(0o755)
    Path("/run/sshd").mkdir(exist_ok=True)
    server = subprocess.Popen(["/usr/sbin/sshd", "-D", "-e", "-f", str(folder / "sshd.conf")])
    yield f"ssh://root@127.0.0.1:{port}", str(tools)
    server.terminate()
    server.wait(10)


@pytest.fixture(scope="module")
def site(ssh: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    build_image()
    bind = gateway()
    for words in (["init"], ["host", bind], ["edge", "edge-0001"], ["edge", "edge-0002"], ["edge", "edge-0003"]):
        assert main(["certs", *words, "--dir", str(folder / "certs")]) == 0
    port = free_port()
    server = start_broker(folder, bind, port)
    address, tools = ssh
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    yield Site(folder, f"{bind}:{port}", address, environment)
    for run in (DEPLOYED, ORPHANED):
        forget(run)
    server.terminate()
    server.wait(10)


def forget(run: str) -> None:
    for volume in engine().volumes.list(filters={"label": f"{LABEL}={run}"}):
        with suppress(NotFound):
            volume.remove(force=True)


def test_edges_on_hosts_train_and_leave_nothing_but_ledgers_and_records(site: Site) -> None:
    out = site.folder / "run"
    changes = {
        "data.edges": 3,
        "stop.updates": UPDATES,
        "algorithm.cloud.quorum": 2,
        "privacy.randomness": "secure",
    }
    words = [word for key, value in changes.items() for word in ("--set", f"{key}={value}")]
    call = ["deploy", "experiments/demo.yaml", "--hosts", str(site.hosts()), "--run", DEPLOYED, "--out", str(out)]
    done = site.run(*call, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning: left out, with edge-0003: ssh://127.0.0.1:1: ssh: " in done.stdout
    assert "edge-0002: its records stay on there" in done.stdout
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["state"], summary["updates"]) == ("complete", UPDATES)
    updates = {row["edge"] for row in rows(out / "cloud" / "records.jsonl") if row["kind"] == "update"}
    assert updates == {"edge-0001", "edge-0002"}
    assert any(row["kind"] == "release" for row in rows(out / "edges" / "edge-0001" / "records.jsonl"))
    assert not (out / "edges" / "edge-0002" / "records.jsonl").exists()
    assert b"bye" in (out / "edges" / "edge-0002" / "output.log").read_bytes()
    assert left(DEPLOYED, engine()) == []
    key = (site.folder / "certs" / "edge-0001.key").read_bytes().splitlines()[1]
    assert all(key not in path.read_bytes() for path in out.rglob("*") if path.is_file())


def test_what_a_killed_deployment_leaves_is_removed_on_demand(site: Site) -> None:
    changes = ["--set", "data.edges=3", "--set", "stop.updates=1000000", "--set", "algorithm.cloud.quorum=2"]
    call = ["deploy", "experiments/demo.yaml", "--hosts", str(site.hosts()), "--run", ORPHANED, *changes]
    process = subprocess.Popen(
        [sys.executable, "-m", "lab", *call, "--out", str(site.folder / "orphaned")],
        cwd=ROOT, env=site.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    records = site.folder / "orphaned" / "cloud" / "records.jsonl"
    deadline = time.monotonic() + 120
    while not (records.exists() and b'"update"' in records.read_bytes()):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    process.kill()
    process.wait()
    assert len(left(ORPHANED, engine())) == 4
    done = site.run("deploy", "--hosts", str(site.hosts()), "--remove", "--run", ORPHANED)
    assert done.returncode == 5  # one host could not be asked
    assert left(ORPHANED, engine()) == []


def test_a_bundle_starts_by_one_command(site: Site, tmp_path: Path) -> None:
    """On the other side of it, a cloud that waits for this one edge."""
    shutil.copytree(site.folder / "certs", tmp_path / "certs")
    changes = ["--set", "data.edges=1", "--set", f"stop.updates={UPDATES}"]
    archive = tmp_path / "edge-0001.tar.gz"
    call = ["bundle", "edge", "edge-0001", "experiments/demo.yaml", *changes, "--run", "bundled", "--image", IMAGE]
    made = site.run(*call, "--broker", site.broker, "--certs", str(tmp_path / "certs"), "--out", str(archive))
    assert made.returncode == 0, made.stderr
    with tarfile.open(archive) as found:
        found.extractall(tmp_path / "clinic", filter="tar")
    cloud = subprocess.Popen(
        [sys.executable, "-m", "cloud", "--experiment", "experiments/demo.yaml", *changes, "--run", "bundled",
         "--broker", site.broker, "--certs", str(tmp_path / "certs"), "--out", str(tmp_path / "run")],
        cwd=ROOT, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    edge = subprocess.run(
        [tmp_path / "clinic" / "edge-0001" / "start.sh"], capture_output=True, timeout=200, check=False
    )
    assert edge.returncode == 0, edge.stdout + edge.stderr
    assert cloud.wait(60) == 0
    subprocess.run(
        ["docker", "compose", "down"], cwd=tmp_path / "clinic" / "edge-0001", check=True, capture_output=True
    )
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["updates"] == UPDATES
    assert (
        tmp_path / "clinic" / "edge-0001" / "records" / "bundled" / "edges" / "edge-0001" / "records.jsonl"
    ).exists()


def test_a_bundle_may_have_the_image_in_it(tmp_path: Path) -> None:
    """Another, smaller one serves: what is in the archive is what the engine loads."""
    name, archive = "mapa-test-bundled:1", tmp_path / "edge.tar.gz"
    engine().images.get("eclipse-mosquitto:2").tag(name)
    call = ["bundle", "edge", "edge-0001", str(ROOT / "experiments/demo.yaml"), "--run", "r", "--broker", "localhost"]
    assert main([*call, "--plain", "--image", name, "--with-image", "--out", str(archive)]) == 0
    engine().images.remove(name)
    with tarfile.open(archive) as found:
        found.extractall(tmp_path, filter="tar")
    subprocess.run(["docker", "load", "--input", str(tmp_path / "edge-0001" / "image.tar")], check=True)
    assert name in engine().images.get(name).tags
    engine().images.remove(name)
