"""Each message once, the newest model only, Stop first, and no more memory than agreed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import WireError
from common.mailbox import BOOTS, NUMBERS, WAITING, Mailbox
from common.messages import Bye, Directive, Message, Model, Probe, Report, Stop
from common.tensors import Layout, Tensors
from common.wire import Envelope

TENSORS = Tensors(Layout.of({"w": (1,)}), np.zeros(1, dtype=np.float32))


def envelope(number: int, message: Message | None = None, boot: str = "b1", run: str = "run") -> Envelope:
    return Envelope(run, boot, number, 0.0, message or Report(iteration=number, metrics={}))


def model(ticket: int) -> Model:
    return Model(ticket=ticket, version=0, directive=Directive(), tensors=TENSORS)


def probe(ticket: int) -> Probe:
    return Probe(ticket=ticket, version=0, cap=1.0, bound=1.0, tensors=TENSORS)


def drained(mailbox: Mailbox) -> list[tuple[str, Message]]:
    return [item for item in iter(mailbox.take, None) if item is not None]


def test_messages_come_out_in_the_order_they_came_in() -> None:
    mailbox = Mailbox("run")
    for number in (1, 2, 3):
        assert mailbox.put("edge-1", envelope(number))
    assert len(mailbox) == 3
    assert [message.iteration for _, message in drained(mailbox)] == [1, 2, 3]  # type: ignore[union-attr]
    assert mailbox.take() is None


def test_another_run_is_refused() -> None:
    with pytest.raises(WireError, match="run: other: expected run"):
        Mailbox("run").put("edge-1", envelope(1, run="other"))


@pytest.mark.parametrize("taken", [False, True])
def test_a_second_copy_is_dropped_whether_the_first_was_read_or_not(taken: bool) -> None:
    mailbox = Mailbox("run")
    assert mailbox.put("edge-1", envelope(1))
    if taken:
        mailbox.take()
    assert not mailbox.put("edge-1", envelope(1))
    assert len(mailbox) == (0 if taken else 1)


def test_the_same_number_of_another_sender_or_process_is_another_message() -> None:
    mailbox = Mailbox("run")
    assert mailbox.put("edge-1", envelope(1))
    assert mailbox.put("edge-2", envelope(1))
    assert mailbox.put("edge-1", envelope(1, boot="b2"))
    assert mailbox.put("edge-1", envelope(2, boot="b1")), "an earlier process may still have something to say"


@given(st.permutations(range(40)), st.lists(st.integers(0, 39), max_size=60))
def test_any_order_with_any_copies_gives_each_message_once(order: list[int], copies: list[int]) -> None:
    mailbox = Mailbox("run")
    seen = []
    for number in order + copies:
        mailbox.put("edge-1", envelope(number))
        seen += [message.iteration for _, message in drained(mailbox)]  # type: ignore[union-attr]
    assert seen == order


def test_what_is_remembered_of_a_process_is_bounded_and_old_numbers_stay_dropped() -> None:
    mailbox = Mailbox("run")
    for number in range(0, 6 * NUMBERS, 2):
        assert mailbox.put("edge-1", envelope(number))
        mailbox.take()
    assert not any(mailbox.put("edge-1", envelope(number)) for number in range(0, 6 * NUMBERS, 2))
    assert max(len(seen._beyond) for seen in mailbox._seen["edge-1"].values()) == NUMBERS


def test_a_few_processes_of_a_sender_are_remembered() -> None:
    mailbox = Mailbox("run")
    for boot in range(BOOTS + 3):
        mailbox.put("edge-1", envelope(1, boot=f"b{boot}"))
    assert list(mailbox._seen["edge-1"]) == [f"b{boot}" for boot in range(3, BOOTS + 3)]


def test_there_is_a_limit_to_senders() -> None:
    mailbox = Mailbox("run", senders=2)
    for sender in ("edge-1", "edge-2"):
        mailbox.put(sender, envelope(1))
    with pytest.raises(WireError, match="at most 2 senders"):
        mailbox.put("edge-3", envelope(1))
    assert mailbox.put("edge-2", envelope(2))


def test_a_sender_that_floods_is_stopped_others_and_the_stop_are_not() -> None:
    mailbox = Mailbox("run")
    for number in range(WAITING):
        mailbox.put("cloud", envelope(number))
    with pytest.raises(WireError, match=f"{WAITING} messages of cloud wait"):
        mailbox.put("cloud", envelope(WAITING))
    assert mailbox.put("edge-2", envelope(1))
    assert mailbox.put("cloud", envelope(WAITING + 1, Stop(reason="done")))
    drained(mailbox)
    assert mailbox.put("cloud", envelope(WAITING)), "what was refused may be sent again"


@pytest.mark.parametrize(("older", "newer"), [(model(1), model(2)), (model(1), probe(2)), (probe(1), model(2))])
def test_only_the_newest_work_waits(older: Message, newer: Message) -> None:
    mailbox = Mailbox("run")
    mailbox.put("cloud", envelope(1, older))
    mailbox.put("cloud", envelope(2))
    mailbox.put("cloud", envelope(3, newer))
    assert [message.kind for _, message in drained(mailbox)] == ["report", newer.kind]


def test_older_work_does_not_replace_newer_work() -> None:
    mailbox = Mailbox("run")
    mailbox.put("cloud", envelope(3, model(2)))
    assert not mailbox.put("cloud", envelope(2, model(1)))
    assert drained(mailbox) == [("cloud", model(2))]


def test_work_of_a_cloud_that_started_again_replaces_what_waits() -> None:
    mailbox = Mailbox("run")
    mailbox.put("cloud", envelope(9, model(2)))
    assert mailbox.put("cloud", envelope(1, model(1), boot="b2"))
    assert drained(mailbox) == [("cloud", model(1))]


def test_work_of_one_sender_does_not_replace_that_of_another() -> None:
    mailbox = Mailbox("run")
    mailbox.put("edge-1", envelope(1, model(1)))
    mailbox.put("edge-2", envelope(2, model(1)))
    assert len(mailbox) == 2


def test_stop_is_read_first() -> None:
    mailbox = Mailbox("run")
    mailbox.put("cloud", envelope(1, model(1)))
    assert not mailbox.has_stop
    mailbox.put("cloud", envelope(2, Stop(reason="done")))
    assert mailbox.has_stop
    assert [message.kind for _, message in drained(mailbox)] == ["stop", "model"]


def test_what_the_shell_says_of_a_sender_comes_behind_what_the_sender_said() -> None:
    mailbox = Mailbox("run")
    mailbox.put("edge-1", envelope(1, model(1)))
    mailbox.add("edge-1", Bye(reason="connection lost"))
    mailbox.put("edge-1", envelope(2, model(2)))
    assert [message.kind for _, message in drained(mailbox)] == ["bye", "model"]


def test_of_numbers_without_gaps_only_the_last_is_kept() -> None:
    """Of a thousand edges with 512 numbers each, a cloud would keep 50 MB."""
    mailbox = Mailbox("run")
    for number in (1, 2, 4, 3, *range(5, 400)):
        assert mailbox.put("edge-1", envelope(number))
        mailbox.take()
    seen = mailbox._seen["edge-1"]["b1"]
    assert (seen._floor, seen._beyond, seen._known) == (399, [], set())
    assert not any(mailbox.put("edge-1", envelope(number)) for number in range(1, 400))


def test_a_gap_that_never_fills_costs_little_and_is_forgotten() -> None:
    mailbox = Mailbox("run")
    for number in range(2, 2 + 2 * NUMBERS):
        assert mailbox.put("edge-1", envelope(number))
        mailbox.take()
    seen = mailbox._seen["edge-1"]["b1"]
    assert seen._floor == 1 + 2 * NUMBERS
    assert not mailbox.put("edge-1", envelope(1))
