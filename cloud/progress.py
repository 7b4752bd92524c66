"""How far the run is: counts updates, says when to evaluate and when to stop."""

from __future__ import annotations

from common.experiment import Evaluation, Stop


class Progress:
    """The count of updates against the stop rule and the evaluation's cadence."""

    STATE = ("updates",)

    def __init__(self, stop: Stop, evaluation: Evaluation) -> None:
        self._stop = stop
        self._every = evaluation.every
        self.updates = 0

    @property
    def seconds(self) -> float | None:
        """Seconds of training after which the run ends."""
        return self._stop.seconds

    @property
    def is_complete(self) -> bool:
        """Whether the run has all its updates."""
        return self._stop.updates is not None and self.updates >= self._stop.updates

    @property
    def is_evaluated(self) -> bool:
        """Whether the run is evaluated on the way, not only at its end."""
        return self._every > 0

    def count(self) -> bool:
        """One more update was applied. True if the parameters are due for an evaluation now.

        The last parameters are always evaluated, by whoever ends the run; so not here as well.
        """
        self.updates += 1
        return self.is_evaluated and self.updates % self._every == 0 and not self.is_complete
