"""`mapa sweep`: every point once, on with it after an interruption, and no other experiment in the same folder."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from harness import experiment

from lab.__main__ import main
from lab.curves import tell
from lab.panels import Panel
from lab.sweep import Result
from lab.sweeping import panels_of
from lab.table import Spread, as_csv, print_table, rows_of

Sweeping = Callable[..., tuple[int, str, str]]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "plan.yaml"
    plan = experiment(stop={"updates": 30}, evaluation={"every": 10}, data={"name": "digits", "edges": 2})
    path.write_text(yaml.safe_dump(plan.model_dump(mode="json", exclude_none=True)))
    return path


@pytest.fixture
def sweep(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Sweeping:
    """Sweeps into `tmp_path/out`: exit code, what was said, what was complained about."""

    def call(*arguments: str, out: str = "out") -> tuple[int, str, str]:
        jobs = () if "--jobs" in arguments else ("--jobs", "1")
        code = main(["sweep", str(file), "--out", str(tmp_path / out), *jobs, *arguments])
        output = capsys.readouterr()
        return code, output.out, output.err

    return call


def rows_in(folder: Path) -> list[dict[str, str]]:
    with (folder / "results.csv").open(newline="") as content:
        return list(csv.DictReader(content))


GRID = ("--grid", "privacy.noise_multiplier=0.5,2", "--seeds", "1,2")


def test_every_point_has_a_row_and_the_sweep_a_picture(sweep: Sweeping, tmp_path: Path) -> None:
    code, text, _ = sweep(*GRID)
    assert code == 0, text
    rows = rows_in(tmp_path / "out")
    points = [(row["privacy.noise_multiplier"], row["seed"]) for row in rows]
    assert points == [("0.5", "1"), ("0.5", "2"), ("2", "1"), ("2", "2")]
    for row in rows:
        assert 0 < float(row["test_accuracy"]) < 1
        assert float(row["epsilon_total"]) > 0
        assert (row["updates"], row["state"]) == ("30", "complete")
    assert float(rows[0]["epsilon_total"]) > float(rows[2]["epsilon_total"])
    assert (tmp_path / "out" / "sweep.png").read_bytes().startswith(b"\x89PNG")
    for words in ("sweep: 4 points, 0 done before", "noise_multiplier", "results.csv"):
        assert words in text
    assert "seed " not in text, "seeds are put together"


def test_after_an_interruption_it_goes_on_with_what_is_missing(sweep: Sweeping, tmp_path: Path) -> None:
    sweep(*GRID)
    points, before = tmp_path / "out" / "points", rows_in(tmp_path / "out")
    names = {path.name: path.stat().st_mtime_ns for path in points.iterdir()}
    assert len(names) == 4
    lost = points / "noise_multiplier=2,seed=1.json"
    lost.unlink()
    code, text, _ = sweep(*GRID)
    assert code == 0
    assert "4 points, 3 done before" in text
    after = {path.name: path.stat().st_mtime_ns for path in points.iterdir()}
    assert {name for name in names if after[name] != names[name]} == {lost.name}
    assert rows_in(tmp_path / "out") == before
    assert "4 points, 4 done before" in sweep(*GRID)[1]


def test_more_values_and_seeds_may_come_later(sweep: Sweeping) -> None:
    sweep("--grid", "privacy.noise_multiplier=0.5", "--seeds", "1")
    _, text, _ = sweep("--grid", "privacy.noise_multiplier=0.5,1", "--seeds", "1,2")
    assert "4 points, 1 done before" in text


def test_a_changed_file_is_refused_with_every_difference(sweep: Sweeping, file: Path) -> None:
    sweep(*GRID)
    changed = yaml.safe_load(file.read_text())
    changed["stop"]["updates"], changed["algorithm"]["cloud"]["radius"] = 31, 29.0
    changed["privacy"]["noise_multiplier"] = 7.0  # which the grid sets
    file.write_text(yaml.safe_dump(changed))
    code, _, errors = sweep(*GRID)
    assert code == 2
    assert "sweep.json: stop.updates: 31: expected 30, as when the sweep began" in errors
    assert "algorithm.cloud.radius: 29.0: expected 30.0" in errors
    assert errors.count("error: ") == 2


def test_another_grid_is_refused(sweep: Sweeping) -> None:
    sweep("--grid", "privacy.noise_multiplier=0.5")
    code, _, errors = sweep("--grid", "algorithm.batch_size=4")
    assert code == 2
    assert "['algorithm.batch_size']: expected ['privacy.noise_multiplier']" in errors


def test_a_result_of_another_experiment_is_refused_before_anything_runs(sweep: Sweeping, tmp_path: Path) -> None:
    sweep(*GRID)
    points = tmp_path / "out" / "points"
    path = points / "noise_multiplier=2,seed=1.json"
    content = json.loads(path.read_text())
    content["experiment"]["algorithm"]["batch_size"] = 99
    path.write_text(json.dumps(content))
    (points / "noise_multiplier=2,seed=2.json").unlink()
    code, _, errors = sweep(*GRID)
    assert code == 2
    assert "algorithm.batch_size: 12: expected 99" in errors
    assert not (points / "noise_multiplier=2,seed=2.json").exists()
    path.write_text("{")
    assert sweep(*GRID)[0] == 6


@pytest.mark.parametrize(
    ("arguments", "code", "clue"),
    [
        (("--grid", "privacy.noise_multiplier=1,0"), 2, "privacy.noise_multiplier: 0"),
        (("--grid", "privacy.nothing=1"), 2, "privacy.nothing"),
        (("--grid", "algorithm.cloud.nothing=1,2"), 2, "algorithm.cloud.nothing"),
        (("--grid", "data.edges=2,2000,3"), 3, "2000 edges share 1437 records"),
        (("--grid", "model.name=softmax,oracle,svm"), 2, "model.name: 'oracle'"),
        (("--seeds", "1,1"), 2, "--grid seed: [1, 1]: expected different values"),
        (("--seeds", "1", "--grid", "seed=2"), 2, "'seed': expected each key once"),
        (("--jobs", "0"), 2, "--jobs: 0: expected at least 1"),
        (("--jobs", "-2"), 2, "--jobs: -2: expected at least 1"),
        (("--jobs", "2", "--ray", "auto"), 2, "--jobs: 2: expected none beside --ray auto"),
    ],
)
def test_what_cannot_run_leaves_nothing_and_says_why(
    arguments: tuple[str, ...], code: int, clue: str, sweep: Sweeping, tmp_path: Path
) -> None:
    found, _, errors = sweep(*arguments)
    assert found == code
    assert clue in errors
    assert not (tmp_path / "out").exists()


def test_two_processes_find_what_one_finds(sweep: Sweeping, tmp_path: Path) -> None:
    assert sweep(*GRID, out="one")[0] == 0
    assert sweep(*GRID, "--jobs", "2", out="two")[0] == 0
    one, two = ((tmp_path / name) for name in ("one", "two"))
    assert rows_in(one) == rows_in(two)
    for path in (one / "points").iterdir():
        assert path.read_bytes() == (two / "points" / path.name).read_bytes()


def test_a_run_that_fails_is_warned_of_and_the_others_go_on(sweep: Sweeping, tmp_path: Path) -> None:
    plain = ("--set", "privacy={mechanism: none}", "--set", "model.l2=1.0")
    wild = ("--set", "algorithm={name: asgd, cloud: {gradient_std: 1.0e-6}}")
    code, text, errors = sweep(*plain, *wild, "--grid", "algorithm.cloud.smoothness=10.0,1.0e-6")
    assert code == 0, errors
    assert "warning: smoothness=1.0e-06: failed: diverged" in text
    assert [row["state"] for row in rows_in(tmp_path / "out")] == ["complete", "failed"]
    for path in (tmp_path / "out" / "points").iterdir():
        assert "NaN" not in path.read_text()


def test_a_secure_experiment_is_simulated_and_says_so(sweep: Sweeping) -> None:
    code, text, _ = sweep("--set", "privacy.randomness=secure")
    assert code == 0
    assert "warning: only: privacy.randomness: secure: a simulation draws from the seed" in text


def processes_of(group: int) -> list[int]:
    """The processes of a group that run."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its = entry.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if state != "Z" and int(its) == group:
            found.append(int(entry.parent.name))
    return found


