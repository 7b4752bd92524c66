"""What an edge may and may not declare."""

from __future__ import annotations

import pytest
from declared import EDGE, declare

from common.errors import ConfigError
from common.privacy.plan import plan_for

GAUSSIAN = {"mechanism": "gaussian", "noise_multiplier": 2.0}
LAPLACE = {"mechanism": "spherical-laplace", "epsilon": 0.5}


@pytest.mark.parametrize(
    ("privacy", "path", "text"),
    [
        ({"mechanism": "gaussian"}, "privacy.noise_multiplier", "a positive number, for mechanism gaussian"),
        ({"mechanism": "spherical-laplace"}, "privacy.epsilon", "a positive number, for mechanism spherical-laplace"),
        (GAUSSIAN | {"epsilon": 1.0}, "privacy.epsilon", "nothing, for mechanism gaussian"),
        (LAPLACE | {"noise_multiplier": 1.0}, "privacy.noise_multiplier", "nothing, for mechanism spherical-laplace"),
        ({"mechanism": "none", "epsilon": 1.0}, "privacy.epsilon", "nothing, for mechanism none"),
        (
            GAUSSIAN | {"per_edge": {EDGE: {"epsilon": 1.0}}},
            f"privacy.per_edge.{EDGE}.epsilon",
            "nothing, for mechanism gaussian",
        ),
        ({"mechanism": "paper", "epsilon": 1.0}, "privacy.mechanism", "algorithm.rigour: paper"),
        (
            GAUSSIAN | {"noise_multiplier_floor": 3.0},
            "privacy.noise_multiplier",
            "at least the floor of edge-0001, 3.0",
        ),
        (LAPLACE | {"noise_multiplier_floor": 3.0}, "privacy.noise_multiplier_floor", "nothing, for mechanism"),
        (GAUSSIAN | {"clip_norm": 3.0, "clip_norm_ceiling": 2.0}, "privacy.clip_norm", "at most the ceiling"),
        (GAUSSIAN | {"adjacency": "add_remove", "sampling": "fixed"}, "privacy.adjacency", "replace_one with"),
        (LAPLACE | {"adjacency": "add_remove", "sampling": "fixed"}, "privacy.adjacency", "replace_one with"),
        (GAUSSIAN | {"adjacency": "add_remove", "sampling": "replacement"}, "privacy.adjacency", "replace_one with"),
        (GAUSSIAN | {"dp_delta": 0.0}, "privacy.dp_delta", "at least 1e-10 with Gaussian noise"),
    ],
)
def test_a_wrong_declaration_is_one_fault(privacy: dict[str, object], path: str, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        plan_for(declare(**privacy), EDGE, 10, 3)
    assert [fault.path for fault in caught.value.faults] == [path]
    assert text in str(caught.value)


def test_every_fault_is_told() -> None:
    with pytest.raises(ConfigError) as caught:
        plan_for(declare(batch_size=11, mechanism="gaussian", epsilon=1.0, dp_delta=0.0), EDGE, 10, 3)
    assert [fault.path for fault in caught.value.faults] == [
        "privacy.noise_multiplier",
        "privacy.epsilon",
        "algorithm.batch_size",
        "privacy.dp_delta",
    ]
    assert "expected at most 10, the records of edge-0001" in str(caught.value)


def test_a_batch_of_everything_has_no_size_of_its_own() -> None:
    plan = plan_for(declare(batch_size=500, sampling="all", **GAUSSIAN), EDGE, 10, 3)
    assert (plan.batch_size, plan.sampling_rate) == (10, 1.0)


@pytest.mark.parametrize(
    ("privacy", "adjacency"),
    [
        (GAUSSIAN, "add_remove"),
        (GAUSSIAN | {"sampling": "all"}, "add_remove"),
        (GAUSSIAN | {"sampling": "fixed"}, "replace_one"),
        (GAUSSIAN | {"sampling": "replacement"}, "replace_one"),
        (GAUSSIAN | {"adjacency": "replace_one"}, "replace_one"),
        (LAPLACE, "replace_one"),
        (LAPLACE | {"adjacency": "add_remove"}, "add_remove"),
    ],
)
def test_the_adjacency_a_declaration_means(privacy: dict[str, object], adjacency: str) -> None:
    assert plan_for(declare(**privacy), EDGE, 10, 3).event.adjacency == adjacency


def test_each_edge_declares_its_own_noise() -> None:
    experiment = declare(**LAPLACE, per_edge={EDGE: {"epsilon": 0.125}})
    assert plan_for(experiment, EDGE, 10, 3).event.epsilon == 0.125
    assert plan_for(experiment, "edge-0002", 10, 3).event.epsilon == 0.5


@pytest.mark.parametrize(("dp_delta", "cautions"), [(0.1, 1), (0.2, 1), (0.099, 0)])
def test_a_delta_that_may_publish_a_record_is_cautioned(dp_delta: float, cautions: int) -> None:
    plan = plan_for(declare(**GAUSSIAN, dp_delta=dp_delta), EDGE, 10, 3)
    assert len(plan.cautions) == cautions
    assert all("expected below 1/10" in caution for caution in plan.cautions)
    assert plan_for(declare(mechanism="none", dp_delta=dp_delta), EDGE, 10, 3).cautions == ()


def test_the_literal_noise_is_cautioned_with_its_factor() -> None:
    (caution,) = plan_for(declare("paper", **LAPLACE), EDGE, 10, 785).cautions
    assert "noise energy 308505 times below" in caution
