"""The way to a Docker engine over SSH: its socket on that host, as a socket here.

By the `ssh` of this machine, so that its configuration, keys and agent count; one connection for everything. At its
other end is a `cat`, which ends with our end of its input: so with this process, however that ends.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from urllib.parse import urlsplit

from common.errors import DeployError

ENGINE = "/var/run/docker.sock"
PATIENCE = 20.0
"""Seconds until the connection has to stand."""
_OPTIONS = (
    "BatchMode=yes",  # there is nobody to answer a question
    "ExitOnForwardFailure=yes",
    "StreamLocalBindUnlink=yes",
    "ConnectTimeout=10",
    "ServerAliveInterval=15",
)


class Tunnel:
    """A context in which `url` is the engine of a host."""

    def __init__(self, engine: str) -> None:
        """`engine`: ssh://[user@]host[:port]."""
        self._engine = engine
        self._folder = tempfile.TemporaryDirectory(prefix="mapa-")
        self._socket = Path(self._folder.name) / "docker.sock"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """For a client here."""
        return f"unix://{self._socket}"

    def __enter__(self) -> Tunnel:
        """Connects.

        Raises:
            DeployError: it did not come about; with what ssh said.
        """
        parts = urlsplit(self._engine)
        target = f"{parts.username}@{parts.hostname}" if parts.username else str(parts.hostname)
        options = [word for option in _OPTIONS for word in ("-o", option)]
        port = ["-p", str(parts.port)] if parts.port else []
        command = ["ssh", "-T", *options, *port, "-L", f"{self._socket}:{ENGINE}", "--", target, "cat"]
        try:
            self._process = subprocess.Popen(  # noqa: S603 - a list of words, and the target is a checked name
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            self.close()
            raise DeployError(f"{self._engine}: {error}: expected the program ssh on this machine") from error
        deadline = time.monotonic() + PATIENCE
        while not self._socket.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                said = self.close()
                raise DeployError(
                    f"{self._engine}: ssh: {said or 'no connection'}: expected to log in without a question"
                )
            time.sleep(0.05)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> str:
        """Ends the connection; what ssh has said last."""
        said = ""
        if self._process is not None:
            self._process.terminate()
            _, output = self._process.communicate()
            said = " ".join(output.decode(errors="replace").split())[-300:]
            self._process = None
        self._folder.cleanup()
        return said
