"""`mapa deploy` on an engine of its own that only lets in who shows a certificate, as docs/deploy.md sets it up."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from premises import IMAGE, build_image, left, start_broker
from stack import ROOT, engine

from common.broker import HOST, free_port
from common.errors import DeployError
from lab.__main__ import main
from lab.engine import LEDGERS, Engine
from lab.hosts import Host

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

RUN = f"over-tls-{secrets.token_hex(3)}"
UPDATES = 200
BRIDGE = "mapa-test-far"
MEMORY = Path("/dev/shm")
OTHER = "127.0.0.2"
"""An address at which the engine listens as well, and for which it has no certificate."""
EDGES = ("edge-0001", "edge-0002", "edge-0003")


@dataclass(frozen=True)
class Far:
    """An engine behind TLS. `folder`: with certificates in `sound` and `foreign`. `gateway`: of its network."""

    folder: Path
    port: int
    gateway: str

    def host(self, name: str, edge: str, tls: str = "sound", at: str = HOST) -> dict[str, object]:
        """Of a hosts file."""
        return {"name": name, "engine": f"tcp://{at}:{self.port}", "tls": str(self.folder / tls), "edges": [edge]}


@pytest.fixture(scope="module")
def bridge() -> Iterator[str]:
    """A network of this machine whose gateway it is, for the second engine: one without removes that of the first."""
    for stale in engine().networks.list(names=[f"^{BRIDGE}$"]):
        stale.remove()
    made = engine().networks.create(BRIDGE, driver="bridge", options={"com.docker.network.bridge.name": BRIDGE})
    made.reload()
    yield made.attrs["IPAM"]["Config"][0]["Gateway"]
    made.remove()


@pytest.fixture(scope="module")
def far(bridge: str) -> Iterator[Far]:
    # In memory, as removing an image from a disk can take minutes; and its sockets' paths have to be short.
    with tempfile.TemporaryDirectory(prefix="mapa-", dir=MEMORY if MEMORY.is_dir() else None) as name:
        folder = Path(name)
        certify(folder)
        found = Far(folder, free_port(), bridge)
        server = folder / "own" / "broker"
        command = ["dockerd", "--data-root", folder / "data", "--exec-root", folder / "exec"]
        command += ["--pidfile", folder / "pid", "--bridge", BRIDGE, "--iptables=false", "--ip-forward=false"]
        command += ["--tlsverify", "--tlscacert", server / "ca.crt", "--tlscert", server / "broker.crt"]
        command += ["--tlskey", server / "broker.key"]
        command += [f"--host=tcp://{address}:{found.port}" for address in (HOST, OTHER)]
        with (folder / "log").open("wb") as log:
            daemon = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            wait_for(found, daemon)
            yield found
        finally:
            daemon.terminate()
            daemon.wait(60)


def certify(folder: Path) -> None:
    """What this machine needs for the engine, in `sound`; and the same from another authority, in `foreign`."""
    for authority, kind in (("own", "sound"), ("other", "foreign")):
        assert main(["certs", "init", "--dir", str(folder / authority)]) == 0
        assert main(["certs", "edge", "deployer", "--dir", str(folder / authority)]) == 0
        (folder / kind).mkdir()
        shutil.copy(folder / "own" / "ca.crt", folder / kind / "ca.pem")
        shutil.copy(folder / authority / "deployer.crt", folder / kind / "cert.pem")
        shutil.copy(folder / authority / "deployer.key", folder / kind / "key.pem")


def wait_for(far: Far, daemon: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while True:
        with suppress(DeployError), Engine(Host.model_validate(far.host("far", EDGES[0]))):
            return
        assert daemon.poll() is None, (far.folder / "log").read_text()
        assert time.monotonic() < deadline, (far.folder / "log").read_text()
        time.sleep(0.2)


def test_an_edge_behind_tls_trains_and_who_may_not_go_there_is_told_why(far: Far, tmp_path: Path) -> None:
    build_image()
    for words in (["init"], ["host", far.gateway], ["edge", *EDGES]):
        assert main(["certs", *words, "--dir", str(tmp_path / "certs")]) == 0
    port, out = free_port(), tmp_path / "run"
    hosts = [
        far.host("far", EDGES[0]),
        far.host("stranger", EDGES[1], tls="foreign"),
        far.host("misnamed", EDGES[2], at=OTHER),
    ]
    content = {"broker": f"{far.gateway}:{port}", "certs": "certs", "image": IMAGE, "hosts": hosts}
    file = tmp_path / "hosts.yaml"
    file.write_text(yaml.safe_dump(content))
    changes = {"data.edges": 3, "stop.updates": UPDATES, "algorithm.cloud.quorum": 1, "privacy.randomness": "secure"}
    words = [word for key, value in changes.items() for word in ("--set", f"{key}={value}")]
    broker = start_broker(tmp_path, far.gateway, port)
    try:
        done = mapa("deploy", "experiments/demo.yaml", "--hosts", str(file), "--run", RUN, "--out", str(out), *words)
    finally:
        broker.terminate()
        broker.wait(10)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"host far: image {IMAGE} sent" in done.stdout
    refused = f"host stranger (tcp://{HOST}:{far.port}): it "
    files = f"{far.folder}/foreign/cert.pem"
    told = f"edge-0002: {re.escape(refused)}(refuses|hangs up on) {files}.*: expected one that its authority"
    assert re.search(told, done.stdout), done.stdout
    assert f"host misnamed (tcp://{OTHER}:{far.port}): its certificate is not for this name" in done.stdout
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["state"], summary["updates"]) == ("complete", UPDATES)
    assert [edge["id"] for edge in summary["edges"] if edge["updates"]] == [EDGES[0]]
    with Engine(Host.model_validate(hosts[0])) as there:
        assert there.client.images.get(IMAGE).id == engine().images.get(IMAGE).id
        assert left(RUN, there.client) == []
        stay = {volume.name for volume in there.client.volumes.list()}
        assert stay == {LEDGERS, f"mapa-{RUN}-{EDGES[0]}-records"}

    removed = mapa("deploy", "--hosts", str(file), "--remove")
    assert removed.returncode == 5, "two hosts could not be asked"
    assert "host far: nothing to remove" in removed.stdout


def mapa(*words: str) -> subprocess.CompletedProcess[str]:
    """In an environment that names other authorities, as that of a machine behind a proxy does."""
    others = {"REQUESTS_CA_BUNDLE": "/etc/ssl/certs/ca-certificates.crt"}
    return subprocess.run(
        [sys.executable, "-m", "lab", *words],
        cwd=ROOT, env={**os.environ, **others}, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip


def test_an_open_engine_is_refused_before_anything_is_started(far: Far, tmp_path: Path) -> None:
    host = {**far.host("open", EDGES[0]), "tls": None}
    file = tmp_path / "hosts.yaml"
    file.write_text(yaml.safe_dump({"broker": f"{HOST}:1", "plain": True, "hosts": [host]}))
    done = mapa("deploy", "experiments/demo.yaml", "--hosts", str(file))
    assert done.returncode == 2
    assert "open.tls: None: expected a folder with ca.pem, cert.pem and key.pem: whoever reaches an" in done.stderr
