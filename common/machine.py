"""One edge's device, line and habits, with the dice that they need: the same law in the simulator and on a broker.

Pure: the time comes from its caller. Every use of chance has a stream of its own, named by seed and edge, so that an
edge is away at the same times and has the same luck in both worlds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from common.fleet import Link, Profile
from common.line import Line
from common.messages import Message, Model, Probe, Stop
from common.seeds import stream


class Machine:
    """What one edge runs on. `up` and `down` are the two directions of its line, as seen from the edge."""

    def __init__(self, profile: Profile, work: Mapping[str, float], seed: int, node: str) -> None:
        """`work`: records that the edge goes through for a message of each kind, as expected under sampling."""
        self._profile, self._work = profile, work
        self._device = stream(seed, node, "fleet", "device")
        self._churn = stream(seed, node, "fleet")
        self.up: Line[Any] = Line(profile, stream(seed, node, "fleet", "up"))
        self.down: Line[Any] = Line(profile, stream(seed, node, "fleet", "down"))
        self._ticket = 0
        self.is_over = False
        """It has heard that the run is over: it stays until it has said goodbye."""
        self.steps = self.slower = 0
        """Steps that `lag` was told of, and those among them that took longer than on the device."""

    def finish(self, message: Message, start: float) -> float | None:
        """When the device has done the work for a message that it reads at `start`; None if that takes no time.

        Work has a ticket; one that is not higher than those before was done, and is passed over.
        """
        self.is_over = self.is_over or isinstance(message, Stop)
        records = self._work.get(message.kind, 0.0)
        if records <= 0 or not isinstance(message, Model | Probe) or message.ticket <= self._ticket:
            return None
        self._ticket = message.ticket
        return self._profile.finish(records, start, self._device)

    def move(self, link: Link | None) -> None:
        """Has both directions of the line be this link from now on; None: that of the profile."""
        for line in (self.up, self.down):
            line.become(self._profile if link is None else replace(self._profile, link=link))

    def lag(self, finish: float, now: float) -> bool:
        """Notes that work really was done `now`. True the first time that this is later than on the device."""
        self.steps += 1
        self.slower += now > finish
        return now > finish and self.slower == 1

    def stay(self) -> float:
        """Seconds until the edge leaves, drawn anew for each stay; infinite without churn."""
        churn = self._profile.churn
        return math.inf if churn is None else float(self._churn.exponential(churn.up))

    def absence(self) -> float:
        """Seconds until an edge that leaves is back, drawn anew for each absence."""
        churn = self._profile.churn
        return 0.0 if churn is None else float(self._churn.exponential(churn.down))
