"""The Docker engine of one host: the image goes there, and edges are started there, each with its own credentials."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import docker
from docker.errors import ImageNotFound, NotFound
from docker.models.containers import Container
from docker.types import LogConfig

from common.errors import DeployError
from lab.credentials import SETUP
from lab.hosts import Host
from lab.image import CURE, Image
from lab.tls import connect
from lab.told import look_for, told
from lab.tunnel import Tunnel

OWNER = 10001
"""The user of the image's programs."""
LABEL = "mapa.deploy"
"""On all that a run leaves on a host; its value is the run's id."""
LEDGERS = "mapa-ledger"
"""The volume of the ledgers where the host has no folder for them; it stays."""
_TIMEOUT = 60


@dataclass(frozen=True)
class Order:
    """An edge that is to be started. `files`: what is laid into SETUP, by path; `arguments`: of its program."""

    run: str
    edge: str
    image: str
    files: Mapping[str, bytes]
    arguments: tuple[str, ...]

    def volume(self, use: str) -> str:
        """The name of a volume of this edge in this run."""
        return f"mapa-{self.run}-{self.edge}-{use}"


class Engine:
    """A context in which the engine of a host is at hand."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._stack = ExitStack()
        self._client: docker.DockerClient | None = None

    def __enter__(self) -> Engine:
        """Connects.

        Raises:
            DeployError: there is no engine, or it lets nobody in.
        """
        try:
            with self._told("a Docker engine there"):
                url = self.host.engine
                if url.startswith("ssh:"):
                    url = self._stack.enter_context(Tunnel(url)).url
                look_for(url)
                if self.host.tls is None:
                    client = docker.DockerClient(base_url=url, timeout=_TIMEOUT)
                else:
                    client = connect(self._where, url, self.host.tls, _TIMEOUT)
                self._stack.callback(client.close)
                client.ping()
                self._client = client
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client = None
        self._stack.close()

    @property
    def client(self) -> docker.DockerClient:
        """The engine itself."""
        if self._client is None:
            raise DeployError(f"host {self.host.name}: not connected: expected it to be")
        return self._client

    def bring(self, name: str, here: Image | None) -> bool:
        """Makes sure that the image is there, the same as here; whether it had to be sent.

        Args:
            name: of the image.
            here: that of this machine; None: there is none, the host has to have it.

        Raises:
            DeployError: it is neither here nor there, or could not be sent.
        """
        with self._told(f"to have the image {name}, or room for it"):
            try:
                there = self.client.images.get(name).id
            except ImageNotFound as error:
                if here is None:
                    text = f"image {name}: neither there nor on this machine: expected one of them ({CURE})"
                    raise DeployError(f"{self._where}: {text}") from error
                there = None
            if here is None or here.mark == there:
                return False
            self.client.images.load(here.content())  # type: ignore[arg-type]  # an iterator is sent as it comes
            return True

    def start(self, order: Order) -> Container:
        """Starts an edge.

        Raises:
            DeployError: it could not be; nothing of it is left.
        """
        with self._told(f"to start {order.edge}"):
            self.remove(order.run, order.edge)
            try:
                self._lay(order)
                return self.client.containers.run(
                    order.image,
                    list(order.arguments),
                    name=f"mapa-{order.run}-{order.edge}",
                    labels={LABEL: order.run, f"{LABEL}.edge": order.edge},
                    detach=True,
                    init=True,
                    read_only=True,
                    tmpfs={"/tmp": ""},  # noqa: S108 - inside the container
                    cap_drop=["ALL"],
                    security_opt=["no-new-privileges:true"],
                    restart_policy={"Name": "on-failure", "MaximumRetryCount": 3},
                    log_config=LogConfig(type=LogConfig.types.JSON, config={"max-size": "10m", "max-file": "3"}),
                    volumes=self._volumes(order),
                    network=self.host.network,
                    nano_cpus=int(self.host.cpus * 1e9) if self.host.cpus is not None else None,
                    mem_limit=self.host.memory,
                )
            except BaseException:
                self.remove(order.run, order.edge)
                raise

    def fetch(self, container: Container, path: str, target: Path) -> None:
        """Copies a folder of a container here.

        Raises:
            DeployError: it could not be.
        """
        with (
            self._told(f"to fetch {path}"),
            tarfile.open(fileobj=_Stream(container.get_archive(path)[0]), mode="r|") as archive,
        ):
            archive.extractall(target, filter="data")

    def remove(self, run: str | None = None, edge: str | None = None) -> list[str]:
        """Removes containers and credentials of a run (none: of all runs), or of one edge of it; what was removed.

        Ledgers and the edges' records stay.
        """
        labels = [f"{LABEL}={run}" if run is not None else LABEL]
        labels += [f"{LABEL}.edge={edge}"] if edge is not None else []
        found = []
        with self._told("to remove what is left of a run"):
            for container in self.client.containers.list(all=True, filters={"label": labels}, ignore_removed=True):
                with suppress(NotFound):
                    container.remove(force=True)
                found.append(str(container.name))
            for volume in self.client.volumes.list(filters={"label": [*labels, f"{LABEL}.use=setup"]}):
                with suppress(NotFound):
                    volume.remove(force=True)
                found.append(volume.name)
        return found

    def _lay(self, order: Order) -> None:
        """Fills the volume with the experiment and the credentials, by a container that never runs."""
        for use in ("setup", "records"):
            labels = {LABEL: order.run, f"{LABEL}.edge": order.edge, f"{LABEL}.use": use}
            self.client.volumes.create(order.volume(use), labels=labels)
        mount = {order.volume("setup"): {"bind": SETUP, "mode": "rw"}}
        porter = self.client.containers.create(order.image, volumes=mount, labels={LABEL: order.run})
        try:
            porter.put_archive(SETUP, archive_of(order.files))
        finally:
            porter.remove(force=True)

    def _volumes(self, order: Order) -> dict[str, dict[str, str]]:
        volumes = {
            order.volume("setup"): {"bind": SETUP, "mode": "ro"},
            order.volume("records"): {"bind": "/results", "mode": "rw"},
            self.host.ledgers or LEDGERS: {"bind": "/ledger", "mode": "rw"},
        }
        if self.host.data is not None:
            volumes[self.host.data] = {"bind": "/app/data", "mode": "ro"}
        return volumes

    @property
    def _where(self) -> str:
        return f"host {self.host.name} ({self.host.engine})"

    def _told(self, expected: str) -> AbstractContextManager[None]:
        return told(self._where, expected)


class _Stream(io.RawIOBase):
    """Blocks of bytes, read as a file."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._rest = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while size < 0 or len(self._rest) < size:
            block = next(self._blocks, b"")
            if not block:
                break
            self._rest += block
        size = len(self._rest) if size < 0 else size
        found, self._rest = self._rest[:size], self._rest[size:]
        return found


def archive_of(files: Mapping[str, bytes]) -> bytes:
    """A tar archive of files that only the image's user can read."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        folders = sorted({str(parent) for name in files for parent in Path(name).parents} - {"."})
        for name in (*folders, *files):
            entry = tarfile.TarInfo(name)
            entry.uid = entry.gid = OWNER
            if name in files:
                entry.mode, entry.size = 0o400, len(files[name])
                archive.addfile(entry, io.BytesIO(files[name]))
            else:
                entry.type, entry.mode = tarfile.DIRTYPE, 0o500
                archive.addfile(entry)
    return buffer.getvalue()
