"""`mapa attack inversion` from its arguments to its files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.__main__ import main

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def attack(*arguments: object) -> int:
    return main(["attack", "inversion", *map(str, arguments)])


def test_it_writes_scores_and_a_picture_and_says_what_is_seen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert attack("--model", "softmax", "--epsilon", "none,0.01", "--records", 2, "--out", tmp_path / "first") == 0
    said = capsys.readouterr().out
    assert "Without noise a gradient gives its record away: 2/2 pictures" in said
    assert "not established" in said
    assert "0/2 at epsilon 0.01" in said
    content = json.loads((tmp_path / "first" / "inversion.json").read_text())
    assert [row["beats_guessing"] for row in content["results"]] == [True, True, False, False]
    assert content["results"][0]["psnr"] > 30 > content["results"][2]["psnr"]
    assert all(sentence in said for sentence in content["sentences"])
    assert (tmp_path / "first" / "inversion.png").read_bytes().startswith(SIGNATURE)


def test_what_was_recorded_can_be_attacked_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    assert attack("--model", "logistic", "--epsilon", "1,none", "--records", 1, "--out", first) == 0
    assert attack("--recorded", first / "recorded", "--out", second) == 0
    one, other = (json.loads((folder / "inversion.json").read_text()) for folder in (first, second))
    for row in one["results"] + other["results"]:
        del row["seconds"]
    assert one == other
    (first / "recorded" / "truth.npz").unlink()
    assert attack("--recorded", first / "recorded", "--out", second) == 0
    assert "for the eye to judge" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--epsilon", "much"), "--epsilon: 'much'"),
        (("--epsilon", "0,none"), "--epsilon: '0'"),
        (("--epsilon", "nan"), "--epsilon: 'nan'"),
        (("--epsilon", "-1"), "--epsilon: '-1'"),
        (("--records", "0"), "--records: 0"),
        (("--steps", "0"), "--steps: 0"),
        (("--recorded", "nowhere"), "--recorded: 'nowhere'"),
        (("--set", "data.name=nothing"), "data.name: 'nothing'"),
    ],
)
def test_bad_input_is_told_before_anything_is_written(
    tmp_path: Path, arguments: tuple[str, ...], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert attack(*arguments, "--out", tmp_path / "out") == 2
    assert expected in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_file_where_the_folder_should_be_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out").write_text("")
    assert attack("--model", "svm", "--epsilon", "none", "--records", 1, "--out", tmp_path / "out") == 6
    assert "expected a folder" in capsys.readouterr().err
