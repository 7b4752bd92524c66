"""The cloud's conversation: probes and synchronous steps hold up some edges, not for ever."""

from __future__ import annotations

import numpy as np
from cloud_talk import Scripted, Talk

from cloud.controller import Ask, Continue
from common.events import Event
from common.messages import Bye, Model, Probe, Refusal


def test_a_probe_waits_for_every_edge_and_holds_their_updates() -> None:
    controller = Scripted(asks={1: 4.0})
    talk = Talk(controller, quorum=2)
    talk.hello("edge-0001")
    talk.hello("edge-0002")
    talk.update("edge-0001", 1, 1)
    (probe,) = talk.sent("edge-0001", Probe)
    assert (probe.ticket, probe.cap, probe.bound, list(probe.tensors.flat)) == (2, 4.0, 1.0, [-0.5, -0.5])
    talk.update("edge-0002", 1, 1)  # in flight when the probe was opened
    assert talk.flat == [-0.5, -0.5]
    assert [probe.ticket for probe in talk.sent("edge-0002", Probe)] == [2]
    talk.answer("edge-0001", 2, (0.5, 0.25))
    assert not talk.sent("edge-0001", Model)
    talk.answer("edge-0002", 2, (0.25, 0.5))
    assert controller.answers[0][:2] == (1.5, 0.75)
    assert talk.rows("probe")[0]["answers"] == 2
    assert talk.flat == [-1.0, -1.0]  # now the update that waited
    assert [model.ticket for model in talk.sent("edge-0001", Model)] == [3]
    assert [model.ticket for model in talk.sent("edge-0002", Model)] == [3]


def test_a_rollback_drops_what_was_computed_after_it() -> None:
    old = np.array([7.0, 8.0], dtype=np.float32)
    talk = Talk(Scripted(asks={1: 4.0}, replies=[Continue(old)]), quorum=2)
    talk.hello("edge-0001")
    talk.hello("edge-0002")
    talk.update("edge-0001", 1, 1)
    talk.update("edge-0002", 1, 1)
    talk.answer("edge-0001", 2)
    talk.answer("edge-0002", 2)
    assert talk.flat == [7.0, 8.0]
    assert talk.rows("probe")[0]["rollback"] is True
    (row,) = talk.rows("update")
    assert row["applied"] is False
    (model,) = talk.sent("edge-0002", Model)
    assert model.version == 3


def test_an_edge_that_leaves_does_not_hold_up_a_probe() -> None:
    talk = Talk(Scripted(asks={0: 4.0}), quorum=2)
    talk.hello("edge-0001")
    talk.hello("edge-0002")
    assert talk.sent("edge-0002", Probe)
    talk.answer("edge-0001", 1)
    assert not talk.sent("edge-0001", Model)
    talk.hear("edge-0002", Bye(reason="connection lost"))
    assert talk.sent("edge-0001", Model)


def test_a_silent_edge_holds_up_a_probe_for_its_patience_only() -> None:
    controller = Scripted(asks={0: 4.0})
    talk = Talk(controller, quorum=2)
    talk.hello("edge-0001")
    talk.hello("edge-0002")
    talk.wake("patience")
    assert not controller.answers  # nobody has answered: nothing to decide on
    talk.answer("edge-0001", 1)
    assert len(controller.answers) == 1
    assert talk.sent("edge-0001", Model)
    talk.answer("edge-0002", 1)  # too late, but it is free now
    assert len(controller.answers) == 1
    assert [model.ticket for model in talk.sent("edge-0002", Model)] == [2]


def test_a_probe_that_is_over_is_not_sent_again() -> None:
    talk = Talk(Scripted(asks={0: 4.0}), quorum=2)
    talk.hello("edge-0001")
    talk.hello("edge-0002")
    talk.answer("edge-0001", 1)
    talk.wake("patience")
    talk.now = 100.0
    talk.hello("edge-0002")  # it never got its probe
    assert not talk.sent("edge-0002", Probe)
    assert [model.ticket for model in talk.sent("edge-0002", Model)] == [2]


def test_a_new_process_is_asked_in_place_of_the_one_that_died() -> None:
    talk = Talk(Scripted(asks={0: 4.0}), quorum=2)
    talk.hello("edge-0001")
    talk.hello("edge-0002")
    talk.answer("edge-0001", 1)
    talk.hello("edge-0002", boot="b2")
    assert [probe.ticket for probe in talk.sent("edge-0002", Probe)] == [2]
    talk.hello("edge-0001", boot="b2")  # this one has answered: it waits
    assert not talk.sent("edge-0001", Probe)
    assert not talk.sent("edge-0001", Model)
    talk.answer("edge-0002", 2)
    assert talk.sent("edge-0001", Model)


