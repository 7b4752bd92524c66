"""A person's wish to stop: as a count that can be asked for, or as Ctrl-C."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interruptible() -> Iterator[None]:
    """While the context lasts, terminate and hang-up are what Ctrl-C is: work ends, and what it had in files goes."""
    numbers = [number for number in NUMBERS if signal.getsignal(number) is signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


class Signals:
    """Counts requests to stop (Ctrl-C, terminate, hang-up) instead of being torn out of the work at hand."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """One more request."""
        self.count += 1

    @contextmanager
    def listening(self) -> Iterator[Signals]:
        """Takes the signals over while the context lasts."""
        numbers = [number for number in NUMBERS if signal.getsignal(number) is not signal.SIG_IGN]  # as under nohup
        before = {number: signal.signal(number, self) for number in numbers}
        try:
            yield self
        finally:
            for number, previous in before.items():
                signal.signal(number, previous)
