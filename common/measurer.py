"""Evaluations off the update path: one background thread, fed with copies."""

from __future__ import annotations

import functools
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from common.errors import LocalProtocolError
from common.inbox import Broken
from common.tensors import Tensors

Evaluate = Callable[[Tensors], Mapping[str, float]]
WAITING = 4
"""Evaluations that may wait; beyond that the oldest of them is skipped, so that the last one is never lost."""


@dataclass(slots=True)
class Measured:
    """The scores of one version of the parameters."""

    version: int
    scores: Mapping[str, float]


class Measurer:
    """Evaluates parameters one after the other and reports the scores."""

    def __init__(self, evaluate: Evaluate | None, report: Callable[[Measured | Broken], None]) -> None:
        """`report` is called in the background thread."""
        self._evaluate, self._report = evaluate, report
        self._waiting: deque[tuple[int, Tensors]] = deque()
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def submit(self, version: int, tensors: Tensors) -> int | None:
        """Takes a copy of the parameters in. Gives the version that was skipped, if one was.

        Raises:
            LocalProtocolError: nobody said how to evaluate.
        """
        if self._evaluate is None:
            raise LocalProtocolError(f"Measure of version {version}: expected a shell that was given `evaluate`")
        if self._thread is None:
            work = functools.partial(self._work, self._evaluate)
            self._thread = threading.Thread(target=work, name="measurer", daemon=True)
            self._thread.start()
        tensors = tensors.copy()
        with self._changed:
            self._waiting.append((version, tensors))
            skipped = self._waiting.popleft()[0] if len(self._waiting) > WAITING else None
            self._changed.notify()
        return skipped

    def finish(self, *, discard: bool = False) -> None:
        """Waits for what is under way, and for all that waits unless it is to be discarded."""
        with self._changed:
            if discard:
                self._waiting.clear()
            self._is_closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _work(self, evaluate: Evaluate) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._is_closed)
                if not self._waiting:
                    return
                version, tensors = self._waiting.popleft()
            try:
                self._report(Measured(version, dict(evaluate(tensors))))
            except Exception as error:  # the main thread raises it again
                self._report(Broken(error))