@pytest.mark.parametrize("wish", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_it_leaves_no_process_and_goes_on_later(file: Path, tmp_path: Path, wish: signal.Signals) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "lab", "sweep", str(file), "--out", str(out), "--jobs", "2", "--quiet"]
    command += ["--set", "stop.updates=6000", "--grid", "seed=1,2,3,4,5,6,7,8"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, start_new_session=True
    )
    try:
        deadline = time.monotonic() + 60
        while not list(out.glob("points/*.json")) and time.monotonic() < deadline:
            assert process.poll() is None
            time.sleep(0.05)
        if wish is signal.SIGINT:
            os.killpg(process.pid, wish)  # as a terminal does: to the whole group
        else:
            process.send_signal(wish)
        text = process.communicate(timeout=20)[0].decode()
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert "the same command goes on from there" in text
    assert "Traceback" not in text
    deadline = time.monotonic() + 10
    while (left := processes_of(process.pid)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left == []
    done = len(list(out.glob("points/*.json")))
    assert 0 < done < 8
    assert list(tmp_path.glob("mapa-*")) == [], "what broke off has left no files"


# The table


def result(point: tuple[tuple[str, Any], ...], accuracy: float | None, epsilon: float | None) -> Result:
    from lab.grid import Point

    summary = {
        "edges": [{"epsilon_total": epsilon, "epsilon_per_release": epsilon}],
        "test_accuracy": accuracy,
        "test_loss": accuracy,
        "updates": 5,
        "seconds": 1.0,
        "staleness": {"mean": 0.5},
        "state": "complete",
    }
    return Result(Point(point), summary, [])


def test_the_table_reads_back_whatever_the_values_are() -> None:
    strange = 'a, "b"\nc'
    rows = rows_of(
        [result((("k.a", strange), ("k.b", [1, 2])), 0.5, None), result((("k.a", None), ("k.b", "")), None, 1.0)]
    )
    read = list(csv.DictReader(io.StringIO(as_csv(rows), newline="")))
    assert [row["k.a"] for row in read] == [strange, ""]
    assert read[0]["k.b"] == "[1, 2]"
    assert (read[0]["epsilon_total"], read[1]["test_accuracy"]) == ("", "")


def test_no_printed_epsilon_is_below_the_one_that_was_spent() -> None:
    stream = io.StringIO()
    print_table(rows_of([result((("seed", seed),), 0.5, 0.132191 + 2e-5 * seed) for seed in (1, 2)]), ["seed"], stream)
    assert "0.1323" in stream.getvalue()
    assert "0.1322" not in stream.getvalue()
    stream = io.StringIO()
    tell(Panel("a", "total epsilon", "accuracy", {"AUDP": [(0.132211, Spread(0.5, 0.5, 0.5, 1))]}), stream)
    assert "0.1323: 0.5" in stream.getvalue()


def test_the_printed_table_puts_seeds_together_and_takes_brackets_as_they_are() -> None:
    points = [((("x.kind", "[bold]"), ("seed", seed)), 0.25 * seed) for seed in (1, 2, 3)]
    stream = io.StringIO()
    print_table(rows_of([result(point, accuracy, None) for point, accuracy in points]), ["x.kind", "seed"], stream)
    (line,) = [line for line in stream.getvalue().splitlines() if "[bold]" in line]
    assert "0.5 (0.25 to 0.75)" in line
    assert line.split()[-1] == "3"
    assert " - " in line, "no total is claimed"


def test_a_spread_is_of_all_seeds_or_none() -> None:
    assert Spread.of([1.0, 3.0]) == Spread(2.0, 1.0, 3.0, 2)
    assert Spread.of([1.0, None]) is None
    assert Spread.of([]) is None
    assert str(Spread(0.5, 0.5, 0.5, 3)) == "0.5"


def test_the_first_numeric_axis_is_drawn_against_and_wide_ones_are_logarithmic() -> None:
    values = [(kind, size) for kind in ("u", "v") for size in (1, 10, 100)]
    rows = rows_of([result((("a.kind", kind), ("a.size", size)), 0.1, 1.0) for kind, size in values])
    panels = panels_of(rows, ["a.kind", "a.size"])
    assert [panel.y_label for panel in panels] == ["test accuracy", "test loss", "total epsilon"]
    assert all(panel.x_label == "a.size" and panel.log_x for panel in panels)
    assert list(panels[0].series) == ["kind u", "kind v"]
    assert [x for x, _ in panels[0].series["kind u"]] == [1.0, 10.0, 100.0]
    narrow = panels_of(rows[:2], ["a.kind", "a.size"])
    assert not narrow[0].log_x
