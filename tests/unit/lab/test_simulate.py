"""`mapa simulate`: runs that can be repeated to the last bit, share their data, and end in good order."""

from __future__ import annotations

import io
import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from harness import experiment, settings_for

from common.errors import ConfigError, DataError, RecordError
from common.experiment import Experiment
from edge.build import build_all
from lab.__main__ import main
from lab.folder import RunFolder, read_run
from lab.launch import Request
from lab.report import write_report
from lab.simulate import simulate
from lab.virtual import run_virtually

FLEET: dict[str, Any] = {
    "devices": {"slow": {"speed": 400.0, "jitter": 0.2}, "fast": {"speed": 4000.0}},
    "links": {"mobile": {"latency": 0.02, "bandwidth": 250000.0, "loss": 0.2}},
    "edges": [{"device": "slow", "link": "mobile"}, {"device": "fast", "count": 2}],
    "churn": {"up": 0.5, "down": 0.1},
}


def plan_of(algorithm: str = "mapa", **changes: Any) -> Experiment:
    settings = {**settings_for(algorithm), "fleet": FLEET, "transcript": True, "stop__updates": 80}
    return experiment(**(settings | {"evaluation__every": 20} | changes))


def content_of(folder: Path) -> Mapping[str, bytes]:
    """Every file that has no clock and no name in it."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "run.json"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def run(plan: Experiment, folder: Path) -> Mapping[str, bytes]:
    RunFolder(folder).create()
    assert run_virtually(plan, RunFolder(folder), "again").code == 0
    return content_of(folder)


def test_the_same_seed_gives_the_same_records_model_and_transcript_to_the_last_bit(tmp_path: Path) -> None:
    first, second = (run(plan_of(), tmp_path / name) for name in ("first", "second"))
    assert first == second
    assert {"cloud/records.jsonl", "cloud/model.safetensors", "cloud/transcript.bin"} < first.keys()
    assert "edges/edge-0003/records.jsonl" in first
    rows = [json.loads(line) for line in first["cloud/records.jsonl"].splitlines()]
    kinds = [row["kind"] for row in rows]
    assert kinds.count("update") >= 80
    assert "connection lost" in {row.get("reason") for row in rows}, "the fleet's edges came and went"


def test_another_seed_gives_another_run(tmp_path: Path) -> None:
    first, other = run(plan_of(), tmp_path / "first"), run(plan_of(seed=4), tmp_path / "other")
    for name in ("cloud/records.jsonl", "cloud/model.safetensors", "cloud/transcript.bin"):
        assert first[name] != other[name]


@pytest.mark.parametrize("algorithm", ["csgd", "asgd", "audp", "mapa"])
@pytest.mark.parametrize("mode", ["async", "sync"])
def test_every_algorithm_learns_without_a_fleet(algorithm: str, mode: str, tmp_path: Path) -> None:
    settings = settings_for(algorithm)
    settings["algorithm"] = {**settings["algorithm"], "mode": mode}
    run(experiment(**settings, stop={"updates": 60}, transcript=True), tmp_path / "run")
    summary = read_run(tmp_path / "run").summary
    assert (summary["state"], summary["updates"]) == ("complete", 60)
    assert summary["test_accuracy"] > 0.2
    assert all(edge["epsilon_total"] is not None for edge in summary["edges"]) == (algorithm in ("audp", "mapa"))


def file_of(tmp_path: Path, **changes: Any) -> Path:
    file = tmp_path / "plan.yaml"
    file.write_text(yaml.safe_dump(plan_of(**changes).model_dump(mode="json", exclude_none=True)))
    return file


def test_a_secure_experiment_is_simulated_as_reproducible_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = file_of(tmp_path, algorithm="audp"), tmp_path / "run"
    assert main(["simulate", str(file), "--set", "privacy.randomness=secure", "--out", str(out), "--edges", "2"]) == 0
    text = capsys.readouterr().out
    assert "warning: privacy.randomness: secure: a simulation draws from the seed" in text
    assert "simulated:  " in text
    assert yaml.safe_load((out / "experiment.yaml").read_text())["privacy"]["randomness"] == "reproducible"
    summary = json.loads((out / "summary.json").read_text())
    assert summary["privacy"]["simulated"] is True
    assert len(summary["edges"]) == 2
    assert json.loads((out / "run.json").read_text())["broker"] == "virtual clock"
    assert main(["simulate", str(file), "--out", str(tmp_path / "other")]) == 0
    assert "a simulation draws from the seed" not in capsys.readouterr().out


def test_a_report_can_be_made_of_a_simulated_run(tmp_path: Path) -> None:
    run(plan_of(), tmp_path / "run")
    assert write_report([tmp_path / "run"], tmp_path / "report").page.stat().st_size > 50_000


def test_many_edges_share_one_copy_of_the_records() -> None:
    plan = experiment(data__edges=200, algorithm={"name": "asgd", "batch_size": 2}, privacy={"mechanism": "none"})
    boots = {f"edge-{number:04d}": "b" for number in range(1, 201)}
    shards = [edge.node._learner._shard for _, edge in build_all(plan, boots)]
    assert len(shards) == 200
    bases = {id(_owner(shard.inputs)) for shard in shards}
    assert len(bases) == 1
    whole = _owner(shards[0].inputs)
    assert all(np.shares_memory(shard.inputs, whole) for shard in shards)
    assert sum(len(shard) for shard in shards) == len(whole)


def _owner(array: Any) -> Any:
    while array.base is not None:
        array = array.base
    return array


def test_an_edge_with_a_declaration_of_its_own_lends_it_to_nobody() -> None:
    own = {"edge-0001": {"noise_multiplier": 8.0}}
    plan = experiment(privacy={"mechanism": "gaussian", "noise_multiplier": 1.0, "per_edge": own})
    boots = {f"edge-000{number}": "b" for number in (1, 2, 3)}
    noise = {name: edge.node._learner.plan.event.noise_multiplier for name, edge in build_all(plan, boots)}
    assert noise == {"edge-0001": 8.0, "edge-0002": 1.0, "edge-0003": 1.0}


def test_asked_to_stop_it_ends_in_good_order(tmp_path: Path) -> None:
    file = file_of(tmp_path, stop={"updates": 1_000_000}, fleet={}, evaluation={"every": 200})

    class Asking(io.StringIO):
        """A stream whose reader has seen enough as soon as there is something to see."""

        def write(self, text: str) -> int:
            if "updates" in text and "| edges" in text and "updates 0/" not in text:
                os.kill(os.getpid(), signal.SIGINT)
            return super().write(text)

    stream = Asking()
    assert simulate(Request(file, out=tmp_path / "run"), stream) == 130
    summary = read_run(tmp_path / "run").summary
    assert summary["state"] == "interrupted"
    assert 0 < summary["updates"] < 1_000_000
    assert all(edge["epsilon_total"] > 0 for edge in summary["edges"]), "every edge has accounted"
    assert (tmp_path / "run" / "cloud" / "model.safetensors").is_file()
    assert "interrupted" in stream.getvalue()


def test_asked_twice_it_waits_for_nobody(tmp_path: Path) -> None:
    plan = plan_of(stop={"updates": 1_000_000}, fleet={"churn": {"up": 1.0, "down": 50.0}, "cyclic": 1.0})
    asked: list[float] = []

    def pause(_now: float, clock: float) -> int:
        asked.append(clock)
        return 2 if len(asked) > 1 else 0

    RunFolder(tmp_path / "run").create()
    run_virtually(plan, RunFolder(tmp_path / "run"), "again", pause=pause)
    rows = [json.loads(line) for line in (tmp_path / "run/cloud/records.jsonl").read_bytes().splitlines()]
    assert rows[-1]["time"] <= asked[1], "the cloud did nothing any more"
    assert read_run(tmp_path / "run").summary["state"] == "interrupted"


@pytest.mark.parametrize(
    ("change", "code", "clues"),
    [
        ("data.edges=2000", 3, ("edge-1438", "2000 edges share 1437 records of digits")),
        ("fleet.edges=[{device: tablet}]", 2, ("fleet.edges.0.device: 'tablet'", "fast, slow")),
        ("fleet.edges=[]", 2, ("fleet.edges", "which edge has which device")),
        ("fleet.devices.slow.speed=0", 2, ("fleet.devices.slow.speed: 0", "greater than 0")),
        ("fleet.devices.slow.speed=-3", 2, ("fleet.devices.slow.speed: -3", "greater than 0")),
        ("fleet.links.mobile.loss=1", 2, ("fleet.links.mobile.loss: 1", "less than 1")),
        ("fleet.links.mobile.loss=1.5", 2, ("fleet.links.mobile.loss: 1.5", "less than 1")),
        ("data.name=mnist", 3, ("mnist",)),
    ],
)
def test_what_cannot_run_leaves_nothing_and_says_why(
    change: str, code: int, clues: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert main(["simulate", str(file_of(tmp_path)), "--set", change, "--out", str(out)]) == code
    text = capsys.readouterr().err
    assert all(clue in text for clue in clues), text
    assert not out.exists()


def test_edges_whose_records_are_elsewhere_cannot_be_simulated(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for name, part in (("edge-0001", "train"), ("test", "test")):
        arrays = {f"x_{part}": rng.random((30, 4)).astype(np.float32), f"y_{part}": np.arange(30) % 3, "classes": 3}
        np.savez(tmp_path / f"{name}.npz", **arrays)
    data = {"name": "npz", "root": str(tmp_path), "edges": 2, "partition": {"kind": "own"}}
    file = file_of(tmp_path, data=data, fleet={})
    with pytest.raises(DataError, match=r"edge-0002\.npz"):
        simulate(Request(file, out=tmp_path / "run"), io.StringIO())
    assert not (tmp_path / "run").exists()


def test_of_two_runs_that_found_the_same_folder_empty_one_has_it(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.create()
    folder.create()  # by the other, a moment later
    before = run_virtually(plan_of(), folder, "one"), content_of(folder.path)
    with pytest.raises(ConfigError, match=r"--out: '.*/run': expected a folder in which no other run has begun"):
        run_virtually(plan_of(), folder, "other")
    assert content_of(folder.path) == before[1]


def test_a_run_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"run: \[Errno 2\].*: expected a folder that can be written"):
        run_virtually(plan_of(), RunFolder(tmp_path / "run"), "one")