def test_one_probe_after_another() -> None:
    again = Ask(np.zeros(2, dtype=np.float32), cap=2.0, bound=0.5)
    controller = Scripted(asks={0: 4.0}, replies=[again])
    talk = Talk(controller)
    talk.hello("edge-0001")
    talk.answer("edge-0001", 1)
    (probe,) = talk.sent("edge-0001", Probe)
    assert (probe.ticket, probe.cap, probe.bound) == (2, 2.0, 0.5)
    talk.answer("edge-0001", 2)
    assert len(controller.answers) == 2
    assert talk.sent("edge-0001", Model)


def test_the_last_look_comes_before_the_end() -> None:
    old = np.array([7.0, 8.0], dtype=np.float32)
    talk = Talk(Scripted(asks={2: 4.0}, replies=[Continue(old)]), updates=2)
    talk.hello("edge-0001")
    talk.update("edge-0001", 1, 1)
    talk.update("edge-0001", 2, 2)
    assert not talk.rows("end")
    talk.answer("edge-0001", 3)
    assert talk.rows("end")
    assert talk.flat == [7.0, 8.0]


def test_synchronous_steps_average_one_update_of_everybody() -> None:
    talk = Talk(quorum=2, sync=True)
    talk.hello("edge-0001")
    talk.hello("edge-0002")
    talk.update("edge-0002", 1, 1, value=1.0)
    assert talk.flat == [0.0, 0.0]
    assert not talk.sent("edge-0002", Model)
    talk.update("edge-0001", 1, 1, value=3.0)
    assert talk.flat == [-1.0, -1.0]
    assert [row["update"] for row in talk.rows("update")] == [1, 1]
    assert [row["staleness"] for row in talk.rows("update")] == [0, 0]
    for edge in ("edge-0001", "edge-0002"):
        assert [model.version for model in talk.sent(edge, Model)] == [2]


def test_a_synchronous_step_goes_on_without_the_silent() -> None:
    talk = Talk(quorum=2, sync=True)
    talk.hello("edge-0001")
    talk.hello("edge-0002")
    talk.update("edge-0001", 1, 1, value=2.0)
    talk.wake("patience")
    assert talk.flat == [-1.0, -1.0]
    talk.update("edge-0002", 1, 1)  # of a version that is over
    assert talk.rows("update")[0]["applied"] is False
    assert talk.sent("edge-0002", Model)


def test_an_edge_that_waits_for_the_others_may_say_so_again() -> None:
    controller = Scripted(asks={0: 4.0})
    talk = Talk(controller, quorum=2)
    talk.hello("edge-0001")
    talk.hello("edge-0002")
    talk.answer("edge-0001", 1)
    talk.now = 100.0
    assert talk.answer("edge-0001", 1) == ()
    talk.answer("edge-0002", 1)
    assert len(controller.answers) == 1
    assert [model.ticket for model in talk.sent("edge-0001", Model)] == [2]


def test_a_hung_edge_costs_a_synchronous_run_its_patience_once() -> None:
    talk = Talk(quorum=2, sync=True)
    for edge in ("edge-0001", "edge-0002"):
        talk.hello(edge)
    talk.update("edge-0001", 1, 1)
    assert talk.flat == [0.0, 0.0]
    talk.wake("patience")
    talk.update("edge-0001", 2, 2)
    assert talk.flat == [-1.0, -1.0]  # nobody waited this time
    talk.hello("edge-0002", ticket=1)  # it speaks, so it counts again
    talk.update("edge-0001", 3, 3)
    assert talk.flat == [-1.0, -1.0]


def test_a_hung_edge_costs_the_probes_their_patience_once() -> None:
    controller = Scripted(asks={0: 4.0, 1: 4.0})
    talk = Talk(controller, quorum=2)
    for edge in ("edge-0001", "edge-0002"):
        talk.hello(edge)
    talk.answer("edge-0001", 1)
    assert not controller.answers
    talk.wake("patience")
    talk.update("edge-0001", 2, 1)
    talk.answer("edge-0001", 3)
    assert len(controller.answers) == 2


def test_every_answer_that_comes_is_recorded_for_it_cost_its_edge_a_release() -> None:
    talk = Talk(Scripted(asks={0: 4.0}), quorum=2)
    for edge in ("edge-0001", "edge-0002"):
        talk.hello(edge)
    talk.answer("edge-0001", 1)
    assert talk.rows("answer") == [{"edge": "edge-0001", "ticket": 1, "version": 1, "used": True}]
    talk.wake("patience")
    talk.answer("edge-0002", 1)
    assert [row["used"] for row in talk.rows("answer")] == [False]


def test_an_answer_whose_noise_nobody_can_read_is_refused() -> None:
    controller = Scripted(asks={0: 4.0})
    talk = Talk(controller)
    talk.hello("edge-0001")
    talk.answer("edge-0001", 1, event=Event(mechanism="gaussian", dimension=2))
    (refusal,) = talk.sent("edge-0001", Refusal)
    assert (refusal.ticket, "noise_multiplier" in refusal.reason, controller.answers) == (1, True, [])
