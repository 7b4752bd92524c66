"""`mapa check`: one clear error for each fault, the right exit code, and every experiment we ship in order."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from common.errors import ConfigError, DataError
from common.experiment import load, parse
from lab.__main__ import main
from lab.check import check, check_experiment

EXPERIMENTS = sorted((Path(__file__).parents[3] / "experiments").glob("*.yaml"))
GOOD: dict[str, Any] = {
    "name": "good",
    "data": {"name": "digits", "edges": 5},
    "model": {"name": "softmax"},
    "algorithm": {"name": "mapa", "batch_size": 12},
    "privacy": {"mechanism": "gaussian", "noise_multiplier": 2.0},
    "stop": {"updates": 100},
}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the accountant says is not kept where people keep theirs."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def write(folder: Path, *changes: str) -> tuple[Path, list[str]]:
    path = folder / "experiment.yaml"
    path.write_text(yaml.safe_dump(GOOD))
    return path, [part for change in changes for part in ("--set", change)]


def test_a_good_experiment_is_summed_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, _ = write(tmp_path)
    assert main(["check", str(path)]) == 0
    text = capsys.readouterr()
    assert text.err == ""
    for word in (
        "good: in order",
        "mapa (async, rigorous)",
        "softmax, 650 parameters",
        "1,437 records of",
        "287 to 288",
    ):
        assert word in text.out
    assert parse(GOOD).digest() in text.out


FAULTS = [
    ("colour=blue", 2, ("colour", "no such key")),
    ("algorithm.batchsize=3", 2, ("algorithm.batchsize", "no such key")),
    ("algorithm.batch_size=twelve", 2, ("algorithm.batch_size", "'twelve'")),
    ("algorithm.batch_size=12.5", 2, ("algorithm.batch_size", "12.5")),
    ("stop.updates=0", 2, ("stop.updates", "0")),
    ("privacy.noise_multiplier=0", 2, ("privacy.noise_multiplier", "greater than or equal to 0.000001")),
    ("privacy.noise_multiplier=-1.0", 2, ("privacy.noise_multiplier", "greater than or equal to 0.000001")),
    ("privacy.noise_multiplier=1.0e+300", 2, ("privacy.noise_multiplier", "1e+300")),
    ("privacy.noise_multiplier=1.0e-300", 2, ("privacy.noise_multiplier", "1e-300")),
    ("privacy.noise_multiplier_floor=1.0e+300", 2, ("privacy.noise_multiplier_floor", "1e+300")),
    ("privacy.clip_norm=1.0e+300", 2, ("privacy.clip_norm", "1e+300")),
    ("privacy.clip_norm=1.0e-21", 2, ("privacy.clip_norm", "1e-21")),
    ("privacy.clip_norm_ceiling=1.0e+21", 2, ("privacy.clip_norm_ceiling", "1e+21")),
    (
        "privacy.clip_norm_ceiling=1.0",
        2,
        ("privacy.clip_norm_ceiling", "at least the first clip norm of the run, 1.41"),
    ),
    ("privacy.dp_delta=1.0e-11", 2, ("privacy.dp_delta", "at least 1e-10")),
    ("privacy.noise_multiplier=.inf", 2, ("privacy.noise_multiplier", "finite")),
    ("privacy.noise_multiplier=null", 2, ("privacy.noise_multiplier", "positive")),
    ("privacy.dp_delta=1.0", 2, ("privacy.dp_delta", "less than 1")),
    ("privacy.mechanism=magic", 2, ("privacy.mechanism", "magic")),
    ("algorithm.batch_size=300", 2, ("algorithm.batch_size", "at most 287, the records of edge-000")),
    ("model.name=transformer", 2, ("model.name", "softmax")),
    ("data.name=imaginary", 2, ("data.name", "digits")),
    ("algorithm.name=magic", 2, ("algorithm.name", "mapa")),
    ("algorithm.cloud.colour=blue", 2, ("algorithm.cloud.colour", "no such key")),
    ("algorithm.edge.colour=blue", 2, ("algorithm.edge.colour", "no such key")),
    ("privacy.per_edge={edge-0009: {noise_multiplier: 3.0}}", 2, ("privacy.per_edge.edge-0009", "which has 5")),
    ("data.edges=2000", 3, ("edge-", "records")),
]


@pytest.mark.parametrize(("change", "code", "clues"), FAULTS, ids=[fault[0] for fault in FAULTS])
def test_each_fault_is_one_error_with_path_value_and_expectation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: str, code: int, clues: tuple[str, str]
) -> None:
    file, overrides = write(tmp_path, change)
    assert main(["check", str(file), *overrides]) == code
    text = capsys.readouterr()
    errors = text.err.splitlines()
    assert [line for line in errors if not line.startswith("error: ")] == []
    assert len(errors) == 1
    assert all(clue in errors[0] for clue in clues)
    assert text.out == ""


@pytest.mark.parametrize("epsilon", ["0", "-1", ".inf", ".nan"])
def test_epsilon_must_be_positive_and_finite(tmp_path: Path, epsilon: str) -> None:
    file, _ = write(tmp_path)
    changes = ["privacy.mechanism=spherical-laplace", "privacy.noise_multiplier=null", f"privacy.epsilon={epsilon}"]
    with pytest.raises(ConfigError, match=r"privacy\.epsilon"):
        check(file, changes)
    assert check(file, [*changes[:2], "privacy.epsilon=1.0"]).parameters == 650


LAPLACE = ["privacy.mechanism=spherical-laplace", "privacy.noise_multiplier=null", "privacy.epsilon=1.0"]


def test_probes_beside_spherical_laplace_noise_need_a_delta(tmp_path: Path) -> None:
    file, _ = write(tmp_path)
    with pytest.raises(ConfigError, match=r"privacy\.dp_delta: 1e-11: expected at least 1e-10, for probes"):
        check(file, [*LAPLACE, "privacy.dp_delta=1.0e-11"])
    assert check(file, [*LAPLACE, "privacy.dp_delta=1.0e-11", "algorithm.cloud.controller=budgeted"]).parameters == 650
    assert check(file, [*LAPLACE, "privacy.dp_delta=1.0e-10"]).parameters == 650


def test_the_text_says_where_noise_comes_from(tmp_path: Path) -> None:
    file, _ = write(tmp_path)
    assert "noise      secret: by keys" in check(file, []).text()
    assert "noise      simulated DP: from the seed" in check(file, ["privacy.randomness=reproducible"]).text()
    plain = ["algorithm.name=asgd", "privacy.mechanism=none", "privacy.noise_multiplier=null"]
    assert "noise      " not in check(file, plain).text()


def test_a_ceiling_is_held_against_the_clip_norm_really_used(tmp_path: Path) -> None:
    file, _ = write(tmp_path)
    assert check(file, ["privacy.clip_norm_ceiling=1.5"]).parameters == 650
    assert check(file, ["privacy.clip_norm_ceiling=1.0", "privacy.clip_norm=1.0"]).parameters == 650
    with pytest.raises(ConfigError, match=r"privacy\.clip_norm_ceiling: 1\.0: expected at least .* 2"):
        check(file, ["privacy.clip_norm_ceiling=1.0", "algorithm.cloud.first_clip_norm=2.0"])


def test_several_faults_are_told_together(tmp_path: Path) -> None:
    file, _ = write(tmp_path)
    with pytest.raises(ConfigError) as caught:
        check(file, ["data.name=imaginary", "algorithm.cloud.colour=blue", "privacy.per_edge={edge-0009: {}}"])
    paths = sorted(fault.path for fault in caught.value.faults)
    assert paths == ["algorithm.cloud.colour", "data.name", "privacy.per_edge.edge-0009"]


def test_a_large_delta_is_a_warning_not_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, overrides = write(tmp_path, "privacy.dp_delta=0.01")
    assert main(["check", str(file), *overrides]) == 0
    text = capsys.readouterr()
    assert re.match(r"warning: privacy\.dp_delta: 0\.01: .*1/28", text.err)
    assert "in order" in text.out


@pytest.mark.parametrize("content", ["", "- a list", "{unclosed", "name: [1"])
def test_a_file_that_is_no_experiment(tmp_path: Path, content: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "broken.yaml"
    file.write_text(content)
    assert main(["check", str(file)]) == 2
    assert "broken.yaml" in capsys.readouterr().err


def test_a_missing_file_and_a_missing_data_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path / "absent.yaml")]) == 2
    file, overrides = write(tmp_path, "data.name=mnist", f"data.root={tmp_path / 'absent'}")
    assert main(["check", str(file), *overrides]) == 3
    assert str(tmp_path / "absent") in capsys.readouterr().err


@pytest.mark.parametrize("path", EXPERIMENTS, ids=[path.stem for path in EXPERIMENTS])
def test_every_experiment_we_ship_is_in_order(path: Path, shared_data: Path) -> None:
    experiment = load(path)
    assert experiment.name == path.stem
    if experiment.data.name == "mnist":
        data = experiment.data.model_copy(update={"root": str(shared_data / "mnist"), "download": False})
        experiment = experiment.model_copy(update={"data": data})
    checked = check_experiment(experiment)
    assert checked.cautions == ()
    assert len(checked.shards) == experiment.data.edges


def test_experiments_without_data_folder_fail_for_that_reason_only() -> None:
    experiment = load(next(path for path in EXPERIMENTS if path.stem == "mnist-lr-mapa"), ["data.download=false"])
    data = experiment.data.model_copy(update={"root": "/nowhere"})
    with pytest.raises(DataError, match="/nowhere"):
        check_experiment(experiment.model_copy(update={"data": data}))


def test_the_full_set_is_shipped() -> None:
    names = {
        f"mnist-{model}-{algorithm}" for model in ("lr", "svm", "cnn") for algorithm in ("mapa", "audp", "asgd", "csgd")
    }
    assert {path.stem for path in EXPERIMENTS} == names | {"demo", "mnist-lr-mapa-target"}


def test_help_is_quick_and_loads_nothing_heavy() -> None:
    program = "import sys; from lab.__main__ import main\ntry: main(['--help'])\nfinally: print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    assert "launch" in done.stdout
    assert not {"numpy", "torch", "matplotlib", "rich", "pydantic", "cryptography", "paho"} & set(done.stdout.split())


def test_no_command_shows_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "mapa launch" in capsys.readouterr().out
