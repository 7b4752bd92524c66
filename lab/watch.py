"""Follows a launched run: shows how far it is, tells what fails, and ends every process in good order."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from common.experiment import Experiment
from lab.crew import Crew, Member
from lab.folder import RunFolder, Tail
from lab.history import History
from lab.progress import Screen, status_of
from lab.signals import Signals

EXIT_INTERRUPTED = 130
LOOK_PERIOD = 0.2
"""Seconds between two looks at the records and processes."""
CLOUD_GRACE = 30.0
"""Seconds a cloud has to say goodbye to its edges once asked to stop."""
EDGE_GRACE = 20.0
"""Seconds edges have to account for their privacy and leave once the cloud is done."""
FAILED_GRACE = 2.0
"""The same where the cloud failed or was stopped: nobody is left who would tell them that the run is over."""
DESERTED = 10.0
"""Seconds a cloud may go on when every edge has ended and some have failed."""


@dataclass(frozen=True)
class Ending:
    """How a run ended. `is_interrupted`: a person stopped it; `fault`: why it failed, if its edges are to blame."""

    code: int
    is_interrupted: bool = False
    fault: str | None = None


class Watch:
    """Follows one run from its start to its end."""

    def __init__(self, crew: Crew, folder: RunFolder, experiment: Experiment, screen: Screen, signals: Signals) -> None:
        self._crew = crew
        self._experiment = experiment
        self._screen = screen
        self._signals = signals
        self._records = Tail(folder.records)
        self._log = Tail(folder.log("cloud"))
        self._history = History()
        self._deserted: float | None = None

    def follow(self) -> Ending:
        """Shows progress until the run is over, ends every process, and says how it ended."""
        code = self._until(lambda: self._crew.cloud.exit_code is not None or self._is_asked() or self._is_deserted())
        if self._is_asked():
            self._screen.say("stopping: edges account for their privacy, the cloud saves (again to end at once)")
        self._crew.cloud.terminate()
        is_asked = code is None and self._is_asked()
        self._crew.finish(CLOUD_GRACE, _edge_grace, lambda: self._signals.count > 1)
        self._look()
        if is_asked:
            return Ending(EXIT_INTERRUPTED, is_interrupted=True)
        if code:
            self._tell(self._crew.cloud)
        ending = ending_of(code, {edge.name: edge.exit_code for edge in self._crew.edges})
        if ending.fault is not None:
            self._screen.say(ending.fault)
        return ending

    def _until(self, is_over: Callable[[], bool]) -> int | None:
        """Looks again and again; the cloud's exit code once it is over, None if the cloud still runs."""
        while not is_over():
            self._look()
            time.sleep(LOOK_PERIOD)
        return self._crew.cloud.exit_code

    def _look(self) -> None:
        now = time.time()
        for row in self._records.rows():
            if not self._history.add(row):
                self._screen.say(f"warning: damaged row in the cloud's records, passed over: {str(row)[:200]}")
        for line in self._log.lines():
            if b" WARNING " in line:
                self._screen.say(f"cloud: {line.decode(errors='replace')}")
        for edge in () if self._is_asked() else self._crew.fallen():  # asked to stop, they end with the signal's code
            self._tell(edge)
        self._screen.show(status_of(self._history, self._experiment, now), now)

    def _is_asked(self) -> bool:
        return self._signals.count > 0

    def _is_deserted(self) -> bool:
        """Whether all edges have ended, some with an error, and the cloud has not ended for that."""
        codes = [edge.exit_code for edge in self._crew.edges]
        if None in codes or not any(codes):
            return False
        now = time.monotonic()
        self._deserted = self._deserted or now
        return now - self._deserted > DESERTED

    def _tell(self, member: Member) -> None:
        """Says that a node failed, with its last words."""
        self._screen.say(f"{member.name} ended with exit code {member.exit_code} ({member.log}):")
        for line in member.last_words():
            self._screen.say(f"    {line}")


def ending_of(code: int | None, edges: Mapping[str, int | None]) -> Ending:
    """The ending of a run that nobody stopped: a run that every edge has left with an error has failed.

    Args:
        code: the cloud's exit code; None if it had to be ended because no edge was left.
        edges: the exit code of each edge.
    """
    failed = {name: number for name, number in edges.items() if number}
    if code or (code == 0 and len(failed) < len(edges)):
        return Ending(code)
    named = ", ".join(f"{name} ({number})" for name, number in failed.items())
    first = next(iter(failed.values()), None) if code is None else None
    return Ending(first or 1, fault=f"every edge ended, with exit code: {named}")


def _edge_grace(code: int) -> float:
    return EDGE_GRACE if code == 0 else FAILED_GRACE
