"""Line and Barrier: what is due when."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from cloud.barrier import Arrival, Barrier, Line
from cloud.roster import Roster
from common.events import Event
from common.messages import Bye, Hello, Update
from common.tensors import Layout, Tensors

EDGES = ("edge-0001", "edge-0002", "edge-0003")


def arrival(edge: str, ticket: int = 1) -> Arrival:
    tensors = Tensors(Layout.of({"w": (1,)}), np.zeros(1, dtype=np.float32))
    return Arrival(edge, Update(ticket=ticket, version=1, work=1.0, event=Event(mechanism="none"), tensors=tensors))


@pytest.fixture
def roster() -> Roster:
    seats = Roster()
    for edge in EDGES:
        seats.welcome(edge, Hello(digest="0" * 64, boot="b", samples=1, event=Event(mechanism="none")))
    return seats


def test_a_line_gives_one_at_a_time_in_order(roster: Roster) -> None:
    line = Line()
    arrivals = [arrival(edge) for edge in ("edge-0002", "edge-0001")]
    for item in arrivals:
        line.put(item)
    line.expire(roster)
    assert not line.holds("edge-0002")
    assert [line.take(roster), line.take(roster), line.take(roster)] == [(arrivals[0],), (arrivals[1],), ()]


@pytest.mark.parametrize("order", list(permutations(EDGES)))
def test_a_barrier_closes_once_and_forgets_the_order(roster: Roster, order: tuple[str, ...]) -> None:
    barrier = Barrier()
    for edge in order:
        assert barrier.take(roster) == ()
        barrier.put(arrival(edge))
        assert barrier.holds(edge)
    assert [item.edge for item in barrier.take(roster)] == list(EDGES)
    assert barrier.take(roster) == ()
    assert not barrier.holds("edge-0001")


def test_those_who_left_are_not_waited_for(roster: Roster) -> None:
    barrier = Barrier()
    barrier.put(arrival("edge-0001"))
    barrier.put(arrival("edge-0002"))
    assert barrier.take(roster) == ()
    roster.leave("edge-0003", Bye(reason="connection lost"))
    assert len(barrier.take(roster)) == 2


def test_the_deadline_takes_those_who_are_there(roster: Roster) -> None:
    barrier = Barrier()
    barrier.put(arrival("edge-0002"))
    barrier.expire(roster)
    assert [item.edge for item in barrier.take(roster)] == ["edge-0002"]


def test_a_deadline_with_nobody_there_does_not_count_for_the_next_step(roster: Roster) -> None:
    barrier = Barrier()
    barrier.expire(roster)
    barrier.put(arrival("edge-0002"))
    assert barrier.take(roster) == ()


def test_a_barrier_that_waits_does_not_look_at_every_seat(roster: Roster) -> None:
    """Each arrival asks whether it was the last one: of a thousand edges, that would be a million looks a round."""

    class Counted(set[str]):
        looks = 0

        def __contains__(self, edge: object) -> bool:
            self.looks += 1
            return super().__contains__(edge)

    heard = Counted(EDGES[1:])
    assert not roster.have_all_been_heard(heard)
    assert heard.looks == 1
    heard.add(EDGES[0])
    assert roster.have_all_been_heard(heard)
    roster.leave(EDGES[0], Bye(reason="gone"))
    heard.discard(EDGES[0])
    assert roster.have_all_been_heard(heard)
    roster.silence(())
    assert roster.have_all_been_heard(())
