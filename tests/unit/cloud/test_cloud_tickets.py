"""The cloud's conversation: the start, tickets, duplicates, staleness."""

from __future__ import annotations

import pytest
from cloud_talk import DIGEST, EVENT, Talk

from common.events import Event
from common.messages import Bye, Model, Refusal, Report, Running, Stop
from common.node import EDGES


def test_it_opens_and_waits_for_the_quorum() -> None:
    talk = Talk(quorum=2)
    assert talk.sent(EDGES, Running) == [Running(boot="cloud-1", digest=DIGEST)]
    assert talk.wakes() == {"quorum"}
    talk.hello("edge-0001")
    assert not talk.sent("edge-0001", Model)
    talk.hello("edge-0002")
    assert talk.rows("begin") == [{"edges": 2}]
    assert talk.rows("stage") == [{"stage": 1, "from_update": 0, "learning_rate": 0.5}]
    for edge in ("edge-0001", "edge-0002"):
        (model,) = talk.sent(edge, Model)
        assert (model.ticket, model.version) == (1, 1)
        assert (model.directive.clip_norm, model.directive.learning_rate) == (1.0, 0.5)


def test_after_the_deadline_it_goes_on_with_those_who_are_there() -> None:
    talk = Talk(quorum=3)
    talk.wake("quorum")
    assert talk.wakes() == {"quorum", "absence"}
    talk.hello("edge-0001")
    talk.wake("absence")  # asked for when nobody was there
    assert not talk.halts()
    talk.wake("quorum")
    assert talk.sent("edge-0001", Model)


def test_nobody_comes() -> None:
    talk = Talk()
    talk.wake("quorum")
    talk.wake("absence")
    assert talk.rows("end") == [{"reason": "no edge is left", "updates": 0, "failed": True}]
    assert [halt.exit_code for halt in talk.halts()] == [1]


def test_another_experiment_is_turned_away() -> None:
    talk = Talk()
    talk.hello("edge-0001", boot="b7", digest="b" * 64)
    (stop,) = talk.sent("edge-0001", Stop)
    assert (stop.failed, stop.boot) == (True, "b7")
    assert "digest" in stop.reason
    assert talk.rows("refused")
    assert not talk.rows("joined")


@pytest.mark.parametrize(
    ("edge", "event", "text"),
    [
        ("edge-0009", EVENT, "edge id edge-0009"),
        ("edge-0001", Event(mechanism="gaussian", noise_multiplier=1.0), "mechanism gaussian: expected none"),
        ("edge-0001", Event(mechanism="none", epsilon=1.0), "epsilon 1.0: expected none"),
        ("edge-0001", Event(mechanism="none", sampling="poisson"), "sampling poisson: expected all"),
        ("edge-0001", Event(mechanism="none", adjacency="replace_one"), "adjacency replace_one: expected add_remove"),
        ("edge-0001", Event(mechanism="none", dimension=3), "dimension 3: expected None"),
    ],
)
def test_who_is_not_what_the_experiment_prescribes_is_turned_away(edge: str, event: Event, text: str) -> None:
    talk = Talk()
    talk.hello(edge, boot="b7", event=event)
    (stop,) = talk.sent(edge, Stop)
    assert (stop.failed, stop.boot, text in stop.reason) == (True, "b7", True)
    assert text in talk.rows("refused")[0]["reason"]
    assert not talk.rows("joined")
    assert not talk.rows("begin")
    talk.hello("edge-0002")
    assert talk.sent("edge-0002", Model)  # the run goes on without it


def test_an_update_is_applied_and_only_its_edge_answered() -> None:
    talk = Talk(quorum=2)
    talk.hello("edge-0001")
    talk.hello("edge-0002")
    talk.update("edge-0001", ticket=1, version=1)
    assert talk.flat == [-0.5, -0.5]
    (model,) = talk.sent("edge-0001", Model)
    assert (model.ticket, model.version) == (2, 2)
    assert not talk.sent("edge-0002", Model)
    (row,) = talk.rows("update")
    assert row == {
        "edge": "edge-0001", "ticket": 1, "version": 1, "staleness": 0, "stage": 1, "applied": True, "update": 1,
    }  # fmt: skip


def test_staleness_is_the_version_now_minus_the_version_echoed() -> None:
    talk = Talk(quorum=2)
    talk.hello("edge-0001")
    talk.hello("edge-0002")
    for ticket in (1, 2, 3):
        talk.update("edge-0001", ticket, version=ticket)
    talk.update("edge-0002", ticket=1, version=1)
    assert talk.rows("update")[0]["staleness"] == 3


