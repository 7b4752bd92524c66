"""The audit of whole edges, from node to wire bytes: what is broken is found, what is shipped stands."""

from __future__ import annotations

import pytest
from broken_edges import (
    ClippedAverage,
    ExponentialRadius,
    HalfTheNoise,
    HardlyAnyNoise,
    event_of,
    planned,
    realised,
    toy,
)

from common.events import Event
from edge.build import Holding
from lab.attacks.trials import Build
from lab.audit import attack, attack_run
from lab.findings import Request

ONE_PARAMETER = event_of("spherical-laplace", "all", "replace_one", 1.0)
PATHS = [
    (mechanism, sampling, adjacency)
    for mechanism in ("gaussian", "spherical-laplace")
    for sampling, adjacency in (
        ("all", "add_remove"),
        ("all", "replace_one"),
        ("poisson", "add_remove"),
        ("poisson", "replace_one"),
        ("fixed", "replace_one"),
    )
]
LIGHT = Request(trials=600, runs=0)


def test_one_release_of_one_parameter_is_measured_to_more_than_half_of_the_claim() -> None:
    found = attack(toy(ONE_PARAMETER, 8, 8), Request(trials=3000))
    assert found.claim.claimed == pytest.approx(1.0, abs=1e-3)
    assert 0.5 < found.measured.epsilon <= found.claim.claimed


@pytest.mark.parametrize("path", PATHS, ids="-".join)
def test_no_shipped_path_is_refuted_by_any_of_ten_seeds(path: tuple[str, str, str]) -> None:
    own = toy(event_of(*path, 0.05), 6, 6 if path[1] == "all" else 5, features=2)
    for seed in range(10):
        request = Request(trials=LIGHT.trials, seed=seed)
        assert attack(own, request).verdict == "stands"
    assert attack(own, LIGHT, build=planned(HardlyAnyNoise)).verdict == "refuted"  # control: so few trials can tell


BROKEN: dict[str, tuple[Holding, Build, float | None]] = {
    "exponential radius": (
        toy(event_of("spherical-laplace", "all", "replace_one", 1.0), 6, 6, features=4),
        planned(ExponentialRadius),
        None,
    ),
    "clipped average": (toy(event_of("gaussian", "all", "add_remove", 0.25), 6, 6), planned(ClippedAverage), 0.05),
    "half the noise": (toy(ONE_PARAMETER, 8, 8), planned(HalfTheNoise), None),
    "realised batch": (
        toy(event_of("spherical-laplace", "poisson", "add_remove", 2.0), 4, 3, label=1),
        realised,
        None,
    ),
}
"""Name: an edge, what breaks it, and the clip bound to ask for at most."""


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_edge_is_found(name: str) -> None:
    own, build, most = BROKEN[name]
    assert attack(own, Request(trials=2000), build=build, most=most).verdict == "refuted"
    assert attack(own, Request(trials=600), most=most).verdict == "stands"  # and it is the break that is found


def test_the_paper_to_the_letter_is_refuted_and_nothing_of_ours_with_it() -> None:
    own = toy(Event(mechanism="paper", epsilon=1.0, adjacency="replace_one"), 6, 6, features=4)
    found = attack(own, Request(trials=1200))
    assert found.verdict == "refuted"
    assert found.claim.claimed is None
    assert found.measured.epsilon > 1.0 >= (found.claim.printed or 0.0) > 0.5


def test_runs_with_many_canaries_stand_and_find_missing_noise() -> None:
    own = toy(event_of("gaussian", "poisson", "add_remove", 1.0), 64, 8, features=24)
    request = Request(runs=16)
    found = attack_run(own, request, 150)
    assert found.verdict == "stands"
    assert found.guessed.epsilon > 0.5
    noisy = toy(event_of("gaussian", "poisson", "add_remove", 0.05), 64, 8, features=24)
    assert attack_run(noisy, request, 20).verdict == "stands"
    assert attack_run(noisy, request, 20, build=planned(HardlyAnyNoise)).verdict == "refuted"
