"""The edge's conversation, message by message: each ticket once, the same bytes again, and when it leaves."""

from __future__ import annotations

import pytest
from edge_talk import EVENT, MODEL, Talk

from common.errors import TransportError
from common.messages import Answer, Directive, Hello, Model, Refusal, Report, Running, Stop, Update
from common.node import CONNECTED, INTERRUPTED, Halt
from common.tensors import Tensors
from edge.algorithms.asynchronous import MOST_REFUSALS, MOST_UNREAD


def test_it_says_hello_until_it_gets_work() -> None:
    talk = Talk()
    (hello,) = talk.said()
    assert talk.wakes() == {"repeat": 1.0, "report": 5.0}
    assert talk.rows("start") == [{"boot": "b1", "releases": 0, "ledger_releases": 0}]
    talk.wake("repeat")
    assert talk.said() == [hello]
    talk.wake(CONNECTED)
    assert talk.said() == [hello]
    talk.model(1)
    talk.wake("repeat")
    assert isinstance(talk.said()[0], Update)


def test_a_hello_comes_ever_more_seldom() -> None:
    """A thousand edges that repeat it each second once took all the time of a cloud that was to answer them."""
    talk, pauses = Talk(), []
    for _ in range(7):
        pauses.append(talk.wakes()["repeat"])
        talk.wake("repeat")
    assert pauses == [1.0, 2.0, 4.0, 8.0, 15.0, 15.0, 15.0]
    talk.wake(CONNECTED)
    assert talk.wakes()["repeat"] == 1.0, "a new connection begins anew"
    talk.wake("repeat")
    assert talk.wakes()["repeat"] == 2.0


def test_a_model_is_answered_with_its_ticket_and_version() -> None:
    talk = Talk()
    talk.model(3, version=17)
    (update,) = talk.said()
    assert isinstance(update, Update)
    assert (update.ticket, update.version, update.work, update.event) == (3, 17, 20.0, EVENT)
    assert talk.rows("release") == [
        {"ticket": 3, "version": 17, "event": EVENT.model_dump(mode="json", exclude_none=True)}
    ]
    assert talk.ledger.releases == 1


def test_a_ticket_is_answered_once_and_older_ones_never() -> None:
    talk = Talk()
    talk.model(3)
    assert talk.model(3) == ()
    assert talk.model(2) == ()
    assert talk.probe(1) == ()
    assert talk.ledger.releases == 1


@pytest.mark.parametrize("name", ["repeat", CONNECTED])
def test_what_is_said_again_is_the_same_message(name: str) -> None:
    talk = Talk()
    talk.model(1)
    (update,) = talk.said()
    talk.wake(name)
    assert talk.said()[0] is update
    assert talk.ledger.releases == 1
    assert talk.wakes() == {"repeat": 15.0}


def test_a_probe_is_answered_and_booked() -> None:
    talk = Talk()
    talk.probe(1)
    (answer,) = talk.said()
    assert isinstance(answer, Answer)
    assert (answer.ticket, answer.event.noise_multiplier) == (1, 5.0)
    assert talk.rows("release")
    assert talk.ledger.releases == 1


def test_one_probe_too_many_ends_it() -> None:
    talk = Talk()
    for ticket in (1, 2, 3, 4):
        talk.probe(ticket)
    assert talk.ledger.releases == 3
    assert "at most 3" in talk.bye().reason
    assert talk.bye().failed
    assert talk.halt() is not None
    assert talk.halt().exit_code == 1  # type: ignore[union-attr]


def test_stop_is_followed_by_bye_with_the_ledger() -> None:
    talk = Talk()
    talk.model(1)
    talk.hear(Stop(reason="updates reached"))
    bye = talk.bye()
    assert (bye.reason, bye.releases, bye.dp_delta) == ("updates reached", 1, 1e-5)
    assert (bye.boot, bye.failed) == ("b1", False)
    assert bye.epsilon is not None
    assert 0 < bye.epsilon < 10
    assert talk.rows("bye")
    assert talk.halt() == Halt("updates reached", 0)
    assert talk.model(2) == ()
    assert talk.wake("repeat") == ()


def test_a_failed_run_is_a_failure_here_too() -> None:
    talk = Talk()
    talk.hear(Stop(reason="diverged", failed=True))
    assert (talk.bye().releases, talk.bye().failed) == (0, True)
    assert talk.halt() == Halt("diverged", 1)


def test_a_stop_for_another_process_is_not_meant() -> None:
    talk = Talk()
    assert talk.hear(Stop(reason="no", failed=True, boot="b2")) == ()
    assert talk.halt() is None


def test_turned_away_it_goes_without_a_bye() -> None:
    talk = Talk()
    talk.hear(Stop(reason="experiment digest", failed=True, boot="b1"))
    assert talk.said() == []
    assert talk.halt() == Halt("turned away: experiment digest", 1)


def test_told_that_it_came_late_it_leaves_cleanly() -> None:
    talk = Talk()
    talk.hear(Stop(reason="updates reached", boot="b1"))
    assert talk.halt() == Halt("updates reached", 0)


