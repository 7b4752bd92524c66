"""CSGD, ASGD and AUDP: the numbers worked out by hand, and the papers' loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from reference import asynchronous
from settings import setting

from cloud.algorithms.controllers import NoisySettings, PlainSettings, build_asgd, build_audp, build_csgd
from cloud.controller import Controller
from common.errors import ConfigError, LocalProtocolError

LAPLACE = 65 * 66 / 0.5**2


def rate_at(controller: Controller, update: int) -> float:
    flat = np.zeros(1, np.float32)
    assert controller.begin(flat) is None
    for _ in range(update - 1):
        assert controller.applied(flat) is None
    return controller.rate()


@pytest.mark.parametrize(
    ("update", "plain_rates", "noisy_rates"),
    [
        (1, (1.849027534, 0.07973957165), (0.0410551283, 0.02910573249, 0.3097333936)),
        (10, (1.678576979, 0.07939190431), (0.01396268521, 0.01225197983, 0.2081606441)),
        (1000, (0.707550215, 0.07455271771), (0.001441556521, 0.001421070979, 0.03915454285)),
    ],
)
def test_golden_rates(update: int, plain_rates: tuple[float, ...], noisy_rates: tuple[float, ...]) -> None:
    plain = PlainSettings(smoothness=0.5, gradient_std=1.0, radius=10.0)
    public = setting(kappa=LAPLACE, dimension=65)
    ours = [rate_at(build(public, plain), update) for build in (build_csgd, build_asgd)]
    assert ours == pytest.approx(plain_rates, rel=1e-8)
    choices = ({}, {"exponent": 2}, {"radius": 30.0})
    noisy = [NoisySettings.model_validate({"gradient_std": 1.0, **choice}) for choice in choices]
    ours = [rate_at(build_audp(public, settings), update) for settings in noisy]
    assert ours == pytest.approx(noisy_rates, rel=1e-8)


@pytest.mark.parametrize(
    ("update", "csgd", "asgd", "audp"),
    [
        (1, 0.04494897428, 0.002686385101, 0.01448628488),
        (10, 0.02582456998, 0.002572527173, 0.0112920431),
        (1000, 0.003521149385, 0.001577291606, 0.002893691561),
    ],
)
def test_golden_rates_with_the_papers_constants(update: int, csgd: float, asgd: float, audp: float) -> None:
    literal = setting(rigour="paper", staleness=5, kappa=2 / 0.1**2)
    plain = PlainSettings(smoothness=10.0, gradient_std=30.0, radius=1.0)
    noisy = NoisySettings(smoothness=10.0, gradient_std=30.0)
    assert rate_at(build_csgd(literal, plain), update) == pytest.approx(csgd, rel=1e-8)
    assert rate_at(build_asgd(literal, plain), update) == pytest.approx(asgd, rel=1e-8)
    assert rate_at(build_audp(literal, noisy), update) == pytest.approx(audp, rel=1e-8)


def test_where_rigorous_clipping_bounds_the_spread_of_gradients() -> None:
    wild = NoisySettings(gradient_std=30.0)
    assert build_audp(setting(), wild).rate() == build_audp(setting(), NoisySettings()).rate()
    assert (
        build_audp(setting(rigour="paper"), wild).rate() < build_audp(setting(rigour="paper"), NoisySettings()).rate()
    )


def test_unknown_constants_fall_back_to_the_named_ones() -> None:
    bare = setting(smoothness=None, clip_norm=None)
    assert build_audp(bare, NoisySettings()).clip_norm == 10.0
    assert build_audp(setting(clip_norm=None, lipschitz=1.5), NoisySettings()).clip_norm == 1.5
    expected = 1 / (10 + math.sqrt(2) * 10 / (30 * math.sqrt(12)))
    assert build_csgd(bare, PlainSettings()).rate() == pytest.approx(expected)


def test_what_a_rate_is_recorded_with() -> None:
    assert dict(build_asgd(setting(), PlainSettings()).describe()).keys() == {"learning_rate"}
    assert build_asgd(setting(), PlainSettings()).clip_norm is None
    row = build_audp(setting(), NoisySettings()).describe()
    assert row["sensitivity"] == pytest.approx(2 / 12)
    assert row["clip_norm"] == 1.0


def test_an_answer_nobody_asked_for_is_a_bug() -> None:
    with pytest.raises(LocalProtocolError, match=r"0\.5.*asks no probes"):
        build_audp(setting(), NoisySettings()).answered(0.5, 0.5, 0.1)


def test_a_setting_that_makes_no_sense_is_refused_whole() -> None:
    with pytest.raises(ConfigError) as caught:
        setting(gap=0.0, kappa=-1.0, smoothness=math.inf, updates=0)
    assert {fault.path for fault in caught.value.faults} == {
        f"setting.{n}" for n in ("gap", "kappa", "smoothness", "updates")
    }


def bowl(x: np.ndarray, clip_norm: float) -> np.ndarray:
    gradient = x * np.array([0.5, 0.1, 0.02])
    return gradient * min(1.0, clip_norm / float(np.linalg.norm(gradient)))


def descend(controller: Controller, edges: int, updates: int) -> np.ndarray:
    x = np.array([3.0, -2.0, 5.0])
    seen = [x] * edges
    for update in range(updates):
        x = x - controller.rate() * bowl(seen[update % edges], controller.clip_norm or math.inf)
        seen[update % edges] = x
        controller.applied(x.astype(np.float32))
    return x


@pytest.mark.parametrize("edges", [1, 5])
def test_the_papers_loops(edges: int) -> None:
    start = np.array([3.0, -2.0, 5.0])
    public = setting(edges=edges, staleness=edges - 1)
    build = build_csgd if edges == 1 else build_asgd
    known = {"smooth": 0.5, "std": 1.0, "batch": 12, "edges": edges}
    expected = asynchronous.sgd(bowl, start, 200, radius=10.0, **known)
    ours = descend(build(public, PlainSettings(gradient_std=1.0, radius=10.0)), edges, 200)
    np.testing.assert_allclose(ours, expected, rtol=1e-12)
    for power in (1, 2):
        expected = asynchronous.audp(bowl, start, 200, radius=30.0, power=power, clip=1.0, kappa=650 / 4, **known)
        settings = NoisySettings.model_validate({"radius": 30.0, "exponent": power})
        np.testing.assert_allclose(descend(build_audp(public, settings), edges, 200), expected, rtol=1e-12)
    assert np.linalg.norm(expected) < np.linalg.norm(start)


def test_asgd_with_one_edge_is_csgd() -> None:
    public = setting(edges=1, staleness=0)
    csgd, asgd = build_csgd(public, PlainSettings()), build_asgd(public, PlainSettings())
    assert [rate_at(csgd, 5), rate_at(csgd, 50)] == [rate_at(asgd, 5), rate_at(asgd, 50)]
