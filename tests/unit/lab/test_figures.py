"""Figure files: what is wrong in one is told, what is right becomes experiments, and those of the paper are right."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from cloud.build import check as check_cloud
from common.errors import ConfigError
from common.experiment import overridden
from lab.design import Choice, Design, design
from lab.figure import read_figure

SHIPPED = sorted((Path(__file__).parents[3] / "experiments" / "mapa").glob("figure-*.yaml"))
TINY: dict[str, Any] = {
    "figure": "99",
    "title": "Tiny",
    "claim": "None",
    "experiment": {
        "name": "tiny",
        "data": {"name": "digits", "edges": 2},
        "model": {"name": "softmax"},
        "algorithm": {"name": "audp", "batch_size": 12},
        "privacy": {"mechanism": "gaussian", "noise_multiplier": 1.0, "dp_delta": 1e-4},
        "stop": {"updates": 40},
        "evaluation": {"every": 10},
    },
    "panels": {
        "a": {"title": "softmax", "threshold": 2.2},
        "b": {"title": "SVM", "threshold": 0.9, "set": {"model.name": "svm"}},
    },
    "variants": {
        "ASGD": {"is_level": True, "set": {"algorithm.name": "asgd", "privacy": {"mechanism": "none"}}},
        "AUDP": {},
    },
    "axis": {"key": "privacy.noise_multiplier", "label": "noise", "values": [0.5, 1.0, 2.0, 4.0, 8.0], "log": True},
    "plots": [
        {"x": "axis", "y": "accuracy"},
        {"x": "epsilon_total", "y": "accuracy"},
        {"x": "axis", "y": "updates_to"},
        {"x": "updates", "y": "loss", "log": True},
    ],
    "seeds": [1, 2],
    "mechanisms": {
        "paper": {
            "set": {"privacy.mechanism": "spherical-laplace", "privacy.epsilon": 2.0, "algorithm.rigour": "paper"},
            "axis": {"key": "privacy.epsilon", "label": "epsilon", "values": [1.0, 4.0]},
        },
        "gaussian": {"panels": ["b"]},
    },
    "quick": {"seeds": [1], "set": {"stop.updates": 20}},
}


def write(tmp_path: Path, *changes: tuple[str, Any]) -> Path:
    """The tiny figure with changes by dotted path; None takes a key out."""
    content = copy.deepcopy(TINY)
    for path, value in changes:
        *sections, key = path.split("/")
        target: Any = content
        for section in sections:
            target = target[int(section) if isinstance(target, list) else section]
        if value is None:
            del target[key]
        else:
            target[key] = value
    file = tmp_path / "figure-99.yaml"
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    return file


@pytest.mark.parametrize(
    ("change", "clue"),
    [
        (("title", None), "figure-99.title: None: expected a value (required key is missing)"),
        (("seeds", []), "figure-99.seeds: []"),
        (("seeds", ["x"]), "figure-99.seeds.0: 'x'"),
        (("colour", "red"), "figure-99.colour: 'red': expected no such key"),
        (("runs", "moon"), "figure-99.runs: 'moon'"),
        (("plots/0/x", "time"), "figure-99.plots.0.x: 'time'"),
        (("plots/0/y", "beauty"), "figure-99.plots.0.y: 'beauty'"),
        (("axis/values", ["a"]), "figure-99.axis.values.0"),
        (("axis/values", []), "figure-99.axis.values: []"),
        (("mechanisms", {}), "figure-99.mechanisms: {}"),
        (("mechanisms/magic", {}), "figure-99.mechanisms.magic"),
        (("mechanisms/gaussian", {"panels": ["z"]}), "figure-99.mechanisms.gaussian.panels: 'z': expected one of a, b"),
        (("quick/panels", ["z"]), "figure-99.quick.panels: 'z': expected one of a, b"),
        (("quick/values", []), "figure-99.quick.values: []"),
        (("quick/variants", {"CSGD": {}}), "figure-99.quick.variants: 'CSGD': expected a mechanism's own series"),
        (
            ("mechanisms/paper/variants", {"AUDP": {}}),
            "figure-99.mechanisms.paper.variants: 'AUDP': expected a mechanism",
        ),
        (("variants/AUDP", {"panels": ["z"]}), "figure-99.variants.AUDP.panels: 'z': expected one of a, b"),
        (("variants", {}), "figure-99.panels.a.variants: None: expected some"),
        (("panels/a/threshold", None), "figure-99.panels.a.threshold: None: expected the loss that updates_to"),
        (("axis", None), "figure-99.axis: None: expected one, here or in mechanisms.gaussian"),
        (("figure", "7"), "figure-99.figure: '7': expected the number in the file's name, 99"),
    ],
)
def test_what_is_wrong_is_told_by_path_value_and_expectation(
    change: tuple[str, Any], clue: str, tmp_path: Path
) -> None:
    read_figure(write(tmp_path))
    with pytest.raises(ConfigError) as caught:
        read_figure(write(tmp_path, change))
    assert clue in str(caught.value)


def designed(file: Path, mechanism: Any = "gaussian", *, quick: bool = False) -> Design:
    return design(read_figure(file), mechanism, {"data.download": False}, quick=quick)


def test_levels_run_once_a_seed_and_the_others_at_every_value(tmp_path: Path) -> None:
    plan = designed(write(tmp_path), "paper")
    assert list(plan.panels) == ["a", "b"]
    sizes = {(series.panel, series.variant): series.grid.size for series in plan.series}
    assert sizes == {("a", "ASGD"): 2, ("a", "AUDP"): 4, ("b", "ASGD"): 2, ("b", "AUDP"): 4}


def test_a_mechanism_changes_settings_axis_and_panels(tmp_path: Path) -> None:
    paper, gaussian = (designed(write(tmp_path), name) for name in ("paper", "gaussian"))
    assert list(gaussian.panels) == ["b"]
    assert gaussian.axis is not None
    assert paper.axis is not None
    assert (gaussian.axis.key, paper.axis.key) == ("privacy.noise_multiplier", "privacy.epsilon")
    asgd, audp = paper.series[:2]
    found = overridden(TINY["experiment"], (*audp.overrides, *next(audp.grid.points()).overrides))
    assert (found.privacy.mechanism, found.privacy.epsilon, found.algorithm.rigour) == (
        "spherical-laplace",
        1.0,
        "paper",
    )
    assert found.privacy.dp_delta == 1e-4
    level = overridden(TINY["experiment"], asgd.overrides)
    assert (level.privacy.mechanism, level.privacy.epsilon) == ("none", None), "a whole section replaces its parts"
    with pytest.raises(ConfigError, match="--mechanism: 'rigorous': expected one of paper, gaussian for 99"):
        designed(write(tmp_path), "rigorous")


def test_a_mechanism_has_series_of_its_own_besides_the_others(tmp_path: Path) -> None:
    file = write(tmp_path, ("mechanisms/paper/variants", {"AUDP, L = 1": {"set": {"algorithm.cloud.smoothness": 1.0}}}))
    names = [series.variant for series in designed(file, "paper").series if series.panel == "b"]
    assert names == ["ASGD", "AUDP", "AUDP, L = 1"]
    assert [series.variant for series in designed(file).series] == ["ASGD", "AUDP"]
    assert list(designed(file, "paper").figure.variants_of("b")) == names, "which is what is drawn"


def test_a_series_may_be_of_some_panels_only(tmp_path: Path) -> None:
    plan = designed(write(tmp_path, ("variants/ASGD/panels", ["b"])), "paper")
    assert [(series.panel, series.variant) for series in plan.series] == [("a", "AUDP"), ("b", "ASGD"), ("b", "AUDP")]


def test_haste_takes_first_middle_and_last_value_and_what_it_says(tmp_path: Path) -> None:
    plan = designed(write(tmp_path), quick=True)
    assert plan.axis is not None
    assert plan.axis.values == [0.5, 2.0, 8.0]
    assert plan.series[1].grid.size == 3
    assert "stop.updates=20" in plan.series[1].overrides
    own = designed(write(tmp_path, ("quick/values", [1.0])), quick=True)
    assert own.axis is not None
    assert own.axis.values == [1.0]
    with pytest.raises(ConfigError, match=r"quick\.panels"):
        designed(write(tmp_path, ("quick/panels", ["a"])), quick=True)


def test_a_person_picks_panels_and_seeds_in_place_of_those_of_the_file(tmp_path: Path) -> None:
    figure = read_figure(write(tmp_path, ("quick/panels", ["b"]), ("mechanisms/gaussian", {})))
    plan = design(figure, "gaussian", {}, quick=True, choice=Choice(("a",), (4, 5, 6)))
    assert list(plan.panels) == ["a"]
    assert [series.grid.axes[-1] for series in plan.series] == [("seed", (4, 5, 6))] * 2
    assert "stop.updates=20" in plan.series[1].overrides
    assert list(design(figure, "gaussian", {}, quick=True).panels) == ["b"]


def test_the_figures_of_the_paper_are_there() -> None:
    assert [path.stem for path in SHIPPED] == [f"figure-{number}" for number in (5, 6, 7, 8, 9)]


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("mechanism", ["paper", "rigorous", "gaussian"])
@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_run_of_the_paper_is_a_sound_experiment(
    path: Path, mechanism: Any, quick: bool, shared_data: Path
) -> None:
    figure = read_figure(path)
    plan = design(figure, mechanism, {"data.download": False}, quick=quick)
    assert plan.series
    for series in plan.series:
        points = list(series.grid.points())
        assert len({point.name for point in points}) == series.grid.size
        for point in (points[0], points[-1]):
            plain = overridden(figure.experiment, (*series.overrides, *point.overrides))
            root = shared_data / plain.data.name
            check_cloud(plain.model_copy(update={"data": plain.data.model_copy(update={"root": str(root)})}))
            assert (plain.privacy.mechanism == "none") == (plain.algorithm.name in ("csgd", "asgd"))
            if plain.privacy.mechanism == "spherical-laplace":
                assert plain.privacy.epsilon is not None
