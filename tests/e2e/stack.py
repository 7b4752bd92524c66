"""A compose project of a test: its commands, its containers, and what it wrote."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import docker
from docker.errors import NotFound
from docker.models.containers import Container

from common.records import read

ROOT = Path(__file__).parents[2]
SERVICES = ("certs", "broker", "cloud", "edge", "results")


@cache
def engine() -> docker.DockerClient:
    """Asked for by a test that runs, never by one that is only collected: then there may be no engine."""
    return docker.from_env()


@dataclass(frozen=True)
class Stack:
    """One project. `results`: where results go on the host; `settings`: variables of docker-compose.yml."""

    project: str
    results: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    overrides: tuple[Path, ...] = ()

    @property
    def environment(self) -> dict[str, str]:
        files = os.pathsep.join(str(path) for path in (ROOT / "docker-compose.yml", *self.overrides))
        own = {"COMPOSE_PROJECT_NAME": self.project, "COMPOSE_FILE": files, "RESULTS": str(self.results)}
        return {**os.environ, **own, **self.settings}

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        """Starts a command in the project's folder and environment; its output goes to `log`."""
        with self.log.open("ab") as output:
            return subprocess.Popen(command, cwd=ROOT, env=self.environment, stdout=output, stderr=subprocess.STDOUT)

    def compose(self, *arguments: str) -> str:
        command = ["docker", "compose", *arguments]
        done = subprocess.run(command, cwd=ROOT, env=self.environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def hand_out(self, place: Path, *names: str) -> Path:
        """Certificates of this project's authority for edges elsewhere, unpacked as those have to find them."""
        self.compose("build", "certs")
        command = ["docker", "compose", "run", "--rm", "-T", "certs", "edge", *names]
        done = subprocess.run(command, cwd=ROOT, env=self.environment, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            archive.extractall(place, filter="tar")
            for one in archive.getmembers():
                os.chown(place / one.name, one.uid, one.gid)
        return place

    def remove(self) -> None:
        self.compose("--profile", "*", "down", "--volumes", "--remove-orphans", "--timeout", "3")

    @property
    def log(self) -> Path:
        return self.results.parent / f"{self.project}.log"

    def containers(self, service: str) -> list[Container]:
        """Of this service, in the order of their numbers; also those that have ended."""
        label = [f"com.docker.compose.project={self.project}", f"com.docker.compose.service={service}"]
        found = engine().containers.list(all=True, filters={"label": label}, ignore_removed=True)
        return sorted(found, key=lambda one: int(one.labels["com.docker.compose.container-number"]))

    def story(self) -> str:
        """What an engineer would want to see of a failure."""
        parts = [self.log.read_text(errors="replace")[-6000:] if self.log.exists() else ""]
        for service in SERVICES:
            for one in self.containers(service):
                with suppress(NotFound):
                    parts.append(f"--- {one.name} {one.attrs['State']}\n{one.logs(tail=20).decode(errors='replace')}")
        return "\n".join(parts)

    def until(self, is_true: Callable[[], bool], what: str, seconds: float = 180.0) -> None:
        deadline = time.monotonic() + seconds
        while not is_true():
            assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}\n{self.story()}"
            time.sleep(0.3)


def rows(path: Path) -> list[dict[str, Any]]:
    """As the product reads them: a full disk or a kill may have cut a row short."""
    return list(read(path))
