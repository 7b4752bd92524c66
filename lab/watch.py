"""Follows a launched run: shows how far it is, tells what fails, and ends every process in good order."""

from __future__ import annotations

import time
from collections.abc import Callable

from common.experiment import Experiment
from lab.fleet import Fleet
from lab.folder import RunFolder, Tail
from lab.history import History
from lab.process import Child
from lab.progress import Screen, status_of
from lab.signals import Signals

EXIT_INTERRUPTED = 130
LOOK_PERIOD = 0.2
"""Seconds between two looks at the records and processes."""
CLOUD_GRACE = 30.0
"""Seconds a cloud has to say goodbye to its edges once asked to stop."""
EDGE_GRACE = 20.0
"""Seconds edges have to account for their privacy and leave once the cloud is done."""
FAILED_GRACE = 3.0
"""The same where the cloud failed: nobody is left who would tell them that the run is over."""
DESERTED = 10.0
"""Seconds a cloud may go on when every edge has ended and some have failed."""


class Watch:
    """Follows one run from its start to its end."""

    def __init__(
        self, fleet: Fleet, folder: RunFolder, experiment: Experiment, screen: Screen, signals: Signals
    ) -> None:
        self._fleet = fleet
        self._experiment = experiment
        self._screen = screen
        self._signals = signals
        self._records = Tail(folder.records)
        self._log = Tail(folder.log("cloud"))
        self._history = History()
        self._deserted: float | None = None

    def follow(self) -> int:
        """Shows progress until the run is over, ends every process, and gives the exit code."""
        code = self._until(lambda: self._fleet.cloud.exit_code is not None or self._is_asked() or self._is_deserted())
        if self._is_asked():
            self._screen.say("stopping: edges account for their privacy, the cloud saves (again to end at once)")
        self._fleet.cloud.terminate()
        grace = CLOUD_GRACE if code is None else EDGE_GRACE if code == 0 else FAILED_GRACE
        self._fleet.finish(grace, lambda: self._signals.count > 1)
        self._look()
        if code is None:
            if self._is_asked():
                return EXIT_INTERRUPTED
            return next((edge.exit_code for edge in self._fleet.edges if edge.exit_code), None) or 1
        if code != 0:
            self._tell(self._fleet.cloud)
        return code

    def _until(self, is_over: Callable[[], bool]) -> int | None:
        """Looks again and again; the cloud's exit code once it is over, None if the cloud still runs."""
        while not is_over():
            self._look()
            time.sleep(LOOK_PERIOD)
        return self._fleet.cloud.exit_code

    def _look(self) -> None:
        now = time.time()
        for row in self._records.rows():
            self._history.add(row)
        for line in self._log.lines():
            if b" WARNING " in line:
                self._screen.say(f"cloud: {line.decode(errors='replace')}")
        for edge in self._fleet.fallen():
            self._tell(edge)
        self._screen.show(status_of(self._history, self._experiment, now), now)

    def _is_asked(self) -> bool:
        return self._signals.count > 0

    def _is_deserted(self) -> bool:
        """Whether all edges have ended, some with an error, and the cloud has not ended for that."""
        codes = [edge.exit_code for edge in self._fleet.edges]
        if None in codes or not any(codes):
            return False
        now = time.monotonic()
        self._deserted = self._deserted or now
        return now - self._deserted > DESERTED

    def _tell(self, child: Child) -> None:
        """Says that a process failed, with its last words."""
        self._screen.say(f"{child.name} ended with exit code {child.exit_code} ({child.log}):")
        for line in child.last_words():
            self._screen.say(f"    {line}")
