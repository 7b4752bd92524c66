"""The answer that an edge keeps on disk: whole, or none; and what the next process does with it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from edge_talk import EVENT, MODEL, Talk

from common.errors import RecordError
from common.events import Event
from common.messages import Answer, Directive, Hello, Model, Running, Update
from common.tensors import Tensors
from edge.answer_file import AnswerFile

PROBED = Event(mechanism="gaussian", noise_multiplier=5.0, dimension=2)


def update(ticket: int = 3, value: float = 0.5, lineage: str | None = "cloud-1") -> Update:
    tensors = Tensors(MODEL.layout, np.full(MODEL.layout.size, value, dtype=np.float32))
    return Update(ticket=ticket, lineage=lineage, version=2, work=20.0, event=EVENT, tensors=tensors)


def answer(ticket: int = 4) -> Answer:
    return Answer(ticket=ticket, lineage="cloud-1", version=2, event=PROBED, values=(0.5, 0.25))


def file_at(path: Path, owner: str = "run edge-0001 digest") -> AnswerFile:
    return AnswerFile(path / "answer.bin", owner, MODEL.layout)


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    file = file_at(tmp_path)
    file.write(answer(2))  # longer than what follows it, and shorter
    file.write(update())
    file.close()
    return tmp_path / "answer.bin"


def test_the_newest_answer_comes_back_bit_for_bit(tmp_path: Path) -> None:
    file = file_at(tmp_path)
    assert file.read() is None
    for message in (update(), answer(), update(5, -1.0), answer(6)):
        file.write(message)
        found = file_at(tmp_path).read()
        assert found == message
        if isinstance(message, Update) and isinstance(found, Update):
            assert found.tensors.flat.tobytes() == message.tensors.flat.tobytes()
    file.close()


def test_wherever_the_file_is_torn_there_is_no_answer(kept: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole = kept.read_bytes()
    for size in range(len(whole)):
        kept.write_bytes(whole[:size])
        assert file_at(kept.parent).read() is None, size
    assert "not sent again" in caplog.text


def test_whichever_byte_is_another_there_is_no_answer(kept: Path) -> None:
    whole = kept.read_bytes()
    for place in range(len(whole)):
        kept.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        found = file_at(kept.parent).read()
        assert found is None or found == update(), place


def test_an_answer_that_overwrote_another_half_way_is_none(kept: Path) -> None:
    before, file = kept.read_bytes(), file_at(kept.parent)
    file.write(update(4, 7.0))
    file.close()
    after = kept.read_bytes()
    for size in range(1, len(after)):
        kept.write_bytes(after[:size] + before[size:])
        found = file_at(kept.parent).read()
        assert found in (None, update(), update(4, 7.0)), size


def test_an_answer_of_another_run_is_none(kept: Path) -> None:
    assert file_at(kept.parent, "run-2 edge-0001 digest").read() is None
    assert file_at(kept.parent).read() == update()


def test_a_disk_that_is_full_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "answer.bin").symlink_to("/dev/full")
    file = file_at(tmp_path)
    with pytest.raises(RecordError, match="room for an answer"):
        file.write(update())
    file.close()


class Shelf:
    """Keeps an answer in memory."""

    def __init__(self, held: Update | Answer | None = None) -> None:
        self.held = held

    def read(self) -> Update | Answer | None:
        return self.held

    def write(self, answer: Update | Answer) -> None:
        self.held = answer


def model(talk: Talk, ticket: int, lineage: str = "cloud-1", boot: str | None = None) -> list[object]:
    tensors = Tensors(MODEL.layout, MODEL.layout.zeros())
    directive = Directive(clip_norm=1.0)
    talk.hear(Model(ticket=ticket, lineage=lineage, boot=boot, version=1, directive=directive, tensors=tensors))
    return list(talk.said())


def test_the_next_process_gives_what_the_one_before_had_answered_for_no_further_release() -> None:
    shelf = Shelf()
    first = Talk(kept=shelf)
    (said,) = model(first, 3)
    second = Talk(kept=shelf)
    (hello,) = second.said()
    assert isinstance(hello, Hello)
    assert (hello.ticket, hello.holds) == (3, "cloud-1")
    assert model(second, 3) == [said]
    assert second.rows("held")[0]["ticket"] == 3
    assert second.ledger.releases == 0
    (again,) = (second.wake("repeat"), second.said())[1]
    assert again is said
    assert model(second, 3) == [], "it is said once more only when nothing comes"


def test_work_that_is_newer_makes_it_forget() -> None:
    talk = Talk(kept=Shelf(update()))
    (said,) = model(talk, 4)
    assert isinstance(said, Update)
    assert said.ticket == 4
    assert talk.ledger.releases == 1
    assert model(talk, 3) == []


@pytest.mark.parametrize(
    "held",
    [
        update(lineage=None),
        update().model_copy(update={"event": EVENT.model_copy(update={"noise_multiplier": 9.0})}),
        None,
    ],
)
def test_an_answer_that_cannot_count_is_not_held(held: Update | None) -> None:
    talk = Talk(kept=Shelf(held))
    (hello,) = talk.said()
    assert isinstance(hello, Hello)
    assert (hello.ticket, hello.holds) == (0, None)


def test_a_cloud_that_is_new_is_told_nothing_of_it() -> None:
    talk = Talk(kept=Shelf(update()))
    talk.hear(Running(boot="cloud-1", lineage="cloud-1", digest="a" * 64))
    talk.hear(Running(boot="cloud-2", lineage="cloud-2", digest="a" * 64))
    (hello,) = talk.said()
    assert isinstance(hello, Hello)
    assert (hello.ticket, hello.holds) == (3, None)
    assert model(talk, 3, "cloud-2") == []


def test_a_cloud_that_goes_on_hears_the_last_answer_at_once() -> None:
    talk = Talk()
    talk.hear(Running(boot="cloud-1", lineage="cloud-1", digest="a" * 64))
    (said,) = model(talk, 1)
    talk.hear(Running(boot="cloud-2", lineage="cloud-1", digest="a" * 64))
    (again,) = talk.said()
    assert again is said
    talk.hear(Running(boot="cloud-2", lineage="cloud-1", digest="a" * 64))
    assert talk.said() == []


def test_work_of_a_cloud_that_is_gone_is_not_done() -> None:
    talk = Talk()
    talk.hear(Running(boot="cloud-2", lineage="cloud-2", digest="a" * 64))
    assert model(talk, 5, "cloud-1") == []
    assert talk.ledger.releases == 0


def test_work_that_another_process_of_this_edge_was_asked_for_is_not_done() -> None:
    """The cloud may have asked before it heard of this one; its answer would be paid for, and not be taken."""
    talk = Talk()
    assert model(talk, 5, boot="b0") == []
    assert talk.ledger.releases == 0
    (said,) = model(talk, 6, boot="b1")
    assert isinstance(said, Update)
