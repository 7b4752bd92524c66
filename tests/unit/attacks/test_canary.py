"""The canary, what is read from the wire, and what the attacker makes of it."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from common.events import Adjacency, Event
from common.experiment import load
from edge.build import Holding, hold
from edge.learner import Randomness
from lab.attacks.canary import Case, craft
from lab.attacks.crafting import Vacant
from lab.attacks.evidence import Evidence
from lab.attacks.wiretap import Wiretap, shipped

DEMO = Path(__file__).parents[3] / "experiments" / "demo.yaml"

GAUSSIAN = Event(mechanism="gaussian", noise_multiplier=1.0, dimension=3, sampling="poisson")
SPHERICAL = Event(mechanism="spherical-laplace", epsilon=2.0, dimension=3, sampling="poisson")


def holding(model: str, adjacency: str = "replace_one") -> Holding:
    classes = "halves" if model == "logistic" else "all"
    changes = (f"model.name={model}", f"data.classes={classes}", f"privacy.adjacency={adjacency}", "data.edges=20")
    return hold(load(DEMO, [*changes, "algorithm.name=audp"]), "edge-0001")


def seen(own: Holding, case: Case, count: int) -> list[np.ndarray]:
    randomness = Randomness(sampling=np.random.default_rng(1), noise=np.random.default_rng(2))
    return list(Wiretap(shipped(own, randomness, case.l2), own, case.flat, case.clip_norm).releases(count))


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("model", ["logistic", "softmax", "svm", "cnn"])
def test_a_canary_moves_the_average_as_far_as_a_record_can(model: str, adjacency: str) -> None:
    assert 0.995 < craft(holding(model, adjacency), None).reach <= 1 + 1e-6


def test_the_clip_bound_is_never_above_the_one_asked_for() -> None:
    own = holding("softmax")
    assert craft(own, 1e-3).clip_norm == 1e-3
    assert craft(own, None).clip_norm < 1.0


@pytest.mark.parametrize("l2", [0.0, 0.1])
def test_without_noise_the_wire_shows_the_canary_and_nothing_but_the_canary(l2: float) -> None:
    """Every record is in the batch and gradients are below the bound, so base and shift are exact."""
    own = holding("softmax", "add_remove")
    event = own.plan.event.model_copy(update={"sampling": "all", "sampling_rate": 1.0})
    plan = replace(own.plan, event=event, batch_size=len(own.shard))
    case = craft(replace(own, plan=plan), None, l2)
    scale = float(np.abs(case.shift).max())
    quiet = event.model_copy(update={"noise_multiplier": 1e-4})
    for side, expected in ((case.present, case.base + case.shift), (case.absent, case.base)):
        for release in seen(replace(side, plan=replace(plan, event=quiet)), case, 2):
            assert release == pytest.approx(expected, abs=1e-3 * scale)
    assert scale > 1e-4  # so a release with the canary is none without it


def test_two_releases_never_share_their_noise() -> None:
    case = craft(holding("softmax"), None)
    one, other = seen(case.present, case, 2)
    assert not np.array_equal(one, other)


def test_a_vacant_place_is_drawn_and_gives_no_row() -> None:
    rows = np.arange(8).reshape(4, 2)
    vacant = Vacant(rows, [1, 3])
    assert len(vacant) == 4
    assert vacant[np.array([0, 1, 2])].tolist() == [[0, 1], [4, 5]]
    assert vacant[np.array([3])].shape == (0, 2)


def density(event: Event, scale: float, away: np.ndarray) -> float:
    distance = float(np.linalg.norm(away)) / scale
    return math.exp(-(distance**2) / 2 if event.mechanism == "gaussian" else -distance)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("rate", [1.0, 0.3])
@pytest.mark.parametrize("noise", [GAUSSIAN, SPHERICAL], ids=["gaussian", "spherical-laplace"])
def test_the_claimed_evidence_is_the_log_likelihood_ratio(noise: Event, rate: float, adjacency: Adjacency) -> None:
    own = holding("softmax", adjacency)
    event = noise.model_copy(update={"sampling_rate": rate, "adjacency": adjacency})
    shift, counter = np.array([1.0, 0.5, 0.0]), np.array([-1.0, 0.0, 0.2]) * (adjacency == "replace_one")
    base, clip_norm = np.array([0.1, -0.2, 0.3]), 1.2 * own.plan.batch_size
    case = Case(own, own, np.zeros(3, dtype=np.float32), clip_norm, base, shift, counter)
    scale = 1.2  # of both mechanisms at clip_norm / batch_size = 1.2
    for release in np.random.default_rng(4).normal(size=(20, 3)):
        likely, other = (
            (1 - rate) * density(event, scale, release - base) + rate * density(event, scale, release - base - move)
            for move in (shift, counter)
        )
        claimed, projection, nearness = Evidence(case, event).of_release(release)
        assert claimed == pytest.approx(math.log(likely / other), abs=1e-9)
        way = (shift - counter) / np.linalg.norm(shift - counter)
        assert projection == pytest.approx(float((release - base) @ way) / scale)
        apart = [np.linalg.norm(release - base - move) for move in (counter, shift)]
        assert nearness == pytest.approx(math.log(apart[0] / apart[1]))
