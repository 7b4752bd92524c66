"""Seats, tickets, and the ways an edge comes and goes."""

from __future__ import annotations

from collections.abc import Callable

from cloud.roster import Presence, Roster, Welcome
from common.events import Event
from common.messages import Bye, Hello


def hello(boot: str = "b1", ticket: int = 0) -> Hello:
    return Hello(digest="0" * 64, boot=boot, samples=10, event=Event(mechanism="none"), ticket=ticket)


def test_tickets_count_up() -> None:
    seat, welcome = Roster().welcome("edge-0001", hello())
    assert welcome is Welcome.NEW
    assert [seat.hand("model", 7, 0.0).ticket for _ in range(3)] == [1, 2, 3]
    assert seat.work is not None
    assert seat.work.version == 7


def test_an_impatient_repeat_changes_nothing() -> None:
    roster = Roster()
    seat, _ = roster.welcome("edge-0001", hello())
    work = seat.hand("model", 1, 0.0)
    again, welcome = roster.welcome("edge-0001", hello())
    assert (again, welcome, again.work) == (seat, Welcome.KNOWN, work)


def test_a_new_process_loses_its_predecessors_work_but_not_the_count() -> None:
    roster = Roster()
    roster.welcome("edge-0001", hello())[0].hand("model", 1, 0.0)
    seat, welcome = roster.welcome("edge-0001", hello("b2"))
    assert (welcome, seat.work, seat.boot) == (Welcome.REBORN, None, "b2")
    assert seat.hand("model", 1, 0.0).ticket == 2


def test_tickets_of_an_earlier_cloud_are_passed_over() -> None:
    seat, _ = Roster().welcome("edge-0001", hello(ticket=41))
    assert seat.hand("model", 1, 0.0).ticket == 42


def test_a_last_will_keeps_the_work_for_a_return() -> None:
    roster = Roster()
    seat, _ = roster.welcome("edge-0001", hello())
    work = seat.hand("model", 1, 0.0)
    roster.leave("edge-0001", Bye(reason="connection lost"))
    assert (seat.presence, roster.online(), roster.is_gone()) == (Presence.LOST, [], False)
    assert roster.welcome("edge-0001", hello()) == (seat, Welcome.BACK)
    assert seat.work == work


def test_a_spoken_bye_is_final_until_the_next_hello() -> None:
    roster = Roster()
    seat, _ = roster.welcome("edge-0001", hello())
    seat.hand("model", 1, 0.0)
    roster.leave("edge-0001", Bye(reason="done", releases=3))
    assert (seat.presence, seat.work, roster.is_gone()) == (Presence.GONE, None, True)
    roster.leave("edge-0001", Bye(reason="connection lost"))  # the will of a process that has said Bye
    assert seat.presence is Presence.GONE
    roster.welcome("edge-0001", hello("b2"))
    assert roster.online() == [seat]


def test_the_present_are_counted_through_all_that_edges_may_do() -> None:
    roster = Roster()
    seats = [roster.welcome(f"edge-000{number}", hello())[0] for number in (1, 2, 3)]
    assert roster.present == 3
    steps: list[tuple[Callable[[], object], int]] = [
        (lambda: roster.welcome("edge-0001", hello()), 3),  # a repeat
        (lambda: roster.leave("edge-0001", Bye(reason="connection lost")), 2),
        (lambda: roster.leave("edge-0001", Bye(reason="connection lost")), 2),
        (lambda: roster.hear(seats[0]), 3),
        (lambda: roster.leave("edge-0002", Bye(reason="done", releases=3)), 2),
        (lambda: roster.leave("edge-0002", Bye(reason="connection lost")), 2),
        (lambda: roster.welcome("edge-0002", hello("b2")), 3),
        (lambda: roster.leave("edge-0009", Bye(reason="?")), 3),
    ]
    for step, expected in steps:
        step()
        assert roster.present == expected == len(roster.online())


def test_a_stranger_has_no_seat() -> None:
    roster = Roster()
    assert roster.find("edge-0009") is None
    assert roster.leave("edge-0009", Bye(reason="?")) is None
    assert not roster.is_gone()
