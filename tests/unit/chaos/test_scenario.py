"""What a scenario file may say, and what is said of one that is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from common.errors import ConfigError
from lab.chaos.scenario import RULES, Scenario, read_scenario
from lab.chaos.schedule import content_of, steps_of

ROOT = Path(__file__).parents[3]


def scenario(tmp_path: Path, **content: Any) -> Scenario:
    path = tmp_path / "trouble.yaml"
    path.write_text(yaml.safe_dump({"experiment": "experiments/chaos/digits.yaml", **content}))
    return read_scenario(path)


def step(**content: Any) -> dict[str, Any]:
    return {"at": 1, "do": "kill", "who": "edge-0001", **content}


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ({"do": "explode"}, "steps.0.do: 'explode'"),
        ({"who": "edge-1"}, "steps.0.who: 'edge-1'"),
        ({"at": -1}, "steps.0.at: -1"),
        ({"for": 0}, "steps.0.for: 0"),
        ({"wat": 1}, "steps.0.wat: 1: expected no such key"),
        ({"who": "cloud"}, "steps.0.for: None: expected seconds: to kill cloud for good would end the run"),
        ({"do": "pause"}, "steps.0.for: None: expected seconds"),
        ({"do": "crash", "for": 2}, "steps.0.for: 2"),
        ({"do": "stop", "who": "cloud", "for": 1}, "steps.0.who: 'cloud': expected one of broker, edge, edges"),
        ({"do": "slow", "for": 1}, "steps.0.delay: None: expected delay, or rate, or both"),
        ({"rate": 1000}, "steps.0.delay: None: expected neither delay nor rate, to kill"),
        ({"do": "skew"}, "steps.0.by: None: expected seconds that the clock is off"),
        ({"by": 3}, "steps.0.by: 3"),
        ({"do": "fill", "for": 1}, "steps.0.who: 'edge-0001': expected one of cloud, edges, to fill"),
    ],
)
def test_a_step_that_makes_no_sense_is_named(content: dict[str, Any], fault: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        scenario(tmp_path, steps=[step(**content)])
    assert f"trouble.yaml: {fault}" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ({}, "steps: []: expected one at least, or random"),
        ({"steps": [step()], "disk": 1}, "disk: 1"),
        ({"random": {"every": 1, "do": ["stop"], "who": ["cloud"], "most": 1}}, "random.do"),
        ({"random": {"every": 1, "do": ["kill"], "most": 1, "for": [2, 1]}}, "random.for"),
        ({"random": {"every": 0, "do": ["kill"], "most": 1}}, "random.every: 0"),
    ],
)
def test_a_file_that_makes_no_sense_is_named(content: dict[str, Any], fault: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        scenario(tmp_path, **content)
    assert fault in str(caught.value)


def test_nobody_is_hit_by_two_things_at_once(tmp_path: Path) -> None:
    found = scenario(
        tmp_path, steps=[step(do="pause", **{"for": 2}), step(at=2.5, do="kill", who="edges", **{"for": 1})]
    )
    with pytest.raises(ConfigError) as caught:
        steps_of(found, 3)
    (fault,) = caught.value.faults
    assert (
        str(fault) == "steps.1.at: 2.5: expected a time at which steps.0 (pause edge-0001 for 2, at 1) is not going on"
    )
    steps_of(scenario(tmp_path, steps=[step(do="pause", **{"for": 1}), step(at=2.5)]), 3)


def test_an_edge_that_the_experiment_has_not_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"steps.0.who: 'edge-0004': expected cloud, .* edge-0001 to edge-0003"):
        steps_of(scenario(tmp_path, steps=[step(who="edge-0004")]), 3)


def test_any_is_one_of_the_edges_and_the_seed_says_which(tmp_path: Path) -> None:
    chosen = set()
    for seed in range(20):
        one = scenario(tmp_path, seed=seed, steps=[step(who="any")])
        (drawn,) = steps_of(one, 3)
        assert (drawn,) == steps_of(one, 3)
        chosen.add(drawn.who)
    assert chosen == {"edge-0001", "edge-0002", "edge-0003"}


def chance(tmp_path: Path, seed: int) -> Scenario:
    random = {"every": 1.0, "do": list(RULES), "who": ["any", "edges", "cloud", "broker"], "most": 60, "for": [0.5, 3]}
    return scenario(tmp_path, seed=seed, random=random, steps=[step(at=10, do="pause", who="edges", **{"for": 5})])


def test_chance_follows_from_the_seed_and_hits_nobody_twice_at_once(tmp_path: Path) -> None:
    steps = steps_of(chance(tmp_path, 1), 4)
    assert steps == steps_of(chance(tmp_path, 1), 4)
    assert steps != steps_of(chance(tmp_path, 2), 4)
    assert [one.at for one in steps] == sorted(one.at for one in steps)
    assert {one.do for one in steps} == set(RULES)
    last: dict[str, float] = {}
    for one in steps:
        for who in one.hits(4):
            assert last.get(who, -1.0) < one.at, one
            last[who] = one.over
    assert any(one.at == 10 and one.do == "pause" for one in steps)


def test_what_was_drawn_can_be_written_down_and_repeated(tmp_path: Path) -> None:
    found = chance(tmp_path, 3)
    steps = steps_of(found, 4)
    again = Scenario.model_validate(yaml.safe_load(yaml.safe_dump(content_of(found, steps))))
    assert again.chance is None
    assert steps_of(again, 4) == steps


@pytest.mark.parametrize("path", sorted((ROOT / "experiments" / "chaos").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_scenarios_that_come_with_the_project_are_in_order(path: Path) -> None:
    if path.stem == "digits":  # the experiment
        return
    found = read_scenario(path)
    assert (ROOT / found.experiment).is_file()
    assert steps_of(found, 3)
