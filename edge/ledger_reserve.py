"""Releases set aside: written down for good before they are made, so that not each of them has to wait for the disk.

What a process writes outlives it, whatever ends it; only the end of the machine can take what is not on the disk yet.
So releases are set aside some at a time, on the disk, and each of them is then written without waiting. If the machine
went down (`uptime`), all that was set aside and is not in the file counts as made: too many perhaps, never too few.

Twice as many are set aside each time, up to MOST: of a kind that is released a few times, few are lost. Where there is
no telling whether the machine went down, nothing is set aside, and each release waits.
"""

from __future__ import annotations

import sqlite3
from collections import Counter

from edge.ledger_format import Kind, reserve_link

MOST = 64
"""Releases of one kind that are set aside at once."""


class Reserve:
    """What one process has set aside, by event."""

    def __init__(self, connection: sqlite3.Connection, life: int, written: int) -> None:
        """Nothing is set aside yet; `written`: reserves in the file."""
        self._connection = connection
        self._life = life
        self._left: Counter[Kind] = Counter()
        self._made: Counter[Kind] = Counter()
        self.written = written

    def use(self, event: Kind) -> None:
        """One of them was released."""
        self._left[event] -= 1
        self._made[event] += 1

    def lacks(self, event: Kind) -> bool:
        """Whether more have to be set aside before the next release of this kind."""
        return self._left[event] <= 0

    def add(self, head: bytes, after: int, event: Kind, room: int | None) -> bytes:
        """Sets more aside, on the disk when this returns, with all that was written before; the new chain value.

        Args:
            head: the chain value so far.
            after: releases in the file so far.
            event: what will be released.
            room: releases of this kind that the budget leaves; None for no limit.

        Raises:
            sqlite3.Error: it could not be written.
        """
        count = max(1, min(self._made[event], MOST, room if room is not None else MOST))
        return self._write(head, after, event, count)

    def give_back(self, head: bytes, after: int) -> bytes:
        """Takes back what was not used; the new chain value. Everything is on the disk when this returns."""
        for event, count in self._left.items():
            if count > 0:
                head = self._write(head, after, event, -count)
        return head

    def _write(self, head: bytes, after: int, event: Kind, count: int) -> bytes:
        number = self.written + 1
        link = reserve_link(head, number, count, event.mark)
        self._connection.execute("PRAGMA synchronous=FULL")
        row = (number, self._life, after, event.number, count, link)
        self._connection.execute("INSERT INTO reserves VALUES(?, ?, ?, ?, ?, ?)", row)
        self._connection.execute("PRAGMA synchronous=NORMAL")
        self.written = number
        self._left[event] += count
        return link
