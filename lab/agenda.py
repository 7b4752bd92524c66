"""What is to happen, in the order of time, and at one time in the order in which it was caused.

What happens at once goes into a queue, what happens later onto a heap. Both are ordered by a number that grows with
every cause, so that together they are one order.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any, Generic, TypeVar

from common.node import Seconds

Who = TypeVar("Who")
Action = Callable[[Who, Any], None]


class Timer:
    """One wake-up of a node. However often it is put off, it has one place on the agenda: where it was first due.

    `token` is new for each time that it is set. `place` and `look`: the number and time of its place.
    """

    __slots__ = ("at", "look", "name", "place", "token")

    def __init__(self, name: str) -> None:
        self.name = name
        self.token = self.place = -1
        self.at = self.look = math.inf


class Agenda(Generic[Who]):
    """Actions, each with whom and what it is about, and the time that it is now."""

    def __init__(self) -> None:
        self.now: Seconds = 0.0
        self._later: list[tuple[Seconds, int, Action[Who], Who, Any]] = []
        self._soon: deque[tuple[Seconds, int, Action[Who], Who, Any]] = deque()
        self._numbers = count()

    def at(self, time: Seconds, action: Action[Who], who: Who, what: Any) -> None:
        """Has `action(who, what)` happen at a time, which is not before now."""
        entry = (time, next(self._numbers), action, who, what)
        if time > self.now:
            heapq.heappush(self._later, entry)
        else:
            self._soon.append(entry)

    def clear(self) -> None:
        """Nothing is to happen any more."""
        self._later.clear()
        self._soon.clear()

    def waits(self, until: Seconds) -> bool:
        """Whether nothing is to happen up to this time, which it is then."""
        if self._soon or (self._later and self._later[0][0] <= until):
            return False
        self.now = max(self.now, until)
        return True

    def take(self) -> tuple[Seconds, int, Action[Who], Who, Any] | None:
        """The next entry, removed: now it is its time. None if there is none."""
        soon, later = self._soon, self._later
        if soon and not (later and later[0] < soon[0]):
            return soon.popleft()
        if not later:
            return None
        entry = heapq.heappop(later)
        self.now = entry[0]
        return entry

    def set(self, timer: Timer, time: Seconds, action: Action[Who], who: Who) -> None:
        """Has `action(who, (timer, place))` happen at a time, and not when it was set to before; see `rings`."""
        timer.at, timer.token = time, next(self._numbers)
        if time < timer.look:
            self._place(timer, action, who)

    def rings(self, timer: Timer, place: int, action: Action[Who], who: Who) -> bool:
        """Whether the timer is due, now that its place has come up; if it was put off, it gets the right place."""
        if place != timer.place:
            return False  # it was set to an earlier time, and has another place
        if place == timer.token:
            timer.look = math.inf
            return True
        self._place(timer, action, who)
        return False

    def _place(self, timer: Timer, action: Action[Who], who: Who) -> None:
        timer.look, timer.place = timer.at, timer.token
        heapq.heappush(self._later, (timer.at, timer.token, action, who, (timer, timer.token)))
