"""A cloud that came back, and edges that did: whose answers count, who is waited for, what is sent again."""

from __future__ import annotations

import pytest
from cloud_talk import DIGEST, EVENT, LAYOUT, Talk

from common.messages import Hello, Model, Running, Stop, Update
from common.node import EDGES
from common.tensors import Tensors

EDGE = "edge-0001"
LINEAGE = "cloud-1"


def begun(**settings: object) -> Talk:
    talk = Talk(**settings)  # type: ignore[arg-type]
    talk.hello(EDGE)
    return talk


def holding(talk: Talk, ticket: int, lineage: str | None, boot: str = "b2") -> list[Model]:
    hello = Hello(digest=DIGEST, boot=boot, samples=10, event=EVENT, ticket=ticket, holds=lineage)
    talk.hear(EDGE, hello)
    return talk.sent(EDGE, Model)


def test_a_new_process_that_has_the_answer_is_asked_for_the_same_ticket() -> None:
    talk = begun(lineage=LINEAGE)
    talk.now = 5.0
    (model,) = holding(talk, 1, LINEAGE)
    assert model.ticket == 1
    tensors = Tensors(LAYOUT, LAYOUT.zeros())
    talk.hear(EDGE, Update(ticket=1, lineage=LINEAGE, version=1, work=1.0, event=EVENT, tensors=tensors))
    assert talk.rows("update")[0]["applied"]
    assert talk.sent(EDGE, Model)[0].ticket == 2


@pytest.mark.parametrize(("ticket", "lineage"), [(0, None), (1, None), (1, "cloud-0"), (7, "cloud-0")])
def test_a_new_process_without_it_gets_a_new_ticket(ticket: int, lineage: str | None) -> None:
    talk = begun(lineage=LINEAGE)
    talk.now = 5.0
    (model,) = holding(talk, ticket, lineage)
    assert model.ticket == max(2, ticket + 1)
    assert model.boot == "b2", "else its successor would take it for its own"


def test_an_answer_to_a_ticket_that_was_answered_is_a_copy() -> None:
    talk = begun(lineage=LINEAGE)
    tensors = Tensors(LAYOUT, LAYOUT.zeros())
    first = Update(ticket=1, lineage=LINEAGE, version=1, work=1.0, event=EVENT, tensors=tensors)
    talk.hear(EDGE, first)
    talk.now = 5.0
    (model,) = holding(talk, 1, LINEAGE)
    assert model.ticket == 3, "the second was given to the process that is gone"
    talk.hear(EDGE, first)
    assert talk.rows("update") == []


def test_an_answer_of_another_lineage_never_counts() -> None:
    talk = begun(lineage=LINEAGE)
    tensors = Tensors(LAYOUT, LAYOUT.zeros())
    for lineage in (None, "cloud-0"):
        talk.now += 5.0
        talk.hear(EDGE, Update(ticket=1, lineage=lineage, version=1, work=1.0, event=EVENT, tensors=tensors))
        assert talk.rows("update") == []
        assert [model.ticket for model in talk.sent(EDGE, Model)] == [1], "the work in hand comes again"


def test_a_node_that_came_back_announces_itself_and_sends_again_at_once() -> None:
    talk = begun()
    talk.wake("resumed")
    assert [type(message) for message in talk.sent(EDGES, Running)] == [Running]
    talk.hello(EDGE)
    assert [model.ticket for model in talk.sent(EDGE, Model)] == [1]


def test_edges_that_do_not_speak_after_a_restart_have_left() -> None:
    talk = begun()
    talk.hello("edge-0002")
    talk.wake("resumed")
    assert "return" in talk.wakes()
    talk.update("edge-0002", 1, 1)
    talk.wake("return")
    assert [row["edge"] for row in talk.rows("left")] == [EDGE]
    assert talk.rows("left")[0]["reason"] == "not heard of since the cloud was restarted"
    talk.wake("return")
    assert talk.rows("left") == []


def test_a_cloud_that_was_closing_says_so_again_and_does_not_wait_for_ever() -> None:
    talk = begun(updates=1)
    talk.update(EDGE, 1, 1)
    talk.wake("resumed")
    assert [type(message) for message in talk.sent(EDGES, Stop)] == [Stop]
    talk.wake("return")
    assert len(talk.halts()) == 1
