"""When to evaluate, when to stop."""

from __future__ import annotations

import pytest

from cloud.progress import Progress
from common.experiment import Evaluation, Stop


@pytest.mark.parametrize(("every", "due"), [(0, []), (1, [1, 2, 3, 4, 5]), (2, [2, 4]), (3, [3]), (7, [])])
def test_cadence(every: int, due: list[int]) -> None:
    progress = Progress(Stop(updates=6), Evaluation(every=every))
    assert [number for number in range(1, 7) if progress.count()] == due  # the last is evaluated by whoever ends
    assert progress.is_complete
    assert progress.is_evaluated == (every > 0)


def test_without_a_number_of_updates_only_the_clock_ends_it() -> None:
    progress = Progress(Stop(seconds=2.0), Evaluation(every=0))
    for _ in range(1000):
        progress.count()
    assert not progress.is_complete
    assert progress.seconds == 2.0
