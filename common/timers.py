"""Wake-ups that are due later, each known by its name."""

from __future__ import annotations

import heapq

from common.node import Seconds


class Timers:
    """A newer wake-up of the same name replaces the older one."""

    def __init__(self) -> None:
        self._heap: list[tuple[Seconds, int, str]] = []
        self._newest: dict[str, int] = {}
        self._count = 0

    def set(self, name: str, due: Seconds) -> None:
        """Wakes `name` at `due`."""
        self._count += 1
        self._newest[name] = self._count
        heapq.heappush(self._heap, (due, self._count, name))
        if len(self._heap) > 64 + 2 * len(self._newest):
            self._heap = [entry for entry in self._heap if self._newest.get(entry[2]) == entry[1]]
            heapq.heapify(self._heap)

    @property
    def due(self) -> Seconds:
        """When the next wake-up is due; infinite if there is none."""
        self._skip()
        return self._heap[0][0] if self._heap else float("inf")

    def take(self, now: Seconds) -> str | None:
        """The name of the earliest wake-up that is due."""
        self._skip()
        if not self._heap or self._heap[0][0] > now:
            return None
        _, _, name = heapq.heappop(self._heap)
        del self._newest[name]
        return name

    def _skip(self) -> None:
        while self._heap and self._newest.get(self._heap[0][2]) != self._heap[0][1]:
            heapq.heappop(self._heap)