def test_a_second_copy_counts_for_nothing() -> None:
    talk = Talk()
    talk.hello("edge-0001")
    talk.update("edge-0001", 1, 1)
    talk.update("edge-0001", 1, 1)
    assert talk.flat == [-0.5, -0.5]
    assert not talk.rows("update")


def test_an_old_ticket_brings_the_work_in_hand_again_but_not_at_once() -> None:
    talk = Talk()
    talk.hello("edge-0001")
    talk.update("edge-0001", 1, 1)
    talk.update("edge-0001", 1, 1)
    assert not talk.sent("edge-0001", Model)  # the model with ticket 2 left a moment ago
    talk.now = 10.0
    talk.update("edge-0001", 1, 1)
    assert [model.ticket for model in talk.sent("edge-0001", Model)] == [2]


def test_hello_of_an_edge_that_missed_its_model() -> None:
    talk = Talk()
    talk.hello("edge-0001")
    talk.now = 5.0
    talk.hello("edge-0001")
    assert [model.ticket for model in talk.sent("edge-0001", Model)] == [1]
    talk.now = 10.0
    talk.hello("edge-0001", ticket=1)  # it has it, and is at work
    assert not talk.sent("edge-0001", Model)


def test_a_work_in_hand_sent_again_has_the_newest_parameters() -> None:
    talk = Talk(quorum=2)
    talk.hello("edge-0001")
    talk.hello("edge-0002")
    talk.update("edge-0001", 1, 1)
    talk.now = 10.0
    talk.hello("edge-0002")
    (model,) = talk.sent("edge-0002", Model)
    assert (model.ticket, model.version) == (1, 2)
    assert model.tensors.flat is not None
    assert list(model.tensors.flat) == [-0.5, -0.5]


@pytest.mark.parametrize(
    ("ticket", "version", "event", "text"),
    [
        (5, 1, EVENT, "ticket"),
        (1, 0, EVENT, "version"),
        (1, 2, EVENT, "version"),
        (1, 1, Event(mechanism="gaussian", noise_multiplier=1.0), "event"),
    ],
)
def test_a_wrong_answer_is_refused_and_told(ticket: int, version: int, event: Event, text: str) -> None:
    talk = Talk()
    talk.hello("edge-0001")
    talk.update("edge-0001", ticket, version, event=event)
    assert talk.flat == [0.0, 0.0]
    (refusal,) = talk.sent("edge-0001", Refusal)
    assert text in refusal.reason
    assert refusal.ticket == ticket
    assert talk.rows("refused")[0]["edge"] == "edge-0001"
    talk.update("edge-0001", 1, 1)  # the right one still counts
    assert talk.flat == [-0.5, -0.5]


def test_an_answer_to_a_model_is_refused() -> None:
    talk = Talk()
    talk.hello("edge-0001")
    talk.answer("edge-0001", 1)
    assert talk.sent("edge-0001", Refusal)


def test_strangers_are_ignored() -> None:
    talk = Talk()
    talk.hello("edge-0001")
    assert talk.update("edge-0009", 1, 1) == ()
    assert talk.hear("edge-0009", Bye(reason="?", releases=3)) == ()
    assert talk.hear("edge-0009", Report(iteration=1, metrics={"epsilon": 0.5})) == ()
    assert talk.flat == [0.0, 0.0]


def test_what_only_a_cloud_says_is_refused() -> None:
    talk = Talk()
    talk.hear("edge-0001", Stop(reason="all of you"))
    assert talk.sent("edge-0001", Refusal)
    assert talk.rows("refused")
    assert not talk.halts()


def test_too_stale_is_dropped_but_answered() -> None:
    talk = Talk(quorum=2, cap=1)
    talk.hello("edge-0001")
    talk.hello("edge-0002")
    talk.update("edge-0001", 1, 1)
    talk.update("edge-0001", 2, 2)
    before = talk.flat
    talk.update("edge-0002", 1, 1)
    assert talk.flat == before
    assert talk.rows("update")[0]["applied"] is False
    assert [model.ticket for model in talk.sent("edge-0002", Model)] == [2]


def test_reports_are_recorded() -> None:
    talk = Talk()
    talk.hello("edge-0001")
    talk.hear("edge-0001", Report(iteration=1, metrics={"epsilon": 0.5}))
    assert talk.rows("report") == [{"edge": "edge-0001", "metrics": {"epsilon": 0.5}}]
