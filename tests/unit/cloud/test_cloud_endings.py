"""The cloud's conversation: edges that come back, and every way in which a run ends."""

from __future__ import annotations

import numpy as np
import pytest
from cloud_talk import Scripted, Talk

from common.messages import Bye, Model, Running, Stop
from common.node import CONNECTED, EDGES, INTERRUPTED, Halt, Measure, Wake


def test_a_new_process_gets_a_new_ticket() -> None:
    talk = Talk()
    talk.hello("edge-0001")
    talk.update("edge-0001", 1, 1)
    talk.hello("edge-0001", boot="b2")
    (model,) = talk.sent("edge-0001", Model)
    assert (model.ticket, model.version) == (3, 2)
    assert talk.rows("joined")[0]["boot"] == "b2"
    talk.now = 10.0
    talk.update("edge-0001", 2, 2)  # of the process before
    assert talk.flat == [-0.5, -0.5]


def test_a_lost_edge_that_delivers_is_back() -> None:
    talk = Talk()
    talk.hello("edge-0001")
    talk.hear("edge-0001", Bye(reason="connection lost"))
    assert talk.rows("left")
    assert not talk.rows("bye")
    talk.update("edge-0001", 1, 1)
    assert talk.flat == [-0.5, -0.5]
    assert talk.rows("joined")
    assert talk.sent("edge-0001", Model)
    talk.wake("absence")
    assert not talk.rows("end")


def test_an_edge_that_comes_back_after_its_bye() -> None:
    talk = Talk(quorum=2)
    talk.hello("edge-0001")
    talk.hello("edge-0002")
    talk.hear("edge-0001", Bye(reason="interrupted", releases=0))
    assert talk.rows("bye")[0]["releases"] == 0
    talk.hello("edge-0001", boot="b2")
    assert [model.ticket for model in talk.sent("edge-0001", Model)] == [2]


def test_the_end_reaches_everybody_and_waits_for_their_last_words() -> None:
    talk = Talk(quorum=2, updates=1)
    talk.hello("edge-0001")
    talk.hello("edge-0002")
    talk.update("edge-0001", 1, 1)
    assert talk.rows("end") == [{"reason": "updates reached", "updates": 1, "failed": False}]
    assert talk.sent(EDGES, Stop) == [Stop(reason="updates reached")]
    assert [effect.version for effect in talk.effects if isinstance(effect, Measure)] == [2]
    assert talk.wakes() == {"grace"}
    assert not talk.sent("edge-0001", Model)
    talk.update("edge-0002", 1, 1)
    assert talk.flat == [-0.5, -0.5]
    talk.hear("edge-0001", Bye(reason="updates reached", releases=1, epsilon=0.5, dp_delta=1e-5))
    assert talk.rows("bye")[0]["epsilon"] == 0.5
    assert not talk.halts()
    talk.hear("edge-0002", Bye(reason="updates reached", releases=1))
    assert talk.halts() == [Halt("updates reached", 0)]
    assert talk.hello("edge-0003") == ()
    assert talk.wake("grace") == ()


def test_the_grace_is_over() -> None:
    talk = Talk(updates=1)
    talk.hello("edge-0001")
    talk.update("edge-0001", 1, 1)
    talk.wake("grace")
    assert talk.halts()


def test_who_comes_late_is_told() -> None:
    talk = Talk(quorum=1, updates=1)
    talk.hello("edge-0001")
    talk.update("edge-0001", 1, 1)
    talk.hello("edge-0002", boot="b5")
    (stop,) = talk.sent("edge-0002", Stop)
    assert (stop.failed, stop.boot, stop.reason) == (False, "b5", "updates reached")


def test_the_clock_ends_a_run() -> None:
    talk = Talk(updates=None, seconds=3.0)
    talk.hello("edge-0001")
    assert "seconds" in talk.wakes()
    talk.wake("seconds")
    assert talk.rows("end")[0]["reason"] == "seconds reached"


def test_when_every_edge_has_said_bye_the_run_ends_soon() -> None:
    talk = Talk(edges=1, grace=20.0, absence=120.0)
    talk.hello("edge-0001")
    talk.update("edge-0001", 1, 1)
    talk.hear("edge-0001", Bye(reason="interrupted", releases=1))
    assert [effect.after for effect in talk.effects if isinstance(effect, Wake)] == [20.0]
    talk.wake("absence")
    assert [halt.exit_code for halt in talk.halts()] == [0]


SPENT = Bye(reason="budget spent: releases: 2", boot="b1", releases=1)


def test_when_every_budget_is_spent_the_run_ends_at_once() -> None:
    talk = Talk(edges=2, quorum=2, grace=20.0, absence=120.0)
    talk.hello("edge-0001")
    talk.hello("edge-0002")
    talk.hear("edge-0001", SPENT)
    assert "absence" not in talk.wakes()  # the other one goes on
    talk.hear("edge-0002", SPENT)
    assert [effect.after for effect in talk.effects if isinstance(effect, Wake)] == [0.0]


@pytest.mark.parametrize(("last", "after"), [("interrupted", 20.0), ("connection lost", 120.0), ("missing", 20.0)])
def test_who_may_still_give_something_is_waited_for(last: str, after: float) -> None:
    """The other edge of two may be started again, or may be on its way back, or has not come yet."""
    talk = Talk(edges=2, quorum=1, grace=20.0, absence=120.0)
    talk.hello("edge-0001")
    if last != "missing":
        talk.hello("edge-0002")
        talk.hear("edge-0002", Bye(reason=last, releases=None if last == "connection lost" else 0))
    talk.hear("edge-0001", SPENT)
    assert [effect.after for effect in talk.effects if isinstance(effect, Wake)] == [after]
    talk.hello("edge-0002", boot="b2")
    assert talk.sent("edge-0002", Model)


