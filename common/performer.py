"""Performs what a node decided, and writes down what its shell has to say."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress

from common.courier import Courier
from common.doorman import Doorman, Muted
from common.errors import WireError
from common.journal import Journal
from common.measurer import Measurer
from common.messages import Bye, Refusal, Stop
from common.node import CLOUD, EDGES, Effect, Halt, Measure, NodeId, Record, Seconds, Send, Wake
from common.records import Recorder
from common.timers import Timers
from common.topics import is_edge


class Performer:
    """The hands of one node. `halt`: how it wants to end."""

    def __init__(
        self, node: NodeId, doorman: Doorman, courier: Courier, recorder: Recorder, measurer: Measurer
    ) -> None:
        self.halt: Halt | None = None
        self.timers = Timers()
        self.journal = Journal(recorder)
        self._node, self._doorman, self._courier = node, doorman, courier
        self._recorder, self._measurer = recorder, measurer

    def perform(self, effects: Sequence[Effect], now: Seconds) -> None:
        """Performs effects at once: their tensors are valid until the node's next event only."""
        for effect in effects:
            match effect:
                case Send(to, message):
                    try:
                        self._courier.send(to, message, now)
                    except WireError as error:
                        self.drop(self._node, error, now, tell=False)
                    if isinstance(message, Refusal | Stop) and isinstance(to, str):
                        self._doorman.blame(to, message.reason)
                case Wake(name, after):
                    self.timers.set(name, now + after)
                case Record(kind, row):
                    self._recorder.append(kind, row, now)
                case Measure(version, tensors):
                    skipped = self._measurer.submit(version, tensors)
                    if skipped is not None:
                        reason = "evaluations are asked for faster than made"
                        self.note("skipped", {"version": skipped, "reason": reason}, now)
                case Halt():
                    self.halt = effect

    def drop(self, sender: NodeId, error: WireError, now: Seconds, *, tell: bool = True) -> None:
        """Records what was thrown away. `tell`: it is its sender's fault, and the cloud tells that edge."""
        is_news = self.journal.dropped(sender, str(error), now)
        if tell:
            self._doorman.blame(sender, str(error))
        if is_news and tell and self._node == CLOUD and is_edge(sender):
            self._tell(sender, Refusal(reason=str(error)[:500]), now)

    def mute(self, muted: Muted, now: Seconds) -> None:
        """Records that nothing of an edge is read any more, and tells it, once."""
        row = {"edge": muted.sender, "faults": muted.faults, "reason": muted.why}
        self.note("muted", row, now, logging.WARNING)
        reason = f"muted after {muted.faults} faults: {muted.why}"
        self._tell(muted.sender, Stop(reason=reason[:500], failed=True), now)

    def part(self, last: Stop | Bye, now: Seconds, *, stays: bool) -> None:
        """Tells the other side that this process ends. `stays`: edges that come later are told as well."""
        with suppress(WireError):
            self._courier.send(EDGES if isinstance(last, Stop) else CLOUD, last, now, stays=stays)

    def note(self, kind: str, row: Mapping[str, object], now: Seconds, level: int = logging.INFO) -> None:
        """Records a row of the shell's own."""
        self.journal.note(kind, row, now, level)

    def _tell(self, edge: NodeId, message: Refusal | Stop, now: Seconds) -> None:
        """Says something that an edge need not hear: where there is no room for it, it is not said."""
        with suppress(WireError):
            self._courier.send(edge, message, now)