def test_out_of_budget_it_says_bye_and_releases_nothing() -> None:
    talk = Talk(most=1)
    talk.model(1)
    talk.model(2)
    bye = talk.bye()
    assert bye.reason.startswith("budget spent")
    assert (bye.releases, bye.boot, bye.failed) == (1, "b1", False)
    assert talk.halt() is not None
    assert talk.halt().exit_code == 0  # type: ignore[union-attr]


@pytest.mark.parametrize("clip_norm", [None, 100.0])
def test_a_clip_norm_it_does_not_accept_ends_it(clip_norm: float | None) -> None:
    talk = Talk(ceiling=10.0)
    talk.model(1, clip_norm=clip_norm)
    assert "clip_norm" in talk.bye().reason
    assert (talk.bye().boot, talk.bye().failed) == ("b1", True)
    assert talk.halt() is not None
    assert talk.halt().exit_code == 1  # type: ignore[union-attr]
    assert talk.ledger.releases == 0


def test_refused_again_and_again_it_gives_up() -> None:
    talk = Talk()
    talk.model(1)
    for _ in range(MOST_REFUSALS - 1):
        talk.hear(Refusal(reason="version 7", ticket=1))
        assert talk.rows("refused") == [{"reason": "version 7", "ticket": 1}]
        assert talk.halt() is None
    talk.model(2)  # new work: the count starts again
    for _ in range(MOST_REFUSALS):
        assert talk.halt() is None
        talk.hear(Refusal(reason="version 7", ticket=2))
    assert talk.bye().failed
    assert talk.halt() == Halt(f"refused {MOST_REFUSALS} times: version 7", 1)


@pytest.mark.parametrize("ticket", [0, 1, 3])
def test_refusals_of_other_tickets_are_recorded_and_do_not_count(ticket: int) -> None:
    talk = Talk()
    for work in (1, 2):
        talk.model(work)
    for _ in range(10 * MOST_UNREAD):
        talk.hear(Refusal(reason="no", ticket=ticket))
        assert talk.rows("refused")
        assert talk.halt() is None


def test_where_nothing_is_in_hand_no_ticket_can_be_refused() -> None:
    talk = Talk()
    for _ in range(10 * MOST_UNREAD):
        talk.hear(Refusal(reason="no", ticket=0))
        assert talk.halt() is None


def test_refusals_without_a_ticket_count_once_for_what_was_said() -> None:
    talk = Talk()
    talk.model(1)
    for _ in range(10 * MOST_UNREAD):  # a stranger's payloads, one after the other
        talk.hear(Refusal(reason="not finite"))
        assert talk.halt() is None
    for _ in range(MOST_UNREAD - 1):
        assert talk.halt() is None
        talk.wake("repeat")
        talk.hear(Refusal(reason="not finite"))
    assert talk.halt() == Halt(f"refused {MOST_UNREAD} times: not finite", 1)


def test_new_work_ends_the_count_of_refusals_without_a_ticket() -> None:
    talk = Talk()
    for ticket in range(1, 3 * MOST_UNREAD):
        talk.model(ticket)
        talk.hear(Refusal(reason="not finite"))
        assert talk.halt() is None


def test_strangers_and_other_edges_messages_do_nothing() -> None:
    talk = Talk()
    tensors = Tensors(MODEL.layout, MODEL.layout.zeros())
    model = Model(ticket=1, version=1, directive=Directive(clip_norm=1.0), tensors=tensors)
    assert talk.hear(model, sender="edge-0002") == ()
    talk.hear(Report(iteration=1, metrics={}))
    assert talk.said() == []
    assert talk.rows("refused")
    assert talk.ledger.releases == 0


def test_another_cloud_process_is_greeted() -> None:
    talk = Talk()
    talk.hear(Running(boot="c1", digest="a" * 64))
    assert talk.rows("met") == [{"cloud": "c1", "lineage": None}]
    assert talk.said() == []
    talk.model(5)
    assert talk.hear(Running(boot="c1", digest="a" * 64)) == ()
    talk.hear(Running(boot="c2", digest="a" * 64))
    (hello,) = talk.said()
    assert isinstance(hello, Hello)
    assert hello.ticket == 5  # so that the new cloud counts on from there
    talk.wake(CONNECTED)
    assert talk.said() == [hello]


def test_reports_are_public_and_the_batch_size_stays_here() -> None:
    talk = Talk()
    talk.model(1)
    talk.wake("report")
    (report,) = talk.said()
    assert isinstance(report, Report)
    assert set(report.metrics) == {"releases", "epsilon"}
    assert talk.rows("local") == [{"releases": 1, "records_drawn": 20}]
    assert talk.wakes() == {"report": 5.0}


def test_without_a_word_from_the_cloud_for_too_long_it_goes() -> None:
    talk = Talk()
    talk.model(1)
    assert talk.node.on_wake("repeat", 601.0) != ()
    assert [effect for effect in talk.node.on_wake("repeat", 602.0) if isinstance(effect, Halt)] == [
        Halt("no word from the cloud for 601 s", TransportError.exit_code)
    ]
    assert talk.node.on_wake("repeat", 603.0) == ()


def test_interrupted_it_says_bye() -> None:
    talk = Talk()
    talk.wake(INTERRUPTED)
    assert (talk.bye().reason, talk.bye().failed) == ("interrupted", False)
    assert talk.halt() is not None


def test_an_unknown_wake_up_does_nothing() -> None:
    assert Talk().wake("something else") == ()
