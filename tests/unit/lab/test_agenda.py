"""The agenda keeps the order of time and cause, and a timer that is put off rings once, when it was last set to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from lab.agenda import Agenda, Timer

COUNT = 400


def emptied(agenda: Agenda[str]) -> list[tuple[float, str]]:
    """What happens, and when; nothing that happens causes anything."""
    happened: list[tuple[float, str]] = []
    while (entry := agenda.take()) is not None:
        time, _, _, who, _ = entry
        happened.append((time, who))
        assert agenda.now >= time
    return happened


def nothing(_who: str, _what: Any) -> None:
    """What the agenda carries without looking into it."""


def test_what_is_due_at_one_time_happens_in_the_order_in_which_it_was_caused() -> None:
    agenda: Agenda[str] = Agenda()
    for who, time in (("c", 2.0), ("a", 0.0), ("d", 2.0), ("b", 0.0), ("e", 1.0)):
        agenda.at(time, nothing, who, None)
    assert emptied(agenda) == [(0.0, "a"), (0.0, "b"), (1.0, "e"), (2.0, "c"), (2.0, "d")]


def test_what_is_caused_now_waits_for_what_was_due_now_before() -> None:
    agenda: Agenda[str] = Agenda()
    for who in ("first", "second"):
        agenda.at(1.0, nothing, who, None)
    assert agenda.take() is not None
    agenda.at(agenda.now, nothing, "caused by the first", None)
    assert [who for _, who in emptied(agenda)] == ["second", "caused by the first"]


@pytest.mark.parametrize("seed", range(5))
def test_any_course_of_events_is_that_of_a_sorted_list(seed: int) -> None:
    rng = np.random.default_rng(seed)
    agenda: Agenda[str] = Agenda()
    asked: list[tuple[float, int]] = []
    happened: list[tuple[float, int]] = []
    while len(asked) < COUNT or len(happened) < COUNT:
        if len(asked) < COUNT and (len(asked) == len(happened) or rng.random() < 0.6):
            time = agenda.now + float(rng.integers(3))
            agenda.at(time, nothing, str(len(asked)), None)
            asked.append((time, len(asked)))
        else:
            entry = agenda.take()
            assert entry is not None
            due = min(each for each in asked if each not in happened)
            happened.append((entry[0], int(entry[3])))
            assert happened[-1] == due
    assert agenda.take() is None


def rung(agenda: Agenda[str], timer: Timer) -> list[float]:
    """When the timer rings, and that nothing is left afterwards."""
    times = []
    while (entry := agenda.take()) is not None:
        _, _, action, who, (found, place) = entry
        if agenda.rings(found, place, action, who):
            assert found is timer
            times.append(agenda.now)
    return times


@pytest.mark.parametrize(
    ("settings", "due"),
    [
        ((3.0,), 3.0),
        ((3.0, 5.0, 9.0), 9.0),
        ((9.0, 5.0, 3.0), 3.0),
        ((5.0, 3.0, 9.0), 9.0),
        ((5.0, 5.0), 5.0),
        ((0.0,), 0.0),
    ],
)
def test_a_timer_rings_once_when_it_was_last_set_to(settings: Sequence[float], due: float) -> None:
    agenda: Agenda[str] = Agenda()
    timer = Timer("repeat")
    for time in settings:
        agenda.set(timer, time, nothing, "edge")
    assert rung(agenda, timer) == [due]


def test_a_timer_can_be_set_again_after_it_rang() -> None:
    agenda: Agenda[str] = Agenda()
    timer = Timer("repeat")
    for time in (2.0, 7.0):
        agenda.set(timer, time, nothing, "edge")
        assert rung(agenda, timer) == [time]


def test_a_timer_that_is_put_off_for_ever_takes_one_place() -> None:
    agenda: Agenda[str] = Agenda()
    timer = Timer("repeat")
    for time in range(1, 1000):
        agenda.set(timer, float(time), nothing, "edge")
    taken = 0
    while (entry := agenda.take()) is not None:
        taken += 1
        agenda.rings(timer, entry[4][1], nothing, "edge")
    assert taken == 2, "where it was first due, and where it is"


def test_nothing_happens_any_more_on_a_cleared_agenda() -> None:
    agenda: Agenda[str] = Agenda()
    for time in (0.0, 1.0):
        agenda.at(time, nothing, "edge", None)
    agenda.clear()
    assert agenda.take() is None