def test_spent_budgets_are_no_failure_but_named() -> None:
    talk = Talk(quorum=2)
    for edge in ("edge-0001", "edge-0002"):
        talk.hello(edge)
    talk.update("edge-0001", 1, 1)
    for edge in ("edge-0001", "edge-0002"):
        talk.hear(edge, SPENT)
    talk.wake("absence")
    assert talk.rows("end") == [{"reason": "budgets spent after 1 updates", "updates": 1, "failed": False}]


def test_when_edges_leave_because_something_is_wrong_the_run_has_failed() -> None:
    talk = Talk(quorum=2)
    for edge in ("edge-0001", "edge-0002"):
        talk.hello(edge)
    talk.update("edge-0001", 1, 1)
    talk.hear("edge-0001", SPENT)
    talk.hear("edge-0002", Bye(reason="clip_norm: 3: expected at most 2", boot="b1", releases=1, failed=True))
    talk.wake("absence")
    (end,) = talk.rows("end")
    assert (end["failed"], end["reason"]) == (True, "no edge is left; edge-0002: clip_norm: 3: expected at most 2")
    assert [halt.exit_code for halt in talk.halts()] == [1]


def test_a_bye_of_an_earlier_process_is_noted_and_moves_nobody() -> None:
    talk = Talk()
    talk.hello("edge-0001", boot="b2")
    talk.hear("edge-0001", Bye(reason="interrupted", boot="b1", releases=3, epsilon=0.5))
    assert talk.rows("bye")[0]["boot"] == "b1"
    assert not talk.rows("left")
    talk.update("edge-0001", 1, 1)
    assert talk.flat == [-0.5, -0.5]


def test_when_every_link_is_broken_it_waits_longer_and_fails() -> None:
    talk = Talk(grace=20.0, absence=120.0)
    talk.hello("edge-0001")
    talk.update("edge-0001", 1, 1)
    talk.hear("edge-0001", Bye(reason="connection lost"))
    assert [effect.after for effect in talk.effects if isinstance(effect, Wake)] == [120.0]
    talk.wake("absence")
    assert [halt.exit_code for halt in talk.halts()] == [1]


def test_an_overflow_ends_the_run_with_a_reason() -> None:
    talk = Talk()
    talk.hello("edge-0001")
    talk.update("edge-0001", 1, 1, value=3e38)
    assert "diverged" in talk.rows("end")[0]["reason"]
    assert talk.rows("end")[0]["failed"] is True


def test_an_overflow_is_left_where_the_controller_knows_a_way_back() -> None:
    talk = Talk(Scripted(refuge=np.array([0.5, 0.25], np.float32)))
    talk.hello("edge-0001")
    talk.update("edge-0001", 1, 1, value=3e38)
    assert talk.rows("end") == []
    assert talk.rows("diverged") == [{"update": 1, "learning_rate": 0.5}]
    assert talk.node.tensors.flat.tolist() == [0.5, 0.25]


def test_interrupted_once_and_twice() -> None:
    talk = Talk()
    talk.hello("edge-0001")
    talk.wake(INTERRUPTED)
    assert talk.rows("end")[0]["reason"] == "interrupted"
    assert talk.sent(EDGES, Stop) == [Stop(reason="interrupted")]
    assert not talk.halts()
    talk.wake(INTERRUPTED)
    assert talk.halts()


def test_the_link_is_back() -> None:
    talk = Talk(updates=1)
    talk.wake(CONNECTED)
    assert talk.sent(EDGES, Running)
    talk.hello("edge-0001")
    talk.update("edge-0001", 1, 1)
    talk.wake(CONNECTED)
    assert talk.sent(EDGES, Stop)


def test_evaluations_come_at_their_cadence() -> None:
    talk = Talk(every=2, updates=3)
    talk.hello("edge-0001")
    versions = [effect.version for effect in talk.effects if isinstance(effect, Measure)]
    for ticket in (1, 2, 3):
        talk.update("edge-0001", ticket, ticket)
        versions += [effect.version for effect in talk.effects if isinstance(effect, Measure)]
    assert versions == [1, 3, 4]


def test_a_new_stage_is_recorded_once() -> None:
    controller = Scripted()
    talk = Talk(controller)
    talk.hello("edge-0001")
    talk.update("edge-0001", 1, 1)
    assert not talk.rows("stage")
    controller.stage = 2
    talk.update("edge-0001", 2, 2)
    assert talk.rows("stage") == [{"stage": 2, "from_update": 2, "learning_rate": 0.5}]
    talk.update("edge-0001", 3, 3)
    assert not talk.rows("stage")


def test_an_edge_that_leaves_before_the_start_is_waited_for_like_any_other() -> None:
    talk = Talk(quorum=2)
    talk.hello("edge-0001")
    talk.hear("edge-0001", Bye(reason="interrupted", releases=0))
    assert talk.wakes() == set()
    talk.hello("edge-0002")
    assert not talk.sent("edge-0002", Model)
    talk.hello("edge-0001", boot="b2")
    assert talk.sent("edge-0002", Model)


def test_an_unknown_wake_up_does_nothing() -> None:
    assert Talk().wake("something else") == ()


def test_what_arrives_after_a_bye_counts_for_nothing() -> None:
    talk = Talk(quorum=2)
    talk.hello("edge-0001")
    talk.hello("edge-0002")
    talk.hear("edge-0001", Bye(reason="interrupted", releases=1))
    assert talk.update("edge-0001", 1, 1) == ()
    assert talk.flat == [0.0, 0.0]
