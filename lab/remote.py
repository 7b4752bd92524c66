"""An edge in a container on some host, followed from here."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from docker.errors import DockerException, NotFound
from docker.models.containers import Container
from requests.exceptions import RequestException
from urllib3.exceptions import HTTPError

from common.errors import DeployError
from lab.engine import Engine, Order
from lab.process import last_words

PAUSE = 1.0
"""Seconds between two looks at a container that says nothing."""
LOST = (DockerException, RequestException, HTTPError, OSError)
"""What happens while a host is out of reach."""


class Remote:
    """A member of a crew (`crew.Member`). What the container prints comes into `log` as long as its host answers.

    A host out of reach is not the end: its edge talks with the broker, not with us.
    """

    def __init__(self, engine: Engine, order: Order, folder: Path, say: Callable[[str], None]) -> None:
        """Starts it.

        Args:
            engine: of its host.
            order: what is started.
            folder: for what comes from it.
            say: tells a person something.

        Raises:
            DeployError: it could not be started.
        """
        self.name = order.edge
        self.log = folder / "output.log"
        self._engine, self._order, self._folder, self._say = engine, order, folder, say
        self._exit_code: int | None = None
        self._since = 0.0
        self._is_left = threading.Event()
        folder.mkdir(parents=True, exist_ok=True)
        self._container: Container = engine.start(order)
        self._thread = threading.Thread(target=self._follow, name=f"follow-{order.edge}", daemon=True)
        self._thread.start()

    @property
    def exit_code(self) -> int | None:
        """None while it runs, or nobody knows."""
        return self._exit_code

    def terminate(self) -> None:
        """Asks it to finish in good order."""
        self._signal("SIGTERM")

    def kill(self) -> None:
        """Ends it at once."""
        self._signal("SIGKILL")

    def close(self) -> None:
        """Fetches what is to be fetched, and removes the container and its credentials."""
        self._thread.join(timeout=10.0)
        self._is_left.set()
        host = self._engine.host
        try:
            if host.records == "fetch":
                run = self._order.run
                self._engine.fetch(self._container, f"/results/{run}/edges/{self.name}", self._folder.parent)
            self._engine.remove(self._order.run, self.name)
        except DeployError as error:
            self._say(f"{self.name}: {error}; later: mapa deploy --hosts HOSTS --remove --run {self._order.run}")
        else:
            if host.records == "stay":
                self._say(f"{self.name}: its records stay on {host.name}, volume {self._order.volume('records')}")

    def last_words(self) -> list[str]:
        """Why it ended (`last_words`)."""
        return last_words(self.log)

    def _signal(self, name: str) -> None:
        if self._exit_code is None:
            with suppress(*LOST):
                self._container.kill(signal=name)

    def _follow(self) -> None:
        """Copies what is printed, and finds out when it has ended."""
        is_lost = False
        while not self._is_left.is_set():
            try:
                self._copy()
                is_lost = False
                self._container.reload()
                state = self._container.attrs["State"]
                if state["Status"] in ("exited", "dead"):
                    self._exit_code = int(state["ExitCode"])
                    return
            except NotFound:
                self._exit_code = DeployError.exit_code
                return
            except LOST as error:
                if not is_lost:
                    self._say(f"{self.name}: host {self._engine.host.name} out of reach ({error}); the edge may go on")
                is_lost = True
            self._is_left.wait(PAUSE)

    def _copy(self) -> None:
        with self.log.open("ab") as file:
            for block in self._container.logs(stream=True, follow=True, since=self._since or None):
                file.write(block)
                file.flush()
                self._since = time.time()
