"""Kept answers: the same as computed ones, never another question's, never damaged ones."""

from __future__ import annotations

import json
import logging
import os
import resource
import stat
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from common.answers import LIBRARIES, Answers, cache_folder, versions
from common.events import Event
from common.privacy.calibration import calibrate

QUESTION = {"account": {"epsilon": 0.1}, "releases": 3}
ANSWER = {"epsilon_pld": 0.1 + 0.2, "epsilon_rdp": None}


def never() -> Any:
    pytest.fail("computed anew")


def keep(folder: Path, question: Mapping[str, Any] = QUESTION, answer: object = ANSWER) -> Path:
    """The file of an answer."""
    before = set(folder.glob("*"))
    assert Answers(folder).ask(question, lambda: answer) == answer
    (file,) = set(folder.glob("*")) - before
    return file


def test_an_answer_is_computed_once(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    keep(folder)
    assert Answers(folder).ask(QUESTION, never) == ANSWER  # to the last bit, by another process as well
    assert Answers(folder).ask(dict(reversed(QUESTION.items())), never) == ANSWER
    assert Answers(folder).ask(QUESTION | {"releases": 4}, lambda: 7) == 7


def test_an_answer_of_none_is_an_answer(tmp_path: Path) -> None:
    keep(tmp_path, answer=None)
    assert Answers(tmp_path).ask(QUESTION, never) is None


def damage(change: Callable[[dict[str, Any]], object]) -> Callable[[bytes], bytes]:
    def changed(content: bytes) -> bytes:
        value = json.loads(content)
        change(value)
        return json.dumps(value).encode()

    return changed


@pytest.mark.parametrize(
    "broken",
    [
        lambda _: b"",
        lambda _: b"\xff\xfe",
        lambda _: b"[]",
        lambda _: b"{}",
        lambda content: content[:-10],
        lambda content: content.replace(b"0.30000000000000004", b"0.30000000000000001"),
        damage(lambda value: value.update(answer={"epsilon_pld": 0.2})),
        damage(lambda value: value["question"]["question"].update(releases=4)),
        damage(lambda value: value["question"]["versions"].update(accounting="0")),
        damage(lambda value: value.pop("digest")),
        damage(lambda value: value.update(more=1)),
    ],
)
def test_what_is_damaged_is_computed_and_written_anew(broken: Callable[[bytes], bytes], tmp_path: Path) -> None:
    file = keep(tmp_path)
    whole = file.read_bytes()
    file.write_bytes(broken(whole))
    assert Answers(tmp_path).ask(QUESTION, lambda: "new") == "new"
    assert Answers(tmp_path).ask(QUESTION, never) == "new"
    assert [*tmp_path.glob("*")] == [file]


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_what_others_may_write_is_computed_and_written_anew(mode: int, tmp_path: Path) -> None:
    file = keep(tmp_path)
    file.chmod(mode)
    assert Answers(tmp_path).ask(QUESTION, lambda: "new") == "new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert Answers(tmp_path).ask(QUESTION, never) == "new"


def test_what_another_user_wrote_is_computed_and_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(tmp_path)
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    assert Answers(tmp_path).ask(QUESTION, lambda: "new") == "new"
    monkeypatch.undo()
    assert Answers(tmp_path).ask(QUESTION, never) == "new"


def test_a_full_disk_leaves_no_part_behind(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, before[1]))
    try:
        assert Answers(tmp_path).ask(QUESTION, lambda: 5) == 5
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [*tmp_path.glob("*")] == []
    assert "File too large: answers are computed each time" in caplog.text


def test_an_answer_to_another_question_is_not_taken(tmp_path: Path) -> None:
    """Though it is whole, and lies where ours would."""
    mine, other = keep(tmp_path), keep(tmp_path, {"other": 1}, 5.0)
    other.replace(mine)
    assert Answers(tmp_path).ask(QUESTION, lambda: 8) == 8


def test_an_answer_does_not_outlive_the_code_that_gave_it(tmp_path: Path) -> None:
    found = versions()
    assert set(found) == {"accounting", *LIBRARIES}
    assert len(found["accounting"]) == 64
    content = json.loads(keep(tmp_path).read_bytes())
    assert content["question"]["versions"] == found


def test_a_folder_that_cannot_be_used_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "file"
    file.touch()
    answers = Answers(file / "answers")
    with caplog.at_level(logging.WARNING):
        assert [answers.ask(QUESTION, lambda: 5), answers.ask(QUESTION, lambda: 6)] == [5, 6]
    (record,) = caplog.records
    assert "Not a directory: answers are computed each time" in record.getMessage()


def test_without_a_folder_nothing_is_kept() -> None:
    answers = Answers(None)
    assert [answers.ask(QUESTION, lambda: 5), answers.ask(QUESTION, lambda: 6)] == [5, 6]


def test_several_at_once(tmp_path: Path) -> None:
    results: list[object] = []

    def work() -> None:
        answers = Answers(tmp_path)
        for number in range(40):
            answer = number % 4
            results.append(answers.ask({"n": answer}, partial(int, answer)) == answer)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 240
    assert len([*tmp_path.glob("*")]) == 4  # no parts are left


def test_calibration_is_kept(tmp_path: Path) -> None:
    event = Event(mechanism="gaussian")
    found = calibrate(event, 10, 1.0, 1e-5, ask=Answers(tmp_path).ask)
    assert calibrate(event, 10, 1.0, 1e-5, ask=lambda question, _: Answers(tmp_path).ask(question, never)) == found


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"XDG_CACHE_HOME": "/c", "HOME": "/h"}, "/c/mapa/answers"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, "/h/.cache/mapa/answers"),
        ({"HOME": "/h"}, "/h/.cache/mapa/answers"),
        ({"HOME": ""}, None),
        ({}, None),
    ],
)
def test_where_answers_are(environment: Mapping[str, str], folder: str | None) -> None:
    assert cache_folder(environment) == (None if folder is None else Path(folder))
