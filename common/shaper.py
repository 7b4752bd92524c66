"""Stands between a shell and its connection and shapes the traffic as the profile of its edge says.

What the shell sends, and what arrives for it, waits on a line until it is due; both directions keep their order, and
nothing is lost. With churn the connection breaks now and then, without a word, so that the broker sends the last will
of an edge that the client then brings back: what was on its way when the edge left still gets out, what the edge says
while it is away waits until it is back, and nothing reaches it meanwhile.

A thread of its own does this, so that lines move while the node works. What a status topic says is not shaped: it is
no part of the run, and a process joins by it.
"""

from __future__ import annotations

import math
import queue
import threading
import time
from dataclasses import dataclass
from typing import Any

from common.inbox import Arrived, Broken, Denied, Down, Inbox, Ready
from common.link import Link
from common.machine import Machine
from common.node import Seconds

_LOOK: Seconds = 60.0
"""Longest wait of the thread at a time."""


@dataclass(slots=True)
class Away:
    """The edge is away, as its profile wants it, and back after so many seconds."""

    seconds: Seconds


@dataclass(slots=True)
class Missed:
    """A payload of so many bytes reached an edge that is away."""

    topic: str
    size: int


@dataclass(slots=True)
class _Leaving:
    topic: str
    payload: bytes
    retained: bool


class _Beginning:
    """The node starts: from now on the edge may leave."""


class _Closing:
    """The shell has nothing more to say."""


class Shaper:
    """The lines of one edge. The link drops its events into `inlet`; they come out in the shell's inbox."""

    def __init__(self, machine: Machine, status: str, inbox: Inbox) -> None:
        """`status`: topic of the edge's own presence."""
        self.inlet: Inbox = queue.SimpleQueue()
        self._machine, self._status, self._inbox = machine, status, inbox
        self._held: list[_Leaving] = []
        self._leave_at = math.inf
        self._back_at = -math.inf
        self._is_here, self._is_cut = True, False

    def start(self, link: Link) -> None:
        """Begins, in a thread of its own."""
        self._link = link
        self._thread = threading.Thread(target=self._run, name="shaper", daemon=True)
        self._thread.start()

    def begin(self) -> None:
        """The node starts; until now, the process has only looked for its place."""
        self.inlet.put(_Beginning())

    def publish(self, topic: str, payload: bytes, retained: bool = False) -> bool:
        """Puts a payload on the line. The broker's refusal, if there is one, comes as an event."""
        self.inlet.put(_Leaving(topic, payload, retained))
        return True

    def close(self) -> Seconds:
        """Hands over at once all that waits, and ends. Gives the seconds until the edge is back, if it is away."""
        self.inlet.put(_Closing())
        self._thread.join()
        return max(0.0, self._back_at - time.monotonic()) if self._is_cut else 0.0

    def _run(self) -> None:
        try:
            while self._turn():
                pass
        except Exception as error:  # the main thread raises it again
            self._inbox.put(Broken(error))

    def _turn(self) -> bool:
        """Takes in what there is and lets out what is due. False: it was the last turn."""
        due = min(self._machine.up.due, self._machine.down.due, self._leave_at) - time.monotonic()
        try:
            event = self.inlet.get(timeout=min(max(due, 0.0), _LOOK))
        except queue.Empty:
            event = None
        now = time.monotonic()
        if isinstance(event, _Closing):
            self._let_out(math.inf)
            return False
        if event is not None:
            self._take_in(event, now)
        self._let_out(now)
        if now >= self._leave_at:
            self._leave(now)
        if not (self._is_here or self._is_cut) and self._machine.up.due == math.inf:
            self._cut(now)
        return True

    def _take_in(self, event: Any, now: Seconds) -> None:
        match event:
            case _Leaving() if self._is_here:
                self._machine.up.put(event, len(event.payload), now)
            case _Leaving():
                self._held.append(event)
            case Arrived() if event.topic != self._status:
                self._machine.down.put(event, len(event.payload), now)
            case Down() if self._is_cut and now < self._back_at:
                pass  # told already, as an absence
            case Ready():
                self._inbox.put(event)
                if self._is_cut:
                    self._return(now)
            case _Beginning():
                self._leave_at = now + self._machine.stay()
            case _:
                self._inbox.put(event)

    def _let_out(self, now: Seconds) -> None:
        is_last = now == math.inf
        for event in [*self._machine.up.take(now), *(self._held if is_last else ())]:
            if not self._link.publish(event.topic, event.payload, event.retained):
                self._inbox.put(Denied("too many wait for the broker"))
        for event in self._machine.down.take(now):
            self._inbox.put(event if self._is_here else Missed(event.topic, len(event.payload)))

    def _leave(self, now: Seconds) -> None:
        """The edge goes away, unless it is about to say goodbye: the connection stands until its line is empty."""
        self._leave_at = math.inf
        if not self._machine.is_over:
            self._is_here, self._back_at = False, now + self._machine.absence()

    def _cut(self, now: Seconds) -> None:
        """Breaks the connection: all that was on its way out is out."""
        seconds = max(0.0, self._back_at - now)
        self._is_cut = True
        self._inbox.put(Away(seconds))
        self._link.cut(seconds)

    def _return(self, now: Seconds) -> None:
        """The edge is back: it says what it has to say, and may leave again."""
        self._is_here, self._is_cut = True, False
        self._leave_at = now + self._machine.stay()
        held, self._held = self._held, []
        for event in held:
            self._machine.up.put(event, len(event.payload), now)
