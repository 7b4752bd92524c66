"""Noise for a total: published values, never above the target, close below it, and clear refusals."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from common.errors import ConfigError
from common.events import Event
from common.privacy import calibration
from common.privacy.accountant import Total, total
from common.privacy.calibration import calibrate, fresh, shift_of, shift_within, strength_of, with_strength

GOLDEN = json.loads((Path(__file__).parents[2] / "reference" / "golden_privacy.json").read_text())
DP_DELTA = 1e-5


def gaussian(**changes: Any) -> Event:
    return Event.model_validate({"mechanism": "gaussian", "dimension": 785} | changes)


def spherical(**changes: Any) -> Event:
    return Event.model_validate(
        {"mechanism": "spherical-laplace", "dimension": 785, "adjacency": "replace_one"} | changes
    )


def sampled(rate: float) -> dict[str, Any]:
    return {"sampling": "poisson", "sampling_rate": rate} if rate < 1 else {}


@pytest.mark.parametrize("row", GOLDEN["calibration"], ids=lambda row: f"{row['d']}-{row['T']}-{row['q']}")
def test_published_noise_for_a_total(row: Mapping[str, Any]) -> None:
    batches, releases, target = sampled(row["q"]), row["T"], row["eps_total"]
    event = calibrate(gaussian(**batches), releases, target, row["delta"])
    assert event.noise_multiplier == pytest.approx(row["gaussian_noise_multiplier"], rel=row["tol_rel"])
    event = spherical(dimension=row["d"], adjacency="replace_one" if row["q"] == 1 else "add_remove", **batches)
    reach = strength_of(calibrate(event, releases, target, row["delta"])) / (1 if row["q"] == 1 else 2)
    assert reach == pytest.approx(row["spherical_eps_step"], rel=row["tol_rel"])


@pytest.mark.parametrize("row", GOLDEN["dp_fedavg"][:2], ids=lambda row: f"{row['eps_total']}")
def test_published_noise_of_averaging(row: Mapping[str, Any]) -> None:
    event = calibrate(gaussian(**sampled(row["p"])), row["T"], row["eps_total"], row["delta"])
    assert event.noise_multiplier == pytest.approx(row["sigma"], rel=row["tol_rel"])


@pytest.mark.parametrize(
    "event",
    [
        gaussian(),
        gaussian(sampling="poisson", sampling_rate=0.01),
        gaussian(sampling="poisson", sampling_rate=0.01, adjacency="replace_one"),
        gaussian(sampling="fixed", sampling_rate=0.01, adjacency="replace_one"),
        gaussian(adjacency="replace_one"),
        spherical(),
        spherical(dimension=1),
        spherical(sampling="poisson", sampling_rate=0.01),
        spherical(sampling="poisson", sampling_rate=0.01, adjacency="add_remove"),
        spherical(sampling="fixed", sampling_rate=0.01),
    ],
    ids=lambda event: f"{event.mechanism}-{event.dimension}-{event.sampling}-{event.adjacency}",
)
@pytest.mark.parametrize(("releases", "target"), [(1, 0.5), (300, 2.0)])
def test_the_total_is_the_target_and_never_above(event: Event, releases: int, target: float) -> None:
    found = calibrate(event, releases, target, DP_DELTA)
    epsilon = total({found: releases}, DP_DELTA).epsilon
    assert epsilon is not None
    assert 0.997 * target <= epsilon <= target
    more = total({found: math.ceil(1.01 * releases)}, DP_DELTA).epsilon
    assert more is not None
    assert more > target  # so the noise is the least there is
    assert found == with_strength(event, strength_of(found))  # and nothing else was changed


@pytest.mark.parametrize(
    "event", [gaussian(sampling="poisson", sampling_rate=0.01, adjacency="replace_one"), spherical()]
)
def test_what_comes_beside_is_paid_for(event: Event) -> None:
    beside = {gaussian(noise_multiplier=60.0, dimension=2, adjacency="replace_one"): 24}
    found = calibrate(event, 300, 2.0, DP_DELTA, beside=beside)
    alone = calibrate(event, 300, 2.0, DP_DELTA)
    epsilon = total({found: 300, **beside}, DP_DELTA).epsilon
    assert epsilon is not None
    assert 0.997 * 2.0 <= epsilon <= 2.0
    assert shift_of(found, 1) < shift_of(alone, 1)


def test_an_event_of_the_same_kind_beside_is_counted_with_the_others() -> None:
    event = spherical(epsilon=0.01)
    found = calibrate(event, 1, 100.0, 0.0, beside={event: 5})
    assert found.epsilon == pytest.approx(99.9 - 0.05, abs=0.1)


def test_without_a_delta_the_pure_epsilons_are_shared_out() -> None:
    found = calibrate(spherical(), 1000, 1.0, 0.0)
    assert found.epsilon == pytest.approx(1e-3, rel=2e-3)


@pytest.mark.parametrize(
    ("event", "target"),
    [
        (gaussian(), 1e-5),
        (gaussian(sampling="poisson", sampling_rate=0.004), 1e-4),
        (spherical(), 1e-4),
        (spherical(sampling="poisson", sampling_rate=0.004), 100.0),
    ],
)
def test_targets_of_any_size_are_met(event: Event, target: float) -> None:
    epsilon = total({calibrate(event, 1000, target, DP_DELTA): 1000}, DP_DELTA).epsilon
    assert epsilon is not None
    assert 0.997 * target <= epsilon <= target


@pytest.mark.parametrize(
    ("event", "releases", "target", "dp_delta", "texts"),
    [
        *(
            (gaussian(), 10, bad, DP_DELTA, [r"^total: .*: expected 1e-06 to 1e\+06$"])
            for bad in (0.0, -1.0, 1e-7, 1e7)
        ),
        (gaussian(), 10, math.nan, DP_DELTA, ["^total: nan: expected 1e-06"]),
        (gaussian(), 10, math.inf, DP_DELTA, ["^total: inf: expected 1e-06"]),
        (gaussian(), 0, 1.0, DP_DELTA, ["^releases: 0: expected 1 to 100,000,000$"]),
        (gaussian(), 10**9, 1.0, DP_DELTA, ["^releases: 1000000000: expected 1 to"]),
        (gaussian(), 10, 1.0, 0.0, [r"^dp_delta: 0\.0: expected at least 1e-10 with Gaussian noise$"]),
        (gaussian(), 10, 1.0, 1.0, [r"^dp_delta: 1\.0: expected at least 0 and below 1$"]),
        (gaussian(), 10, 1.0, math.nan, ["^dp_delta: nan: expected"]),
        (spherical(), 0, -1.0, -1.0, ["^total: -1", "^releases: 0", "^dp_delta: -1"]),
        (spherical(), 1000, 1e-5, 0.0, ["expected at least 0.001, what 1000 releases cost with the strongest noise$"]),
        (gaussian(mechanism="none"), 10, 1.0, DP_DELTA, ["^total: 1.0: expected nothing, for mechanism none"]),
        (
            gaussian(sampling="replacement", sampling_rate=0.1, adjacency="replace_one"),
            10,
            1.0,
            DP_DELTA,
            ["^total: 1.0: expected releases whose total is known: dp: not established: a batch drawn"],
        ),
        (
            gaussian(sampling="fixed", sampling_rate=0.1),
            10,
            1.0,
            DP_DELTA,
            ["^total: 1.0: expected releases that can be accounted for: fixed-size batches"],
        ),
    ],
)
def test_what_cannot_be_met_is_refused(
    event: Event, releases: int, target: float, dp_delta: float, texts: list[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        calibrate(event, releases, target, dp_delta, name="total")
    assert len(caught.value.faults) == len(texts)
    for text in texts:
        caught.match(f"(?m){text}")


def test_a_target_below_what_comes_beside_is_refused() -> None:
    probe = gaussian(noise_multiplier=100.0)
    with pytest.raises(ConfigError, match=r"expected at least 0\.157, what 1 releases and 24 others cost with the str"):
        calibrate(gaussian(), 1, 0.01, DP_DELTA, beside={probe: 24})


def test_a_target_that_no_noise_reaches_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"expected at most 0, what 1 releases cost with hardly any noise"):
        calibrate(spherical(sampling="poisson", sampling_rate=1e-9), 1, 1e6, 0.9)


def stepped(costs: Callable[[float], float]) -> Callable[..., Total]:
    """An accountant that no installation has: its costs jump."""
    return lambda events, dp_delta: Total(costs(next(iter(events)).noise_multiplier), dp_delta, "made up")


def test_where_costs_jump_over_the_target_the_quiet_side_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "total", stepped(lambda multiplier: 0.5 if multiplier > 3.0 else 20.0))
    found = calibrate(gaussian(), 1, 1.0, DP_DELTA)
    assert found.noise_multiplier == pytest.approx(3.0)
    assert strength_of(found) > 3.0


def test_a_search_that_finds_no_noise_within_the_target_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "total", stepped(lambda multiplier: 20.0))
    monkeypatch.setattr(calibration, "_TRIALS", 3)
    with pytest.raises(ConfigError, match=r"target_epsilon: 1\.0: expected a cost found in 3 trials"):
        calibrate(gaussian(), 1, 1.0, DP_DELTA)


def test_answers_are_remembered_and_checked() -> None:
    asked: list[Mapping[str, Any]] = []

    def answering(answer: object) -> Callable[[Mapping[str, Any], Callable[[], Any]], Any]:
        def ask(question: Mapping[str, Any], compute: Callable[[], Any], /) -> Any:
            asked.append(question)
            return compute() if answer is None else answer

        return ask

    event = gaussian()
    found = calibrate(event, 10, 1.0, DP_DELTA)
    assert calibrate(event, 10, 1.0, DP_DELTA, ask=answering(None)) == found
    assert calibrate(event, 10, 1.0, DP_DELTA, ask=answering(7.5)).noise_multiplier == 7.5
    for wrong in ("7.5", math.nan, -1.0, 1e9, [7.5], 7):
        assert calibrate(event, 10, 1.0, DP_DELTA, ask=answering(wrong)) == found
    assert calibrate(with_strength(event, 3.0), 10, 1.0, DP_DELTA, ask=answering(None)) == found
    assert all(question == asked[0] for question in asked)  # the noise that comes in is no part of the question
    others: list[tuple[Event, int, float, float, dict[Event, int]]] = [
        (event, 11, 1.0, DP_DELTA, {}),
        (event, 10, 1.1, DP_DELTA, {}),
        (event, 10, 1.0, 1e-6, {}),
        (gaussian(adjacency="replace_one"), 10, 1.0, DP_DELTA, {}),
        (event, 10, 1.0, DP_DELTA, {gaussian(noise_multiplier=99.0): 1}),
    ]
    for other, releases, target, dp_delta, beside in others:
        calibrate(other, releases, target, dp_delta, beside=beside, ask=answering(None))
        assert asked[-1] != asked[0]
    assert fresh({}, lambda: 5) == 5


@pytest.mark.parametrize("target", [0.1, 1.0, 10.0])
def test_the_first_guess_is_near_and_on_the_safe_side(target: float) -> None:
    """The shift is planned with; what is claimed comes from the accountant."""
    shift = shift_within(target, DP_DELTA)
    exact = total({gaussian(noise_multiplier=1 / shift): 1}, DP_DELTA).epsilon
    assert exact is not None
    assert 0.6 * target < exact < target
    assert shift_of(gaussian(noise_multiplier=2.0), 16) == 2.0
    assert shift_of(gaussian(noise_multiplier=2.0, adjacency="replace_one"), 16) == 4.0
    assert shift_of(spherical(epsilon=2.0, dimension=4), 9) == 3.0
    assert shift_of(spherical(epsilon=2.0, dimension=4, adjacency="add_remove"), 9) == 1.5
    assert shift_of(gaussian(noise_multiplier=1e-3, **sampled(0.1)), 9) == math.inf
