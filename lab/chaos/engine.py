"""The containers of one project, as the engine knows them."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from docker.errors import NotFound
from docker.models.containers import Container

from common.errors import DeployError
from lab.told import own_engine, told

_PROJECT, _SERVICE = "com.docker.compose.project", "com.docker.compose.service"
_NUMBER = "com.docker.compose.container-number"


class Engine:
    """What runs under the name of a project."""

    def __init__(self, project: str, environment: Mapping[str, str]) -> None:
        """Connects.

        Raises:
            DeployError: there is no engine.
        """
        self.project = project
        self._filters: dict[str, str | list[str] | bool] = {"label": f"{_PROJECT}={project}"}
        with told("docker", "a Docker engine"):
            self._client = own_engine(environment)
            self._client.ping()

    def close(self) -> None:
        """Lets go of the engine."""
        self._client.close()

    def containers(self, service: str) -> Sequence[Container]:
        """Of this service, in the order of their numbers; also those that have ended."""
        labels = [f"{_PROJECT}={self.project}", f"{_SERVICE}={service}"]
        found = self._client.containers.list(all=True, filters={"label": labels}, ignore_removed=True)
        return sorted(found, key=lambda one: int(one.labels[_NUMBER]))

    def node(self, who: str) -> Container:
        """The container of the cloud, of the broker, or of an edge.

        Raises:
            DeployError: there is none.
        """
        service, number = ("edge", int(who.removeprefix("edge-"))) if who.startswith("edge-") else (who, 1)
        for one in self.containers(service):
            if int(one.labels[_NUMBER]) == number:
                return one
        raise DeployError(f"docker: no container of {who} in {self.project}: expected one")

    def run(self, service: str, *command: str) -> str:
        """What a command prints in the first container of a service; it may fail."""
        with told("docker", f"to run {command[0]} in {service}"):
            output = self.node(service).exec_run(list(command)).output
        return output.decode(errors="replace") if isinstance(output, bytes) else ""

    def cut(self, container: Container) -> Sequence[str]:
        """Takes a container out of its network; the names that it had there."""
        name = f"{self.project}_default"
        container.reload()
        aliases: Sequence[str] = container.attrs["NetworkSettings"]["Networks"][name]["Aliases"] or ()
        self._client.networks.get(name).disconnect(container)
        return aliases

    def join(self, container: Container, aliases: Sequence[str]) -> None:
        """Puts it back."""
        self._client.networks.get(f"{self.project}_default").connect(container, aliases=list(aliases))

    def copy(self, service: str, path: str, target: Path) -> None:
        """Copies what is in a folder of a container into one here; nothing if it is missing there.

        Raises:
            DeployError: it could not be.
        """
        with told("docker", f"to copy {path}"):
            try:
                blocks, _ = self.node(service).get_archive(path + "/.")
            except NotFound:
                return
            content = io.BytesIO(b"".join(blocks))
            with tarfile.open(fileobj=content) as archive:
                target.mkdir(parents=True, exist_ok=True)
                archive.extractall(target, filter="data")

    def left(self) -> list[str]:
        """The names of all that is still there."""
        with told("docker", "to list what is left"):
            found = [str(one.name) for one in self._client.containers.list(all=True, filters=self._filters)]
            found += [str(one.name) for one in self._client.networks.list(filters=self._filters)]
            return sorted([*found, *(str(one.name) for one in self._client.volumes.list(filters=self._filters))])
