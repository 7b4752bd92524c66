"""What edges on other hosts need: their image, and a broker that containers and this machine both reach."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

import docker
from stack import ROOT, engine

from common.trust.settings import settings
from lab.engine import LABEL

IMAGE = "mapa-test-edge"


@cache
def build_image() -> None:
    """Makes the image of this tree's edge."""
    build = ["docker", "build", "--quiet", "--file", "Dockerfile.edge", "--tag", IMAGE]
    base = os.environ.get("BASE_IMAGE")
    build += ["--build-arg", f"BASE_IMAGE={base}", "--build-arg", "TORCH_INDEX="] if base else []
    subprocess.run([*build, "."], cwd=ROOT, check=True, capture_output=True)


def gateway() -> str:
    """The address of this machine in the network of its containers."""
    return str(engine().networks.get("bridge").attrs["IPAM"]["Config"][0].get("Gateway", "172.17.0.1"))


def start_broker(folder: Path, bind: str, port: int) -> subprocess.Popen[bytes]:
    """A Mosquitto on this machine, for one of its networks only, with the settings of `mapa certs`."""
    own = folder / "mosquitto.conf"
    own.write_text(f"{settings(str(folder / 'certs' / 'broker'), port=port, bind=bind, health_port=None)}user root\n")
    server = subprocess.Popen([shutil.which("mosquitto", path=f"{os.environ['PATH']}:/usr/sbin"), "-c", str(own)])
    deadline = time.monotonic() + 20
    while True:
        with suppress(OSError), socket.create_connection((bind, port), timeout=1):
            return server
        assert time.monotonic() < deadline
        time.sleep(0.1)


def left(run: str, there: docker.DockerClient) -> list[str]:
    """What a run has left on an engine that it should not have."""
    containers = there.containers.list(all=True, filters={"label": f"{LABEL}={run}"})
    volumes = there.volumes.list(filters={"label": [f"{LABEL}={run}", f"{LABEL}.use=setup"]})
    return [one.name for one in (*containers, *volumes)]
