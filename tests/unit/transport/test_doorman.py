"""The door: room, rate, strangers, and who is muted, by topic and size alone."""

from __future__ import annotations

from typing import Any

import pytest

from common import doorman as module
from common.allowance import Allowance
from common.doorman import FORGIVE, LARGEST, Doorman, Guests, Manners
from common.node import CLOUD
from common.topics import Topics

HELLO, STATUS = "fl/run/edge/edge-0001/up/hello", "fl/run/edge/edge-0001/status"
OTHER = "fl/run/edge/edge-0002/up/hello"


class Door(Doorman):
    """A door with a clock that is set by hand."""

    def __init__(self, *, guests: bool = True, **manners: Any) -> None:
        self.now = 100.0
        expected = Guests(frozenset({"edge-0001", "edge-0002"}), Manners(**manners)) if guests else None
        super().__init__(Topics("run", CLOUD), lambda: self.now, expected)

    def read(self, topic: str, size: int = 100) -> bool:
        """A payload comes and is read at once."""
        is_in = self.lets_in(topic, size)
        if is_in:
            self.took(topic, size)
        return is_in


def test_an_allowance_fills_again_up_to_its_most() -> None:
    allowance = Allowance(3, per_second=2)
    assert [allowance.take(10.0) for _ in range(4)] == [True, True, True, False]
    assert not allowance.take(10.4)
    assert allowance.take(10.5)
    assert [allowance.take(1000.0) for _ in range(4)] == [True, True, True, False]
    assert not allowance.take(0.0)


def test_what_is_given_to_an_allowance_does_not_pile_up() -> None:
    allowance = Allowance(3, per_second=1)
    for _ in range(100):
        allowance.give(2)
    assert sum(allowance.take(0.0) for _ in range(100)) == 6
    allowance.give(50)
    assert sum(allowance.take(0.0) for _ in range(100)) == 50


def test_the_room_of_all_together_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 100)
    door = Door(guests=False)
    assert [door.lets_in("any", 40) for _ in range(5)] == [True, True, False, False, False]
    assert (door.take_lost(), door.take_lost()) == ((3, 0), (0, 0))
    door.took("any", 40)
    assert door.lets_in("any", 40)
    monkeypatch.setattr(module, "MOST_WAITING", 3)
    assert [door.lets_in("any", 1) for _ in range(2)] == [True, False]


def test_an_edge_that_answers_what_it_is_asked_is_never_too_fast() -> None:
    door = Door(burst=8, rate=1.0)
    for _ in range(1000):
        door.asked("edge-0001", 2)
        assert door.read(HELLO)
    assert door.take_muted() == []


def test_an_edge_that_sends_too_fast_is_muted_alone() -> None:
    door = Door(burst=8, rate=1.0, faults=5)
    assert sum(door.read(HELLO) for _ in range(100)) == 8
    (muted,) = door.take_muted()
    assert (muted.sender, muted.faults) == ("edge-0001", 6)
    assert "a second unasked" in muted.why
    assert door.take_muted() == []
    assert door.read(OTHER)
    door.now += 1e6
    assert not door.read(HELLO), "it stays so"
    assert not door.read(STATUS), "on all of its topics"
    assert door.unread() == {"edge-0001": 94}


def test_what_an_edge_has_waiting_is_bounded_and_leaves_room_for_others() -> None:
    door = Door(waiting=2_000_000)
    assert [door.lets_in(HELLO, 900_000) for _ in range(3)] == [True, True, False]
    assert door.lets_in(OTHER, 900_000)
    door.took(HELLO, 900_000)
    assert door.lets_in(HELLO, 900_000)


def test_what_should_have_come_in_chunks_is_not_read() -> None:
    door = Door()
    assert door.read(HELLO, LARGEST)
    assert not door.read(HELLO, LARGEST + 1)


def test_faults_are_forgotten_with_time() -> None:
    door = Door(faults=3)
    assert door.read(HELLO)
    for _ in range(50):
        door.blame("edge-0001", "bad")
        door.now += FORGIVE
    assert door.take_muted() == []
    for _ in range(4):
        door.blame("edge-0001", "worse")
    assert [(muted.sender, muted.why) for muted in door.take_muted()] == [("edge-0001", "worse")]
    door.blame("edge-0001", "again")
    assert door.take_muted() == []


def test_strangers_may_say_a_little_and_only_so_many_of_them() -> None:
    door = Door(strangers=2)
    names = [f"fl/run/edge/stranger-{number}/up/hello" for number in range(1000)]
    assert [door.read(name) for name in names[:4]] == [True, True, False, False]
    for name in names:
        door.read(name)
    assert len(door._known) == 2
    assert sum(door.read(names[0]) for _ in range(100)) == 6, "of eight, two were used"
    assert door.take_lost() == (0, 1000)
    assert door.read(HELLO)


def test_a_topic_of_nobody_is_not_read_and_the_own_one_is() -> None:
    door = Door(burst=8)
    assert not door.read("fl/other-run/edge/edge-0001/up/hello")
    assert not door.read("fl/run/edge/Edge!/up/hello")
    assert all(door.read("fl/run/cloud/status") for _ in range(100))


def test_what_waits_when_its_sender_is_muted_is_not_read_either() -> None:
    door = Door(faults=1)
    assert [door.lets_in(HELLO, 100) for _ in range(3)] == [True] * 3
    assert door.took(HELLO, 100)
    for _ in range(2):
        door.blame("edge-0001", "bad")
    assert [door.took(HELLO, 100) for _ in range(2)] == [False, False]
    assert door.unread() == {"edge-0001": 2}
    assert door.took("of/nobody", 100)
