"""One direction of a link: when what is put on it arrives, and what waits until then.

Pure: the time comes from its caller. First in, first out, whatever each item's own luck with latency and loss.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Generic, TypeVar

import numpy as np

from common.fleet import Profile

Item = TypeVar("Item")


class Line(Generic[Item]):
    """Carries items one behind the other, each as long as its size and the profile's link say."""

    def __init__(self, profile: Profile, rng: np.random.Generator) -> None:
        self._profile, self._rng = profile, rng
        self._free = self._newest = -math.inf
        self._waiting: deque[tuple[float, Item]] = deque()
        link = profile.link
        self.is_instant = link.latency == 0 and link.loss == 0 and link.bandwidth is None
        """Everything arrives when it is put on."""

    def become(self, profile: Profile) -> None:
        """Has what is put on from now on travel as this profile says, behind what was put on before."""
        self._profile, self.is_instant = profile, False

    @property
    def newest(self) -> float:
        """When the last thing put on arrives, or has arrived."""
        return self._newest

    def arrival(self, size: int, now: float) -> float:
        """Puts `size` bytes on the line at `now` (seconds), and gives the time at which they arrive."""
        self._free = max(now, self._free) + self._profile.sending(size)
        self._newest = max(self._free + self._profile.passing(self._rng), self._newest)
        return self._newest

    def put(self, item: Item, size: int, now: float) -> None:
        """Puts an item of `size` bytes on the line; `take` gives it back once it has arrived."""
        self._waiting.append((self.arrival(size, now), item))

    @property
    def due(self) -> float:
        """When the next item arrives; infinite if none is under way."""
        return self._waiting[0][0] if self._waiting else math.inf

    def take(self, now: float) -> list[Item]:
        """The items that have arrived by now, in their order. With an infinite `now`: all of them."""
        taken = []
        while self._waiting and self._waiting[0][0] <= now:
            taken.append(self._waiting.popleft()[1])
        return taken
