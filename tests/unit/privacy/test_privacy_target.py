"""From a target to the plans of training and of probes, as an experiment declares them."""

from __future__ import annotations

import math
from typing import Any

import pytest
from declared import EDGE, declare

from common.errors import ConfigError
from common.experiment import EdgePrivacy
from common.privacy.accountant import total
from common.privacy.plan import plan_for
from common.privacy.target import Work, plan_to_target

GAUSSIAN: dict[str, Any] = {"mechanism": "gaussian"}
LAPLACE: dict[str, Any] = {"mechanism": "spherical-laplace"}
WORK = Work(updates=200, probes=12, share=0.2)


@pytest.mark.parametrize("sampling", ["poisson", "fixed", "all"])
@pytest.mark.parametrize("privacy", [GAUSSIAN, LAPLACE])
@pytest.mark.parametrize("probes", [0, 12])
def test_everything_together_costs_the_target(privacy: dict[str, Any], sampling: str, probes: int) -> None:
    experiment = declare(target_epsilon=1.5, sampling=sampling, **privacy)
    plan, answers = plan_to_target(experiment, EDGE, 200, 30, Work(200, probes, 0.2))
    assert plan.event.sampling == sampling
    assert (answers is None) == (probes == 0)
    events = {plan.event: 200} | ({answers.event: probes} if answers is not None else {})
    epsilon = total(events, plan.dp_delta).epsilon
    assert epsilon is not None
    assert 0.997 * 1.5 <= epsilon <= 1.5
    if answers is not None:  # about their share, which counts in squares of epsilon; a swap of records costs twice
        alone = total({answers.event: probes}, plan.dp_delta).epsilon
        assert alone is not None
        assert 0.7 * math.sqrt(0.2) < alone / 1.5 < 1.1 * math.sqrt(0.2)


def test_what_a_sample_saves_goes_to_training() -> None:
    experiment = declare(target_epsilon=1.5, **GAUSSIAN)
    whole, _ = plan_to_target(experiment, EDGE, 200, 30, WORK)
    part, answers = plan_to_target(experiment, EDGE, 200, 30, Work(200, 12, 0.2, sample=50))
    assert answers is not None
    assert (answers.event.sampling, answers.event.sampling_rate) == ("poisson", 0.25)
    assert part.event.noise_multiplier < whole.event.noise_multiplier  # type: ignore[operator]


def test_a_floor_is_kept() -> None:
    experiment = declare(target_epsilon=8.0, noise_multiplier_floor=30.0, **GAUSSIAN)
    plan, _ = plan_to_target(experiment, EDGE, 200, 30, WORK)
    assert (plan.event.noise_multiplier, plan.noise_multiplier_floor) == (30.0, 30.0)
    low = declare(target_epsilon=8.0, noise_multiplier_floor=0.01, **GAUSSIAN)
    assert plan_to_target(low, EDGE, 200, 30, WORK)[0].event.noise_multiplier > 0.01  # type: ignore[operator]


def test_the_rest_of_the_plan_is_as_declared() -> None:
    experiment = declare(target_epsilon=2.0, clip_norm_ceiling=3.0, dp_delta=1e-4, **GAUSSIAN)
    plan, _ = plan_to_target(experiment, EDGE, 200, 30, Work(200))
    multiplier = plan.event.noise_multiplier
    named = declare(noise_multiplier=multiplier, clip_norm_ceiling=3.0, dp_delta=1e-4, **GAUSSIAN)
    assert plan == plan_for(named, EDGE, 200, 30)


@pytest.mark.parametrize(
    ("privacy", "path", "expected"),
    [
        (GAUSSIAN | {"noise_multiplier": 2.0}, "privacy.target_epsilon", "nothing beside noise_multiplier 2.0"),
        (LAPLACE | {"epsilon": 0.5}, "privacy.target_epsilon", "nothing beside epsilon 0.5"),
        ({"mechanism": "none"}, "privacy.target_epsilon", "nothing, for mechanism none"),
        (GAUSSIAN | {"rigour": "paper"}, "privacy.target_epsilon", "nothing, for algorithm.rigour paper"),
        (GAUSSIAN | {"max_epsilon": 1.0}, "privacy.max_epsilon", "at least 1.5, the target_epsilon"),
        (GAUSSIAN | {"dp_delta": 0.0}, "privacy.dp_delta", "at least 1e-10"),
        (GAUSSIAN | {"sampling": "replacement"}, "privacy.target_epsilon", "whose total is known"),
        (LAPLACE | {"noise_multiplier": 2.0}, "privacy.noise_multiplier", "nothing, for mechanism spherical-laplace"),
        (
            GAUSSIAN | {"per_edge": {EDGE: {"target_epsilon": 1.5, "noise_multiplier": 2.0}}},
            f"privacy.per_edge.{EDGE}.target_epsilon",
            "nothing beside noise_multiplier 2.0",
        ),
    ],
)
def test_each_fault_of_a_declaration_is_told_once(privacy: dict[str, Any], path: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        plan_to_target(declare(**({"target_epsilon": 1.5} | privacy)), EDGE, 200, 30, Work(200))
    assert [fault.path for fault in caught.value.faults] == [path]
    assert expected in str(caught.value)


def test_a_target_too_small_for_the_edge_names_its_own() -> None:
    experiment = declare(per_edge={EDGE: {"target_epsilon": 1e-6}}, dp_delta=0.0, epsilon=1.0, **LAPLACE)
    with pytest.raises(ConfigError, match=rf"^privacy\.per_edge\.{EDGE}\.target_epsilon: 1e-06: expected at least"):
        plan_to_target(experiment, EDGE, 200, 30, Work(200))


def test_a_plan_is_not_made_without_the_noise() -> None:
    with pytest.raises(ConfigError, match=r"target_epsilon: 1\.5: expected together with noise that was calibrated"):
        plan_for(declare(target_epsilon=1.5, **GAUSSIAN), EDGE, 200, 30)
    with pytest.raises(ConfigError, match=r"target_epsilon: None: expected together with noise"):
        plan_for(declare(noise_multiplier=1.5, **GAUSSIAN), EDGE, 200, 30, strength=1.0)


def own(**edge: Any) -> EdgePrivacy:
    shared = {
        key: edge.pop(f"shared_{key}") for key in ("noise_multiplier", "target_epsilon") if f"shared_{key}" in edge
    }
    return declare(**GAUSSIAN, **shared, per_edge={EDGE: edge}).privacy_of(EDGE)


def test_what_an_edge_says_itself_comes_first() -> None:
    noise = own(shared_target_epsilon=2.0, noise_multiplier=3.0)
    assert (noise.noise_multiplier, noise.target_epsilon, noise.max_epsilon) == (3.0, None, None)
    target = own(shared_noise_multiplier=3.0, target_epsilon=2.0)
    assert (target.noise_multiplier, target.target_epsilon, target.max_epsilon) == (None, 2.0, 2.0)
    shared = own(shared_target_epsilon=2.0, max_releases=5)
    assert (shared.target_epsilon, shared.max_epsilon, shared.max_releases) == (2.0, 2.0, 5)
    assert own(shared_target_epsilon=2.0, max_epsilon=8.0).max_epsilon == 8.0
    both = own(noise_multiplier=3.0, target_epsilon=2.0)
    assert (both.noise_multiplier, both.target_epsilon) == (3.0, 2.0)  # found fault with, above
