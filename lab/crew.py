"""Those who take part in one run: a cloud and its edges, started together, watched, and never left behind."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol

TERMINATE_GRACE = 5.0
"""Seconds between asking somebody to finish and ending it."""


class Member(Protocol):
    """A node that was started: a process here, or a container somewhere."""

    @property
    def name(self) -> str:
        """The cloud, or the edge's id."""
        ...

    @property
    def log(self) -> Path:
        """What it prints."""
        ...

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        ...

    def terminate(self) -> None:
        """Asks it to finish in good order."""
        ...

    def kill(self) -> None:
        """Ends it at once."""
        ...

    def close(self) -> None:
        """Waits until it is gone, and lets go of all that it used."""
        ...

    def last_words(self) -> list[str]:
        """Why it ended."""
        ...


class Crew:
    """A cloud and its edges. A context: leaving it, however, ends whatever still runs."""

    def __init__(self, starts: Sequence[Callable[[], Member | None]]) -> None:
        """What starts each of them, first the cloud; an edge that cannot be started is None, and the others go on."""
        self._starts = tuple(starts)
        self._members: list[Member] = []
        self._told: set[str] = set()

    def __enter__(self) -> Crew:
        """Starts them."""
        try:
            for start in self._starts:
                member = start()
                if member is not None:
                    self._members.append(member)
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def cloud(self) -> Member:
        """The cloud."""
        return self._members[0]

    @property
    def edges(self) -> Sequence[Member]:
        """The edges, in order."""
        return self._members[1:]

    def fallen(self) -> list[Member]:
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
        for member in self._members:
            member.terminate()
        self._wait(self._members, TERMINATE_GRACE, is_urgent)
        self.kill()

    def kill(self) -> None:
        """Ends everything at once and waits until it is gone."""
        for member in self._members:
            member.kill()
        for member in self._members:
            member.close()

    def _wait(self, members: Sequence[Member], seconds: float, is_urgent: Callable[[], bool]) -> None:
        deadline = time.monotonic() + seconds
        while any(member.exit_code is None for member in members):
            if time.monotonic() > deadline or is_urgent():
                return
            time.sleep(0.05)
