"""What `mapa check` foretells of each edge, and what it finds wrong with a target."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from common.answers import Answers
from common.errors import ConfigError
from common.experiment import Experiment, parse
from common.privacy.accountant import total
from edge.build import build, check, hold
from edge.plans import updates_of
from lab.__main__ import main
from lab.check import check_experiment
from lab.forecast import forecast


def declare(**changes: Any) -> Experiment:
    content: dict[str, Any] = {
        "name": "toy",
        "data": {"name": "digits", "edges": 5},
        "model": {"name": "softmax"},
        "algorithm": {"name": "mapa", "batch_size": 12},
        "privacy": {"mechanism": "gaussian", "target_epsilon": 3.0},
        "stop": {"updates": 1000},
    }
    for path, value in changes.items():
        section, _, key = path.partition("__")
        content[section] = {**content[section], key: value} if key else value
    return parse(content)


@pytest.mark.parametrize("mechanism", ["gaussian", "spherical-laplace"])
def test_an_edge_makes_what_was_foretold(mechanism: str) -> None:
    experiment = declare(privacy__mechanism=mechanism)
    told = forecast(experiment)
    assert [each.holder.records for each in told] == [287, 288]
    for each in told:
        assert each.target == 3.0
        assert each.total.epsilon == pytest.approx(3.0, rel=3e-3)
        assert each.total.epsilon <= 3.0  # type: ignore[operator]
        assert (each.updates, each.probes) == (200, 24)
        held = hold(experiment, each.holder.edge)
        assert held.plan.event == each.event
        assert held.probes is not None
        assert total({held.plan.event: 200, held.probes.plan.event: 24}, 1e-5) == each.total
    assert told[0].event != told[1].event  # another rate, another noise


@pytest.mark.parametrize(
    "kept",
    [{"epsilon": -1.0, "note": ""}, {"epsilon": "1", "note": ""}, {"epsilon": 1.0}, {"epsilon": 1.0, "note": 2}, 1.0],
)
def test_a_kept_total_that_cannot_be_true_is_computed_anew(kept: object) -> None:
    experiment = declare(privacy={"mechanism": "gaussian", "noise_multiplier": 1.0})
    true = forecast(experiment)
    assert forecast(experiment, lambda question, compute: kept if "total" in question else compute()) == true
    other = forecast(experiment, lambda *_: {"epsilon": 0.5, "note": "kept"})
    assert [each.total.note for each in other] == ["kept", "kept"]


def test_the_budget_is_the_target() -> None:
    experiment = declare(privacy__max_releases=7, algorithm={"name": "audp", "batch_size": 12})
    ledger = build(experiment, "edge-0001", "b1").node._learner.ledger
    assert (ledger.budget.max_epsilon, ledger.budget.max_releases) == (3.0, 7)


@pytest.mark.parametrize(
    ("changes", "updates"),
    [
        ({}, 200),
        ({"privacy__max_releases": 150}, 150),
        ({"privacy__max_releases": 900}, 900),
        ({"algorithm": {"name": "mapa", "mode": "sync", "batch_size": 12}}, 1000),
        ({"stop": {"seconds": 5.0}, "privacy__max_releases": 33}, 33),
    ],
)
def test_how_much_a_target_has_to_last_for(changes: dict[str, Any], updates: int) -> None:
    assert updates_of(declare(**changes), "edge-0001") == updates


def test_without_a_target_the_share_of_the_run_counts() -> None:
    named = {"privacy": {"mechanism": "gaussian", "noise_multiplier": 1.0, "max_releases": 900}}
    assert updates_of(declare(**named), "edge-0001") == 200


def test_each_edge_may_have_its_own() -> None:
    own = {"edge-0002": {"target_epsilon": 1.0}, "edge-0004": {"noise_multiplier": 5.0}}
    told = {each.holder.edge: each for each in forecast(declare(privacy__per_edge=own))}
    assert set(told) == {"edge-0001", "edge-0002", "edge-0003", "edge-0004"}
    assert told["edge-0002"].total.epsilon == pytest.approx(1.0, rel=3e-3)
    assert told["edge-0004"].target is None
    assert told["edge-0004"].event.noise_multiplier > 5.0  # type: ignore[operator]  # it pays for probes


def test_nothing_is_foretold_without_an_end_or_noise() -> None:
    endless = {"privacy": {"mechanism": "gaussian", "noise_multiplier": 1.0}, "algorithm": {"name": "audp"}}
    assert forecast(declare(**endless, stop={"seconds": 5.0})) == ()
    assert forecast(declare(privacy={"mechanism": "none"}, algorithm={"name": "asgd"})) == ()


def test_what_is_not_established_is_said(tmp_path: Path) -> None:
    experiment = declare(
        privacy={"mechanism": "spherical-laplace", "epsilon": 0.5}, algorithm={"name": "mapa", "rigour": "paper"}
    )
    told = forecast(experiment, Answers(tmp_path).ask)
    assert "dp: not established" in told[0].text()
    assert forecast(experiment, Answers(tmp_path).ask) == told


@pytest.mark.parametrize(
    ("changes", "path", "expected"),
    [
        (
            {"stop": {"seconds": 5.0}, "algorithm": {"name": "audp"}},
            "stop.updates",
            "from which the noise for privacy.target_epsilon follows",
        ),
        ({"privacy__noise_multiplier": 1.0}, "privacy.target_epsilon", "nothing beside noise_multiplier"),
        ({"privacy__max_epsilon": 2.0}, "privacy.max_epsilon", "at least 3.0"),
    ],
)
def test_each_fault_is_told_once(changes: dict[str, Any], path: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_experiment(declare(**changes))
    assert [fault.path for fault in caught.value.faults] == [path]
    assert expected in str(caught.value)


def test_of_many_edges_only_some_are_tried(tmp_path: Path) -> None:
    """Answers that are kept tell how many were asked for."""
    skewed = {"name": "digits", "edges": 20, "partition": {"kind": "dirichlet", "alpha": 5.0, "minimum": 20}}
    experiment = declare(data=skewed, privacy__per_edge={"edge-0007": {"target_epsilon": 1.0}})
    check(experiment, Answers(tmp_path).ask)
    assert len([*tmp_path.glob("*.json")]) == 3
    assert len(forecast(experiment, Answers(tmp_path).ask)) == 2


def test_the_command_says_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = tmp_path / "toy.yaml"
    file.write_text(yaml.safe_dump(declare().model_dump(mode="json")))
    texts = []
    for _ in range(2):
        assert main(["check", str(file)]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]  # the second time from the cache
    assert "gaussian, target epsilon 3.0, delta 1e-05" in texts[0]
    expected = [line for line in texts[0].splitlines() if line.startswith("  expected")]
    assert len(expected) == 2
    assert "(target 3) at delta 1e-05" not in texts[0]
    assert "(target 3) after 200 updates and 24 probes" in expected[0]
