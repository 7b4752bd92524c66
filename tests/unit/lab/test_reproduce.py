"""`mapa reproduce`: runs of a figure, on with them after an interruption, and what is drawn of the results."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_figures import designed, write

from lab.__main__ import main
from lab.attacks.recording import read
from lab.curves import panels_of
from lab.grid import Point
from lab.recovery import EPSILONS, MODELS, NUMBER
from lab.reproduce import in_turn
from lab.sweep import Result
from lab.table import Spread
from lab.trial import Task

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def reproduce(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    def call(figure: str, *arguments: str) -> tuple[int, str, str]:
        folders = ("--figures", str(tmp_path), "--out", str(tmp_path / "out"))
        code = main(["reproduce", figure, *folders, "--jobs", "1", *arguments])
        output = capsys.readouterr()
        return code, output.out, output.err

    return call


QUICK = ("--quick", "--mechanism", "gaussian")


def test_a_figure_is_run_drawn_and_gone_on_with(reproduce: Call, tmp_path: Path) -> None:
    write(tmp_path)
    code, text, errors = reproduce("99", *QUICK)
    assert code == 0, errors
    folder = tmp_path / "out" / "figure-99" / "gaussian-quick"
    assert "figure 99: Tiny: 4 runs, 0 made before" in text
    for number in (1, 2, 3, 4):
        assert (folder / f"figure-99-{number}.png").read_bytes().startswith(b"\x89PNG")
    with (folder / "results.csv").open(newline="") as content:
        rows = list(csv.DictReader(content))
    found = [(row["panel"], row["variant"], row["privacy.noise_multiplier"], row["updates"]) for row in rows]
    assert found == [
        ("b", "ASGD", "", "20"),
        ("b", "AUDP", "0.5", "20"),
        ("b", "AUDP", "2.0", "20"),
        ("b", "AUDP", "8.0", "20"),
    ]
    assert [row["epsilon_total"] != "" for row in rows] == [False, True, True, True]

    (folder / "b-AUDP" / "points" / "noise_multiplier=2.0,seed=1.json").unlink()
    _, again, _ = reproduce("99", *QUICK)
    assert "4 runs, 3 made before" in again
    assert again.partition("(b) SVM")[2] == text.partition("(b) SVM")[2] != "", "the same points"

    write(tmp_path, ("experiment/stop", {"updates": 41}), ("experiment/algorithm", {"name": "audp", "batch_size": 6}))
    code, _, errors = reproduce("99", *QUICK)
    assert code == 2
    assert "algorithm.batch_size: 6: expected 12, as when the sweep began" in errors


@pytest.mark.parametrize("figure", ["3", "10", "five", "figure-99"])
def test_a_figure_that_is_not_there_lists_those_that_are(figure: str, reproduce: Call, tmp_path: Path) -> None:
    write(tmp_path)
    code, _, errors = reproduce(figure)
    assert code == 2
    assert f"figure: '{figure}': expected one of 4, 99, or all" in errors
    assert not (tmp_path / "out").exists()


def test_runs_of_all_series_take_turns_so_that_the_time_left_is_told_from_all_of_them(tmp_path: Path) -> None:
    series = [[Task(f"{name}{index}", {}, tmp_path) for index in range(count)] for name, count in (("a", 3), ("b", 1))]
    assert [task.name for task in in_turn(series)] == ["a0", "b0", "a1", "a2"]


def test_a_folder_without_figures_is_told(reproduce: Call) -> None:
    code, _, errors = reproduce("99")
    assert code == 2
    assert "expected a folder with figure-<number>.yaml" in errors


@pytest.mark.parametrize(
    ("change", "code", "clue"),
    [
        (("experiment/data/name", "mnist"), 3, "mnist"),
        (("variants/AUDP", {"set": {"algorithm.cloud.nothing": 1}}), 2, "algorithm.cloud.nothing"),
        (("variants/AUDP", {"set": {"nothing": 1}}), 2, "nothing: 1: expected no such key"),
    ],
)
def test_what_cannot_run_is_told_before_anything_does(
    change: tuple[str, Any], code: int, clue: str, reproduce: Call, tmp_path: Path
) -> None:
    write(tmp_path, change)
    found, _, errors = reproduce("99", *QUICK, "--data", str(tmp_path / "data"))
    assert found == code
    assert clue in errors
    assert list((tmp_path / "out").rglob("*.json")) == []


def test_a_mechanism_that_the_figure_has_not_is_refused(reproduce: Call, tmp_path: Path) -> None:
    write(tmp_path)
    code, _, errors = reproduce("99")
    assert code == 2
    assert "--mechanism: 'rigorous': expected one of paper, gaussian" in errors


def test_more_seeds_go_on_from_those_that_are_there(reproduce: Call, tmp_path: Path) -> None:
    write(tmp_path)
    assert reproduce("99", *QUICK)[0] == 0
    code, text, errors = reproduce("99", *QUICK, "--panels", "b", "--seeds", "1,2")
    assert code == 0, errors
    assert "8 runs, 4 made before" in text


@pytest.mark.parametrize(
    ("figure", "arguments", "clue"),
    [
        ("99", ("--panels", "a"), "--panels: 'a': expected some of b for 99, gaussian"),
        ("99", ("--panels", "b,"), "--panels: '': expected some of b"),
        ("99", ("--seeds", "one"), "--seeds: 'one': expected integers, separated by commas"),
        ("99", ("--seeds", "1,1"), "--grid seed: [1, 1]: expected different values"),
        ("all", ("--seeds", "1"), "figure: 'all': expected one of 99 with --panels or --seeds"),
        ("4", ("--panels", "a"), "figure: '4': expected one of 99 with --panels or --seeds"),
    ],
)
def test_a_choice_that_is_none_is_refused(
    figure: str, arguments: tuple[str, ...], clue: str, reproduce: Call, tmp_path: Path
) -> None:
    write(tmp_path)
    code, _, errors = reproduce(figure, *QUICK, *arguments)
    assert code == 2
    assert clue in errors
    assert not (tmp_path / "out").exists()


def test_figure_4_recovers_digits_and_is_not_made_twice(reproduce: Call, tmp_path: Path, shared_data: Path) -> None:
    write(tmp_path)
    code, _, errors = reproduce(NUMBER, "--quick", "--mechanism", "paper", "--data", str(shared_data))
    assert code == 0, errors
    folder = tmp_path / "out" / "figure-4" / "paper-quick"
    index, truth = read(folder / "recorded")
    assert (index.mechanism, index.data) == ("paper", "mnist")
    assert {(release.model, release.epsilon) for release in index.releases} == {
        (model, epsilon) for model in MODELS for epsilon in EPSILONS
    }
    assert truth is not None
    results = json.loads((folder / "inversion.json").read_text())["results"]
    plain = [row["psnr"] for row in results if row["epsilon"] is None and row["model"] != "cnn"]
    strong = [row["psnr"] for row in results if row["epsilon"] == 0.01]
    assert min(plain) > 40
    assert max(strong) < 20
    assert (folder / "inversion.png").is_file()

    made = (folder / "inversion.json").stat().st_mtime_ns
    _, again, _ = reproduce(NUMBER, "--quick", "--mechanism", "paper", "--data", str(shared_data))
    assert "12 inversions, 12 made before" in again
    assert "Without noise a gradient gives its record away" in again
    assert (folder / "inversion.json").stat().st_mtime_ns == made

    mark = folder / "figure.json"
    mark.write_text(json.dumps({**json.loads(mark.read_text()), "steps": 7}))
    code, _, errors = reproduce(NUMBER, "--quick", "--mechanism", "paper", "--data", str(shared_data))
    assert code == 2
    assert "figure.json: steps: " in errors
    assert "expected 7, as when the figure was made" in errors

    mark.write_text("[]")
    code, _, errors = reproduce(NUMBER, "--quick", "--mechanism", "paper", "--data", str(shared_data))
    assert code == 6
    assert "figure.json: list: expected a file of this figure" in errors


def test_figure_4_without_its_data_leaves_nothing(reproduce: Call, tmp_path: Path) -> None:
    write(tmp_path)
    code, _, errors = reproduce(NUMBER, "--quick", "--data", str(tmp_path / "data"))
    assert code == 3
    assert "mnist" in errors
    assert not (tmp_path / "out").exists()


# What is drawn


def result(values: Sequence[tuple[str, Any]], losses: Sequence[float | None], epsilon: float | None = None) -> Result:
    curve = [
        {"updates": 10.0 * step, "accuracy": 0.1 * step, "loss": loss, "gradient_norm": None}
        for step, loss in enumerate(losses)
    ]
    return Result(Point(tuple(values)), {"edges": [{"epsilon_total": epsilon}]}, curve)


def noisy(noise: float, seed: int, losses: Sequence[float | None], epsilon: float | None = 1.0) -> Result:
    return result((("privacy.noise_multiplier", noise), ("seed", seed)), losses, epsilon)


@pytest.fixture
def drawn(tmp_path: Path) -> Callable[[int, list[Result], list[Result]], dict[str, Any]]:
    """The series of one plot of the tiny figure, of results for its two variants."""
    plan = designed(write(tmp_path))

    def draw(plot: int, levels: list[Result], others: list[Result]) -> dict[str, Any]:
        (panel,) = panels_of(plan, plan.figure.plots[plot], {("b", "ASGD"): levels, ("b", "AUDP"): others})
        return {"notes": panel.notes, **{name: list(points) for name, points in panel.series.items()}}

    return draw


LEVELS = [result((("seed", seed),), [1.0, 0.5]) for seed in (1, 2)]


def test_a_level_has_no_place_on_the_axis_and_points_are_means_over_seeds(drawn: Callable[..., Any]) -> None:
    others = [noisy(noise, seed, [1.0] * (1 + seed)) for noise in (0.5, 2.0) for seed in (1, 2)]
    series = drawn(0, LEVELS, others)
    assert series["ASGD"] == [(None, Spread(0.1, 0.1, 0.1, 2))]
    assert [x for x, _ in series["AUDP"]] == [0.5, 2.0]
    assert (series["AUDP"][0][1].lowest, series["AUDP"][0][1].highest, series["AUDP"][0][1].count) == (0.1, 0.2, 2)
    assert np.isclose(series["AUDP"][0][1].mean, 0.15)


def test_against_the_total_epsilon_only_what_is_established_has_a_place(drawn: Callable[..., Any]) -> None:
    others = [
        noisy(0.5, 1, [1.0], 3.0),
        noisy(0.5, 2, [1.0], 4.0),
        noisy(2.0, 1, [1.0], None),
        noisy(2.0, 2, [1.0], 1.0),
    ]
    series = drawn(1, LEVELS, others)
    assert [x for x, _ in series["AUDP"]] == [4.0], "the worst total of its seeds; none where one is unknown"
    assert [x for x, _ in series["ASGD"]] == [None]


def test_updates_to_a_loss_count_to_the_first_evaluation_at_or_below_it(drawn: Callable[..., Any]) -> None:
    reached = [noisy(0.5, 1, [2.0, 0.9, 1.5]), noisy(0.5, 2, [2.0, None, 0.95, 0.3])]
    missed = [noisy(2.0, 1, [2.0, 0.3]), noisy(2.0, 2, [2.0, 0.91])]
    series = drawn(2, LEVELS, reached + missed)
    (at, spread), *more = series["AUDP"]
    assert (at, spread.lowest, spread.highest) == (0.5, 10.0, 30.0)
    assert more == [], "a seed that never got there leaves no mean"
    assert series["notes"] == ["not reached by every seed: AUDP at 2"]


def test_curves_have_a_panel_for_each_value_and_end_where_a_seed_does(tmp_path: Path) -> None:
    plan = designed(write(tmp_path))
    others = [noisy(0.5, 1, [2.0, 1.0, 0.5]), noisy(0.5, 2, [4.0, 2.0]), noisy(2.0, 1, [1.0])]
    weak, strong = panels_of(plan, plan.figure.plots[3], {("b", "ASGD"): LEVELS, ("b", "AUDP"): others})
    assert (weak.title, strong.title) == ("(b) SVM, noise: 0.5", "(b) SVM, noise: 2.0")
    assert [(x, spread.mean) for x, spread in weak.series["AUDP"]] == [(0.0, 3.0), (10.0, 1.5)]
    assert [(x, spread.mean) for x, spread in strong.series["AUDP"]] == [(0.0, 1.0)]
    assert [x for x, _ in weak.series["ASGD"]] == [x for x, _ in strong.series["ASGD"]] == [0.0, 10.0]


@pytest.mark.parametrize(("epsilons", "is_log"), [((0.1, 3.0), True), ((1.0, 3.0), False)])
def test_totals_far_apart_are_drawn_on_a_logarithmic_axis(
    epsilons: tuple[float, float], is_log: bool, tmp_path: Path
) -> None:
    plan = designed(write(tmp_path))
    others = [noisy(noise, 1, [1.0], epsilon) for noise, epsilon in zip((2.0, 0.5), epsilons, strict=True)]
    (panel,) = panels_of(plan, plan.figure.plots[1], {("b", "ASGD"): LEVELS, ("b", "AUDP"): others})
    assert panel.log_x is is_log
