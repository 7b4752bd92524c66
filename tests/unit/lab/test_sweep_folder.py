"""The folder of a sweep: one process at a time works in it, and what somebody has edited there is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from harness import experiment

from common.storage import held
from lab import sweeping
from lab.__main__ import main

Sweeping = Callable[..., tuple[int, str]]


@pytest.fixture
def sweep(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Sweeping:
    """Sweeps one seed into `tmp_path/out`: exit code, and what was complained about."""
    file = tmp_path / "plan.yaml"
    plan = experiment(stop={"updates": 5}, data={"name": "digits", "edges": 2})
    file.write_text(yaml.safe_dump(plan.model_dump(mode="json", exclude_none=True)))

    def call(*arguments: str) -> tuple[int, str]:
        code = main(["sweep", str(file), "--out", str(tmp_path / "out"), "--jobs", "1", "--seeds", "1", *arguments])
        return code, capsys.readouterr().err

    return call


@pytest.mark.parametrize(
    ("name", "content", "clue"),
    [
        ("sweep.json", [], "no experiment"),
        ("sweep.json", {"experiment": {}}, "no axes"),
        ("points/seed=1.json", [], "no experiment"),
        ("points/seed=1.json", {"summary": None}, "no summary"),
        ("points/seed=1.json", {"summary": {}}, "summary: no state"),
        ("points/seed=1.json", {"curve": 3}, "no curve"),
    ],
)
def test_a_file_that_somebody_has_edited_is_named(
    sweep: Sweeping, tmp_path: Path, name: str, content: Any, clue: str
) -> None:
    sweep()
    path = tmp_path / "out" / name
    whole = json.loads(path.read_text()) if name != "sweep.json" else {}
    path.write_text(json.dumps({**whole, **content} if isinstance(content, dict) else content))
    code, errors = sweep()
    assert (code, errors) == (6, f"error: sweep: {path}: {clue}: expected a file of this sweep\n")


def test_a_picture_that_cannot_be_written_is_named(sweep: Sweeping, tmp_path: Path) -> None:
    picture = tmp_path / "out" / "sweep.png"
    picture.mkdir(parents=True)
    code, errors = sweep()
    assert code == 6
    assert f"error: file: {picture}: Is a directory" in errors


def test_two_sweeps_in_one_folder_do_not_mix(sweep: Sweeping, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "held", partial(held, patience=0.0))
    (tmp_path / "out").mkdir()
    with held(tmp_path / "out" / "lock"):  # by the other
        code, errors = sweep()
    assert code == 6
    assert "lock: another process runs here" in errors
    assert not (tmp_path / "out" / "sweep.json").exists()


def test_a_sweep_that_another_has_overtaken_is_refused(
    sweep: Sweeping, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def overtaken(*_: object) -> None:
        monkeypatch.undo()
        assert sweep("--set", "stop.updates=6")[0] == 0

    monkeypatch.setattr(sweeping, "check_points", overtaken)
    code, errors = sweep()
    assert code == 2
    assert "sweep.json: stop.updates: 5: expected 6, as when the sweep began" in errors
