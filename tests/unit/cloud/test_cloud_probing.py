"""Averages of noisy answers, worked out by hand; and who is asked."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cloud.controller import Ask
from cloud.probing import Probing
from cloud.roster import Roster
from common.events import Event
from common.messages import Answer, Bye, Hello

EVENT = Event(mechanism="gaussian", noise_multiplier=12.0, dimension=2)


@pytest.fixture
def roster() -> Roster:
    seats = Roster()
    for edge, samples in (("edge-0001", 100), ("edge-0002", 300)):
        seats.welcome(edge, Hello(digest="0" * 64, boot="b", samples=samples, event=Event(mechanism="none")))
    return seats


def ask(probing: Probing, roster: Roster, edge: str, values: tuple[float, float] | None = None) -> None:
    seat = roster.find(edge)
    assert seat is not None
    seat.hand("probe", 1, 0.0)
    probing.asked(seat)
    if values is not None:
        probing.add(seat, Answer(ticket=seat.ticket, version=1, event=EVENT, values=values))


def test_means_are_weighted_by_records(roster: Roster) -> None:
    probing = Probing(Ask(np.zeros(1, dtype=np.float32), cap=4.0, bound=1.0), 1)
    ask(probing, roster, "edge-0001", (0.5, 0.1))
    assert not probing.is_complete(roster)
    ask(probing, roster, "edge-0002", (0.25, 0.5))
    assert probing.is_complete(roster)
    loss, share, std = probing.result()
    assert loss == pytest.approx(4.0 * (0.25 * 0.5 + 0.75 * 0.25))
    assert share == pytest.approx(2.0 * (0.25 * 0.1 + 0.75 * 0.5))
    # each answer's noise is 12 sqrt(1.25) / n_k, so n_k times it is 12 sqrt(1.25) whoever answers
    assert std == pytest.approx(4.0 * 12.0 * math.sqrt(1.25) * math.sqrt(2) / 400)


def test_the_golden_standard_deviation() -> None:
    roster = Roster()
    probing = Probing(Ask(np.zeros(1, dtype=np.float32), cap=2.5 * math.log(10), bound=1.0), 1)
    for number in range(5):
        edge = f"edge-000{number}"
        roster.welcome(edge, Hello(digest="0" * 64, boot="b", samples=287, event=Event(mechanism="none")))
        ask(probing, roster, edge, (0.4, 0.2))
    assert probing.result()[2] == pytest.approx(0.1203441686, rel=1e-9)


def test_nobody_is_asked_twice_but_a_successor_of_the_silent(roster: Roster) -> None:
    probing = Probing(Ask(np.zeros(1, dtype=np.float32), cap=1.0, bound=1.0), 1)
    ask(probing, roster, "edge-0001", (0.1, 0.1))
    ask(probing, roster, "edge-0002")
    assert not probing.wants("edge-0001")
    assert not probing.wants("edge-0002")
    for edge in ("edge-0001", "edge-0002"):
        probing.forget(edge)
    assert not probing.wants("edge-0001")
    assert probing.wants("edge-0002")


def test_those_who_left_and_the_deadline(roster: Roster) -> None:
    probing = Probing(Ask(np.zeros(1, dtype=np.float32), cap=1.0, bound=1.0), 1)
    probing.is_expired = True
    assert not probing.is_complete(roster)  # nothing to decide on
    probing.is_expired = False
    ask(probing, roster, "edge-0001", (0.1, 0.1))
    assert not probing.is_complete(roster)
    probing.is_expired = True
    assert probing.is_complete(roster)
    probing.is_expired = False
    roster.leave("edge-0002", Bye(reason="connection lost"))
    assert probing.is_complete(roster)


def test_answers_to_an_earlier_probe_are_told_apart(roster: Roster) -> None:
    probing = Probing(Ask(np.zeros(1, dtype=np.float32), cap=1.0, bound=1.0), 1)
    ask(probing, roster, "edge-0001")
    assert probing.covers("edge-0001", 1)
    assert not probing.covers("edge-0001", 0)
    assert not probing.covers("edge-0002", 1)
