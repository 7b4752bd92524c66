"""One run on a Swarm of one node, from the stack file that `mapa stack` writes."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stack import ROOT, engine

from lab.__main__ import main

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

NAME = "mapa-test-swarm"
UPDATES = 200
EDGES = ("edge-0001", "edge-0002")


def docker(*words: str) -> str:
    return subprocess.run(["docker", *words], check=True, capture_output=True, text=True, cwd=ROOT).stdout


@pytest.fixture
def swarm() -> Iterator[None]:
    is_new = engine().info()["Swarm"]["LocalNodeState"] == "inactive"
    if is_new:
        docker("swarm", "init", "--advertise-addr", "127.0.0.1")
    yield
    docker("stack", "rm", NAME)
    deadline = time.monotonic() + 60
    while engine().containers.list(all=True, filters={"label": f"com.docker.stack.namespace={NAME}"}):
        assert time.monotonic() < deadline
        time.sleep(0.5)
    for volume in engine().volumes.list(filters={"label": f"com.docker.stack.namespace={NAME}"}):
        volume.remove(force=True)
    if is_new:
        docker("swarm", "leave", "--force")


def service(name: str) -> Any:
    return engine().services.get(f"{NAME}_{name}")


def test_a_swarm_runs_it_and_each_edge_has_its_own_secrets(swarm: None, tmp_path: Path) -> None:
    base = os.environ.get("BASE_IMAGE")
    own = ["--build-arg", f"BASE_IMAGE={base}", "--build-arg", "TORCH_INDEX="] if base else []
    for kind in ("cloud", "edge"):
        docker("build", "--quiet", "--file", f"Dockerfile.{kind}", "--tag", f"mapa-test-{kind}", *own, ".")
    certs, out = tmp_path / "certs", tmp_path / "stack"
    assert main(["certs", "init", "--dir", str(certs)]) == 0
    assert main(["certs", "edge", *EDGES, "--dir", str(certs)]) == 0
    call = ["stack", str(ROOT / "experiments/demo.yaml"), "--run", "swarmed", "--certs", str(certs), "--out", str(out)]
    call += ["--cloud-image", "mapa-test-cloud", "--edge-image", "mapa-test-edge"]
    assert main([*call, "--set", "data.edges=2", "--set", f"stop.updates={UPDATES}"]) == 0
    docker("stack", "deploy", "--compose-file", str(out / "stack.yaml"), "--resolve-image", "never", NAME)

    deadline = time.monotonic() + 240
    while not any(task["Status"]["State"] == "complete" for task in service("cloud").tasks()):
        assert time.monotonic() < deadline, docker("service", "logs", f"{NAME}_cloud")
        time.sleep(1)
    words = ["run", "--rm", "--volume", f"{NAME}_results:/results:ro", "--entrypoint", "cat", "mapa-test-cloud"]
    summary = json.loads(docker(*words, "/results/swarmed/summary.json"))
    assert (summary["state"], summary["updates"]) == ("complete", UPDATES)
    assert {edge["id"] for edge in summary["edges"] if edge["updates"]} == set(EDGES)
    for edge in EDGES:
        given = service(edge).attrs["Spec"]["TaskTemplate"]["ContainerSpec"]["Secrets"]
        assert {entry["File"]["Name"] for entry in given} == {
            f"/run/mapa/certs/{name}" for name in ("ca.crt", f"{edge}.crt", f"{edge}.key")
        }
