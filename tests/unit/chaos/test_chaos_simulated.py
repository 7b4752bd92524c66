"""`mapa chaos --simulate`: each kind of trouble under the virtual clock, and the checks at the end."""

from __future__ import annotations

import itertools
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from common.records import read
from lab.__main__ import main
from lab.chaos.judge import judge
from lab.folder import RunFolder

ROOT = Path(__file__).parents[3]
EDGES = ("edge-0001", "edge-0002", "edge-0003")


class Trouble:
    """Scenarios on the digits of `experiments/chaos`, with fewer updates."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        monkeypatch.chdir(ROOT)

    def run(self, name: str, *steps: dict[str, Any], code: int = 0, **more: Any) -> Path:
        path, out = self.folder / f"{name}.yaml", self.folder / name
        content = {
            "experiment": "experiments/chaos/digits.yaml",
            "set": {"stop.updates": 300, "algorithm.name": "audp"},
            "steps": list(steps),
        }
        path.write_text(yaml.safe_dump({**content, **more}))
        assert main(["chaos", str(path), "--simulate", "--out", str(out), "--run", "test"]) == code
        return out


@pytest.fixture
def trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trouble:
    return Trouble(tmp_path, monkeypatch)


def rows(out: Path, kind: str, node: str = "cloud") -> list[dict[str, Any]]:
    return [row for row in read(RunFolder(out).node(node) / "records.jsonl") if row["kind"] == kind]


def heard_from(out: Path, edge: str) -> list[float]:
    """When, whether they were too stale to be applied or not."""
    return [row["time"] for row in rows(out, "update") if row["edge"] == edge]


def origin(out: Path) -> float:
    return float(rows(out, "update")[0]["time"])


def silence(out: Path, edge: str) -> float:
    """The longest time between two updates of an edge."""
    times = heard_from(out, edge)
    return max(after - before for before, after in itertools.pairwise(times))


def test_a_killed_edge_is_another_process_with_the_same_ledger(trouble: Trouble) -> None:
    out = trouble.run("killed", {"at": 1, "do": "kill", "who": "edge-0002", "for": 1})
    boots = {row["boot"] for row in rows(out, "joined") if row["edge"] == "edge-0002"}
    assert len(boots) == 2
    first, second = rows(out, "start", "edge-0002")
    assert first["releases"] == 0
    assert second["releases"] >= 5
    assert silence(out, "edge-0002") > 0.9
    assert silence(out, "edge-0001") < 0.5


def test_an_edge_that_is_killed_for_good_stays_away_and_the_run_ends(trouble: Trouble) -> None:
    out = trouble.run("gone", {"at": 1, "do": "kill", "who": "edge-0002"})
    assert max(heard_from(out, "edge-0002")) < origin(out) + 1.2
    assert json.loads((out / "summary.json").read_text())["state"] == "complete"


def test_a_killed_cloud_goes_on_where_it_was(trouble: Trouble) -> None:
    out = trouble.run("cloud", {"at": 1, "do": "kill", "who": "cloud", "for": 2})
    assert len(rows(out, "resumed")) == 1
    assert silence(out, "edge-0001") > 1.9
    assert [row["update"] for row in rows(out, "update") if row["applied"]] == list(range(1, 301))


def test_an_edge_that_is_stopped_says_goodbye_and_comes_back(trouble: Trouble) -> None:
    out = trouble.run("stopped", {"at": 1, "do": "stop", "who": "edge-0003", "for": 1})
    assert [row["reason"] for row in rows(out, "bye", "edge-0003")] == ["interrupted", "updates reached"]
    assert silence(out, "edge-0003") > 0.8


def test_a_paused_edge_does_nothing_and_then_goes_on(trouble: Trouble) -> None:
    out = trouble.run("paused", {"at": 1, "do": "pause", "who": "edge-0001", "for": 1})
    began = origin(out) + 1
    during = [row for row in rows(out, "release", "edge-0001") if began < row["time"] < began + 1]
    assert during == []
    assert len(rows(out, "start", "edge-0001")) == 1
    assert silence(out, "edge-0001") == pytest.approx(1.0, abs=0.15)


def test_what_a_cut_edge_says_waits_and_what_is_said_to_it_is_lost(trouble: Trouble) -> None:
    out = trouble.run("cut", {"at": 1, "do": "disconnect", "who": "edge-0001", "for": 1})
    assert next(row["reason"] for row in rows(out, "left") if row["edge"] == "edge-0001") == "connection lost"
    assert silence(out, "edge-0001") == pytest.approx(1.0, abs=0.2)


def test_a_slow_line_makes_one_edge_slow_and_no_other(trouble: Trouble) -> None:
    out = trouble.run("slow", {"at": 1, "do": "slow", "who": "edge-0001", "delay": 0.3, "for": 2})
    assert 0.6 < silence(out, "edge-0001") < 0.8
    assert silence(out, "edge-0002") < 0.3
    assert len([time for time in heard_from(out, "edge-0001") if time > origin(out) + 4]) > 5, "slow for ever"


@pytest.mark.parametrize("do", ["restart", "disconnect", "pause", "kill"])
def test_without_a_broker_nobody_hears_of_anybody_and_then_all_go_on(do: str, trouble: Trouble) -> None:
    lasts = {} if do == "restart" else {"for": 0.5}
    out = trouble.run("broker", {"at": 1, "do": do, "who": "broker", **lasts})
    for edge in EDGES:
        assert 0.4 < silence(out, edge) < 1.0


def test_clocks_that_are_wrong_change_nothing_but_what_they_show(trouble: Trouble) -> None:
    out = trouble.run(
        "skewed",
        {"at": 1, "do": "skew", "who": "edge-0001", "by": -86400},
        {"at": 1.5, "do": "skew", "who": "cloud", "by": 3600},
        {"at": 3, "do": "kill", "who": "cloud", "for": 0.5},
    )
    assert len(rows(out, "resumed")) == 2
    assert Counter(row["edge"] for row in rows(out, "update"))["edge-0001"] > 50


def test_everything_at_once(trouble: Trouble) -> None:
    steps = [
        {"at": 1, "do": "pause", "who": "cloud", "for": 1},
        {"at": 1.2, "do": "crash", "who": "edge-0001"},
        {"at": 1.4, "do": "restart", "who": "broker"},
        {"at": 1.5, "do": "kill", "who": "edge-0002", "for": 0.2},
        {"at": 3, "do": "kill", "who": "edges", "for": 0.5},
        {"at": 3.1, "do": "kill", "who": "cloud", "for": 0.2},
    ]
    out = trouble.run("all", *steps)
    assert all(step["done"] for step in json.loads((out / "chaos.json").read_text())["steps"])


def test_what_a_frozen_cloud_then_asks_of_processes_that_are_gone_is_not_done_by_their_successors(
    trouble: Trouble,
) -> None:
    """Else it would be paid for, and the cloud, which has welcomed them by then, would not take it."""
    steps = [{"at": 1, "do": "pause", "who": "cloud", "for": 2}, {"at": 1.5, "do": "restart", "who": "edges"}]
    out = trouble.run("asked", *steps)
    answered = {(row["edge"], row["ticket"]) for row in rows(out, "update")}
    for edge in EDGES:
        unused = [row["ticket"] for row in rows(out, "release", edge) if (edge, row["ticket"]) not in answered]
        assert len(unused) <= 1, "one may be under way when the run ends"


def test_what_is_not_simulated_is_said(trouble: Trouble, capsys: pytest.CaptureFixture[str]) -> None:
    out = trouble.run("full", {"at": 1, "do": "fill", "who": "edges", "for": 1})
    (step,) = json.loads((out / "chaos.json").read_text())["steps"]
    assert step["said"] == ["not simulated"]
    assert not step["done"]
    assert "not simulated" in capsys.readouterr().out


def test_a_step_that_comes_after_the_end_is_a_fault(trouble: Trouble, capsys: pytest.CaptureFixture[str]) -> None:
    trouble.run("late", {"at": 5000, "do": "crash", "who": "edge-0001"}, code=1)
    assert "step at 5000, crash edge-0001: not done" in capsys.readouterr().out


def test_a_run_that_does_not_end_is_a_fault(trouble: Trouble, capsys: pytest.CaptureFixture[str]) -> None:
    trouble.run("endless", {"at": 1, "do": "crash", "who": "edge-0001"}, limit=2.0, code=1)
    assert "not over after 2 virtual seconds" in capsys.readouterr().out


def test_the_same_scenario_and_seed_give_the_same_records_and_another_seed_other_trouble(trouble: Trouble) -> None:
    random = {"every": 0.5, "do": ["kill", "pause", "slow", "disconnect", "stop", "skew"], "most": 8, "for": [0.1, 0.8]}
    random["who"] = ["any", "cloud", "broker"]
    outs = [trouble.run(name, random=random, seed=seed) for name, seed in (("one", 5), ("two", 5), ("three", 6))]
    content = []
    for out in outs:
        files = [RunFolder(out).node(node) / "records.jsonl" for node in ("cloud", *EDGES)]
        content.append([path.read_bytes() for path in files])
    assert content[0] == content[1]
    assert content[0] != content[2]
    assert (outs[0] / "cloud/model.safetensors").read_bytes() == (outs[1] / "cloud/model.safetensors").read_bytes()
    repeat = outs[0] / "scenario.yaml"
    again = trouble.folder / "repeated"
    assert main(["chaos", str(repeat), "--simulate", "--out", str(again), "--run", "test"]) == 0
    assert (again / "cloud/records.jsonl").read_bytes() == content[0][0]


def doctored(out: Path, path: str, change: Any) -> RunFolder:
    """A copy of the run whose rows in one file were changed by somebody."""
    copy = out.with_name("doctored")
    shutil.copytree(out, copy)
    lines = (copy / path).read_text().splitlines()
    (copy / path).write_text("\n".join(change(lines)) + "\n")
    return RunFolder(copy)


def test_a_doctored_run_is_caught(trouble: Trouble) -> None:
    """The checks of this command can fail."""
    out = trouble.run("sound", {"at": 1, "do": "crash", "who": "edge-0001"})
    assert judge(RunFolder(out), []) == (judge(RunFolder(out), [])[0], [])
    assert judge(RunFolder(out), [])[0].faults == []

    def doubled(lines: list[str]) -> list[str]:
        place = next(number for number, line in enumerate(lines) if '"kind":"update"' in line)
        return [*lines[: place + 1], lines[place], *lines[place + 1 :]]

    findings, _ = judge(doctored(out, "cloud/records.jsonl", doubled), [])
    assert any("counted 2 times" in fault for fault in findings.faults)
    (out / "ledgers" / "edge-0002.db").unlink()
    _, others = judge(RunFolder(out), [])
    assert [fault.partition(":")[0] for fault in others] == ["edge-0002"]
