"""How much of something may come: so much at once, and so much a second again.

Pure: the time comes from its caller. A clock that goes back gives nothing back.
"""

from __future__ import annotations

import math


class Allowance:
    """A bucket of `most`, which fills again by `per_second`."""

    __slots__ = ("_left", "_most", "_per_second", "_since")
    STATE = __slots__

    def __init__(self, most: float, per_second: float) -> None:
        self._most, self._per_second = most, per_second
        self._left, self._since = most, math.inf

    def take(self, now: float, amount: float = 1.0) -> bool:
        """Takes `amount` out at `now`, in seconds. False: there is too little, and it stays as it is."""
        if now > self._since and self._left < self._most:
            self._left = min(self._most, self._left + (now - self._since) * self._per_second)
        self._since = now
        if self._left < amount:
            return False
        self._left -= amount
        return True

    def give(self, amount: float) -> None:
        """Puts something in besides; what is not taken does not pile up."""
        self._left = min(self._left + amount, max(2 * self._most, self._most + amount))
