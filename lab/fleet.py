"""The processes of one run: a cloud and its edges, started together, watched, and never left behind."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import TracebackType

from lab.folder import RunFolder
from lab.process import Child, start

TERMINATE_GRACE = 5.0
"""Seconds between asking a process to finish and ending it."""


class Fleet:
    """A cloud and its edges. A context: leaving it, however, ends whatever still runs."""

    def __init__(
        self, folder: RunFolder, edges: Sequence[str], arguments: Sequence[str], edge_arguments: Sequence[str] = ()
    ) -> None:
        """`arguments` are those that both programs take, `edge_arguments` what edges take besides."""
        self._folder = folder
        self._names = tuple(edges)
        self._arguments = tuple(arguments)
        self._edge_arguments = tuple(edge_arguments)
        self._children: list[Child] = []
        self._told: set[str] = set()

    def __enter__(self) -> Fleet:
        """Starts the cloud first: edges wait for it anyway."""
        try:
            self._children.append(start("cloud", "cloud", self._arguments, self._folder.log("cloud")))
            for name in self._names:
                log = self._folder.log(name)
                own = (*self._arguments, *self._edge_arguments, "--id", name)
                self._children.append(start(name, "edge", own, log))
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def cloud(self) -> Child:
        """The cloud's process."""
        return self._children[0]

    @property
    def edges(self) -> Sequence[Child]:
        """The edges' processes, in order."""
        return self._children[1:]

    def fallen(self) -> list[Child]:
        """Edges that ended with an error since the last call."""
        found = [edge for edge in self.edges if edge.exit_code not in (None, 0) and edge.name not in self._told]
        self._told.update(edge.name for edge in found)
        return found

    def finish(self, grace: float, edge_grace: Callable[[int], float], is_urgent: Callable[[], bool]) -> None:
        """Waits for everybody to end by themselves, then asks, then insists; at once if urgent.

        Args:
            grace: seconds for the cloud.
            edge_grace: seconds for the edges from the cloud's end on, given its exit code.
            is_urgent: whether to stop waiting.
        """
        self._wait([self.cloud], grace, is_urgent)
        code = self.cloud.exit_code
        if code is not None:
            self._wait(self.edges, edge_grace(code), is_urgent)
        for child in self._children:
            child.terminate()
        self._wait(self._children, TERMINATE_GRACE, is_urgent)
        self.kill()

    def kill(self) -> None:
        """Ends everything at once and waits until it is gone."""
        for child in self._children:
            child.kill()
        for child in self._children:
            child.process.wait()
            child.release()

    def _wait(self, children: Sequence[Child], seconds: float, is_urgent: Callable[[], bool]) -> None:
        deadline = time.monotonic() + seconds
        while any(child.exit_code is None for child in children):
            if time.monotonic() > deadline or is_urgent():
                return
            time.sleep(0.05)
