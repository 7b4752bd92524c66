"""What a shell itself has to say: one row in the records and one quiet line in the log, never a payload."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping

from common.errors import FederationError, RecordError
from common.node import NodeId, Seconds
from common.records import Recorder

LOG = logging.getLogger(__name__)
COMPLAIN, COMPLAIN_MOST = 1.0, 60.0
"""Seconds between two rows about what the same sender does wrong: at first, and if it goes on (doubled each time)."""
_MOST = 10_000


class Journal:
    """The shell's own rows: connection, evaluation, dropped, failed."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._told: dict[NodeId, tuple[Seconds, Seconds]] = {}  # when, and how long nothing more is said
        self._untold: dict[NodeId, int] = {}

    def note(self, kind: str, row: Mapping[str, object], now: Seconds, level: int = logging.INFO) -> None:
        """Records a row, and logs it.

        Raises:
            RecordError: it could not be written.
        """
        self._recorder.append(kind, row, now)
        LOG.log(level, "%s %s", kind, " ".join(f"{key}={value!r}" for key, value in row.items()))

    def dropped(self, sender: NodeId, reason: str, now: Seconds) -> bool:
        """Notes what was thrown away, now and then for each sender, with the number of times. False: not yet again."""
        if len(self._told) >= _MOST and sender not in self._told:
            self._untold.clear()
            self._told.clear()
        self._untold[sender] = self._untold.get(sender, 0) + 1
        told, pause = self._told.get(sender, (-math.inf, COMPLAIN))
        if now - told < pause:
            return False
        is_going_on = now - told < 2 * pause
        self._told[sender] = (now, min(2 * pause, COMPLAIN_MOST) if is_going_on else COMPLAIN)
        count = self._untold.pop(sender)
        self.note("dropped", {"sender": sender, "reason": reason, "count": count}, now, logging.WARNING)
        return True

    def failed(self, error: BaseException, now: Seconds) -> str:
        """Notes why the process ends before its time; a full disk does not hide it. Gives the reason as text."""
        known = isinstance(error, FederationError | KeyboardInterrupt)
        reason = (str(error) or "interrupted") if known else f"{type(error).__name__}: {error}"
        try:
            self.note("failed", {"error": type(error).__name__, "reason": reason}, now, logging.ERROR)
        except RecordError as second:
            LOG.error("failed reason=%r records=%r", reason, str(second))  # noqa: TRY400 - no traceback for a full disk
        return reason
