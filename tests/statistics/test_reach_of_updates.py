"""No honest update is refused for its length, whatever the mechanism; the bound is near enough to bite on others."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from harness import experiment

from cloud.reach import NATS, Reach, fault_of_answer, fault_of_update
from common.messages import Answer, Directive, Model
from common.privacy.gaussian import Gaussian
from common.privacy.laplace import ExponentialRadius, SphericalLaplace
from common.privacy.noise import Noise
from common.seeds import stream
from common.tensors import Tensors
from edge.build import build

RUNS = 400
CLIP = 0.5
CASES: dict[str, dict[str, Any]] = {
    "gaussian": {},
    "spherical": {"privacy": {"mechanism": "spherical-laplace", "epsilon": 0.5}},
    "fixed": {"privacy": {"noise_multiplier": 0.01, "sampling": "fixed"}},
    "all": {"privacy": {"noise_multiplier": 0.01, "sampling": "all"}},
    "hardly any noise": {"privacy": {"noise_multiplier": 1e-6}},
    "one record a batch": {"privacy": {"noise_multiplier": 0.1}, "algorithm__batch_size": 1},
    "penalty": {"privacy": {"noise_multiplier": 0.01}, "model": {"name": "softmax", "l2": 0.1}},
    "paper": {"privacy": {"mechanism": "spherical-laplace", "epsilon": 0.5}, "algorithm__rigour": "paper"},
}


@pytest.mark.parametrize("noise", [Gaussian(1.0), SphericalLaplace(1.0), ExponentialRadius(1.0)], ids=repr)
@pytest.mark.parametrize("dimension", [1, 3, 650])
@pytest.mark.parametrize("nats", [1.0, 4.0])
def test_a_radius_is_exceeded_as_seldom_as_it_says(noise: Noise, dimension: int, nats: float) -> None:
    rng, count = stream(5, "reach", dimension), 4000
    radii = np.array([np.linalg.norm(noise.draw(dimension, 0.7, rng)) for _ in range(count)])
    longest = noise.longest(dimension, 0.7, nats)
    allowed = math.exp(-nats)
    assert (radii > longest).mean() <= allowed + 4 * math.sqrt(allowed / count)
    assert (radii > longest / 4).mean() > allowed, "control: a bound of a quarter would be broken"


@pytest.mark.parametrize("case", CASES)
def test_honest_updates_are_within_reach_and_larger_ones_are_not(case: str) -> None:
    plan = experiment(**CASES[case])
    edge = build(plan, "edge-0001", "reach")
    learner, hello = edge.node._learner, edge.node._hello
    rng = stream(6, "parameters")
    batch_size = None if plan.privacy.sampling == "all" else plan.algorithm.batch_size
    reach, lengths = Reach(batch_size, plan.model.l2), []
    for number in range(RUNS):
        flat = rng.standard_normal(edge.layout.size).astype(np.float32) * np.float32(0.1 * number)
        model = Model(ticket=1, version=1, directive=Directive(clip_norm=CLIP), tensors=Tensors(edge.layout, flat))
        longest = reach.of(hello.event, hello.samples, model)
        assert longest is not None
        update, _ = learner.gradient(flat, CLIP)
        assert fault_of_update(update, longest) is None
        lengths.append(np.linalg.norm(update.astype(np.float64)) / longest)
    assert max(lengths) > 0.04, "the bound is within reach"
    assert fault_of_update(update * np.float32(1.01 / lengths[-1]), longest), "control: just beyond"


@pytest.mark.parametrize("sampling", [100, 1, 10**6])
def test_honest_answers_are_taken(sampling: int) -> None:
    plan = experiment(
        algorithm={"name": "mapa", "batch_size": 12, "edge": {"probe_records": sampling, "probes": 400}},
        data__edges=50,
        stop__updates=100_000,
    )
    edge = build(plan, "edge-0001", f"answers-{sampling}")
    flat = edge.layout.zeros()
    for number in range(300):
        event, values = edge.node._learner.look(flat, 10.0 ** (number % 7 - 3), 10.0 ** (number % 5 - 2))
        answer = Answer(ticket=1, version=1, event=event, values=values)
        assert fault_of_answer(answer, edge.node._hello.samples) is None
    wild = Answer(ticket=1, version=1, event=event, values=(1e9, 0.0))
    assert fault_of_answer(wild, edge.node._hello.samples), "control"


def test_the_probability_that_an_honest_update_is_refused() -> None:
    assert 2 * math.exp(-NATS) < 1e-12
