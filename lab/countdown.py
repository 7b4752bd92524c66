"""How far a long computation is and how long it still takes: one line that rewrites itself, or one now and then."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

PERIOD = 2.0
"""Seconds between two lines where lines stay; a terminal's line is rewritten five times as often."""


class Countdown:
    """Counts `what` towards a known end."""

    def __init__(self, what: str, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` in seconds."""
        self._what = what
        self._stream = stream
        self._clock = clock
        self._start = self._next = clock()
        self._rewrites = stream.isatty()

    def show(self, done: int, whole: int) -> None:
        """Tells, unless that was done a moment ago."""
        now = self._clock()
        if now < self._next:
            return
        self._next = now + (PERIOD / 5 if self._rewrites else PERIOD)
        left = (now - self._start) * (whole - done) / done if done else 0.0
        minutes, seconds = divmod(round(left), 60)
        line = f"{done:,} of {whole:,} {self._what}, {minutes}:{seconds:02d} left"
        print(
            f"\r{line}\x1b[K" if self._rewrites else line,
            file=self._stream,
            end="" if self._rewrites else "\n",
            flush=True,
        )

    def close(self) -> None:
        """Clears a line that rewrites itself."""
        if self._rewrites:
            print("\r\x1b[K", file=self._stream, end="", flush=True)
