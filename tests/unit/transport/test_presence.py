"""Twins under one id: whatever happens in whatever order, the process that started first stays, alone."""

from __future__ import annotations

import pytest

from common.errors import WireError
from common.presence import Attendance, Claim, Presence, State, Verdict

EARLIER, LATER = "18a0", "18b0"


def said(state: State, boot: str) -> Presence:
    return Presence(state=state, boot=boot)


def test_a_presence_comes_back() -> None:
    assert Presence.decode(said("online", "b-1").encode()) == said("online", "b-1")


@pytest.mark.parametrize(
    "payload", [b"", b"online", b"[]", b'{"state":"online"}', b'{"state":"here","boot":"b"}', bytes(5000)]
)
def test_anything_else_is_refused(payload: bytes) -> None:
    with pytest.raises(WireError, match="presence"):
        Presence.decode(payload)


def test_ones_own_words_change_nothing_but_a_false_offline_is_corrected() -> None:
    claim = Claim("b")
    assert claim.judge(said("offline", "b"), retained=True) is Verdict.IGNORE
    claim.announced = True
    assert claim.judge(said("online", "b"), retained=False) is Verdict.IGNORE
    assert claim.judge(said("offline", "b"), retained=False) is Verdict.ANNOUNCE


def test_a_later_process_asks_and_stops_at_the_answer() -> None:
    claim = Claim(LATER)
    assert claim.judge(said("online", EARLIER), retained=True) is Verdict.ASK
    assert claim.judge(said("asking", LATER), retained=False) is Verdict.IGNORE
    assert claim.judge(said("online", EARLIER), retained=False) is Verdict.STOP


def test_an_answer_that_the_broker_marks_as_retained_counts_too() -> None:
    claim = Claim(LATER)
    claim.judge(said("online", EARLIER), retained=True)
    assert claim.judge(said("online", EARLIER), retained=True) is Verdict.STOP


def test_the_will_of_a_process_that_is_gone_frees_its_id() -> None:
    claim = Claim(LATER)
    claim.judge(said("online", EARLIER), retained=True)
    assert claim.judge(said("offline", EARLIER), retained=False) is Verdict.FREE
    assert claim.rival is None


def test_an_earlier_process_answers_whoever_comes_later() -> None:
    claim = Claim(EARLIER)
    assert claim.judge(said("asking", LATER), retained=False) is Verdict.IGNORE, "it has not announced itself yet"
    claim.announced = True
    for state in ("asking", "online", "offline"):
        assert claim.judge(said(state, LATER), retained=False) is Verdict.ANNOUNCE  # type: ignore[arg-type]


def test_two_that_start_together_are_told_apart_by_their_start() -> None:
    earlier, later = Claim(EARLIER, announced=True), Claim(LATER, announced=True)
    assert earlier.judge(said("online", LATER), retained=False) is Verdict.ANNOUNCE
    assert later.judge(said("online", EARLIER), retained=False) is Verdict.STOP


def test_what_an_earlier_process_left_behind_stops_nobody() -> None:
    claim = Claim(LATER)
    assert claim.judge(said("offline", EARLIER), retained=True) is Verdict.IGNORE
    assert claim.judge(said("asking", EARLIER), retained=False) is Verdict.IGNORE


def test_twins_that_cut_each_other_off_end_with_the_later_ones_stop() -> None:
    """Each finds the other's will on its return; one such will may be an old one that a broker restored."""
    claim = Claim(LATER, announced=True)
    assert claim.judge(said("offline", EARLIER), retained=True) is Verdict.ANNOUNCE
    assert claim.judge(said("offline", EARLIER), retained=True) is Verdict.STOP


def test_only_the_process_that_the_cloud_knows_can_leave() -> None:
    attendance = Attendance()
    attendance.heard("edge-1", "b1")
    attendance.heard("edge-1", "b2")
    assert not attendance.left("edge-1", "b1")
    assert attendance.left("edge-1", "b2")
    assert not attendance.left("edge-1", "b2")


def test_the_attendance_list_is_bounded() -> None:
    attendance = Attendance(limit=1)
    attendance.heard("edge-1", "b1")
    attendance.heard("edge-2", "b1")
    attendance.heard("edge-1", "b2")
    assert not attendance.left("edge-2", "b1")
    assert attendance.left("edge-1", "b2")
