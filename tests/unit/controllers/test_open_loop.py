"""MAPA without probes: the paper's loop, the budgeted stages, and which constants it starts from."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from reference import asynchronous
from settings import setting

from cloud.algorithms.mapa import Settings, build
from cloud.closed_loop import ClosedLoop
from cloud.controller import Controller, Setting
from common.errors import ConfigError, LocalProtocolError


def stages_of(controller: Controller, updates: int) -> list[tuple[int, float, float]]:
    """(updates before, clip norm, rate) of each stage."""
    flat = np.zeros(1, np.float32)
    assert controller.begin(flat) is None
    found, last = [], 0
    for update in range(updates):
        if controller.stage != last:
            last = controller.stage
            found.append((update, controller.clip_norm or 0.0, controller.rate()))
        assert controller.applied(flat) is None
    return found


def literal(public: Setting, **settings: Any) -> Controller:
    return build(public, Settings(controller="literal", **settings))


@pytest.mark.parametrize("updates", [100, 5000])
def test_literal_is_the_papers_loop(updates: int) -> None:
    public = setting(clip_norm=math.sqrt(2), kappa=650 / 16)
    known = {"smooth": 0.5, "std": math.sqrt(2), "batch": 12, "edges": 5}
    target = np.array([1.0, -2.0, 0.5])

    def release(x: np.ndarray, clip: float) -> np.ndarray:
        gradient = 0.3 * (x - target)
        return gradient * min(1.0, clip / float(np.linalg.norm(gradient)))

    start = np.array([30.0, 10.0, -20.0])
    end, stages = asynchronous.mapa(
        release, start, updates, clip=math.sqrt(2), kappa=650 / 16, gap=math.log(10), factor=0.5, **known
    )
    np.testing.assert_allclose(stages_of(literal(public), updates), stages, rtol=1e-12)
    controller = literal(public)
    x, seen = start, [(start, math.sqrt(2))] * 5
    for update in range(updates):
        x = x - controller.rate() * release(*seen[update % 5])
        controller.applied(x.astype(np.float32))
        seen[update % 5] = (x, controller.clip_norm or 0.0)
    np.testing.assert_allclose(x, end, rtol=1e-10)


def test_budgeted_fills_the_run_and_never_starves() -> None:
    controller = build(setting(updates=15000, clip_norm=math.sqrt(2)), Settings(controller="budgeted"))
    stages = stages_of(controller, 15000)
    assert [first for first, _, _ in stages] == [0, 1000, 3000, 7000]
    assert [clip / math.sqrt(2) for _, clip, _ in stages] == pytest.approx([1, 0.5, 0.25, 0.125])
    flat = np.zeros(1, np.float32)
    for _ in range(10):  # the last stage goes on
        controller.applied(flat)
    assert controller.stage == 4
    row = controller.describe()
    assert row["length"] == 8000
    assert row["sensitivity"] == pytest.approx(2 * math.sqrt(2) / 8 / 12)


def test_one_stage_has_one_rate_and_one_clip_norm() -> None:
    controller = build(setting(), Settings(controller="budgeted", stages=1))
    ((first, clip_norm, rate),) = stages_of(controller, 1000)
    assert (first, clip_norm) == (0, 1.0)
    variance = 1 / 12 + 650 / 4 / 36
    assert rate == pytest.approx(math.sqrt(math.log(10) / (0.5 * 1000 * variance)))


def test_paper_runs_use_the_papers_constants() -> None:
    public = setting(rigour="paper", staleness=5, kappa=200.0)
    controller = build(public, Settings())
    stages = stages_of(controller, 12)
    assert [first for first, _, _ in stages[:7]] == [0, 1, 2, 3, 5, 10]
    assert stages[0][1] == pytest.approx(1341.473029)
    assert stages[0][2] == pytest.approx(0.00112499156)
    given = build(public, Settings(first_clip_norm=200.0))
    assert given.clip_norm == 200.0


def test_rigorous_runs_use_public_bounds() -> None:
    assert isinstance(build(setting(), Settings()), ClosedLoop)
    assert literal(setting(clip_norm=None, lipschitz=1.5)).clip_norm == 1.5
    assert literal(setting(clip_norm=None)).clip_norm == 10.0
    assert literal(setting(smoothness=None)).rate() == literal(setting(smoothness=10.0)).rate()
    assert literal(setting(), smoothness=10.0).rate() == literal(setting(smoothness=10.0)).rate()
    assert literal(setting(), gradient_std=0.1).rate() > literal(setting()).rate()
    long, short = literal(setting(), gap=2.0).describe(), literal(setting(), gap=1.0).describe()
    assert long["length"] == pytest.approx(2 * short["length"], abs=2)


@pytest.mark.parametrize(
    ("changes", "settings", "path"),
    [
        ({"updates": None}, Settings(), "stop.updates"),
        ({"updates": None}, Settings(controller="budgeted"), "stop.updates"),
        ({"rigour": "paper"}, Settings(controller="closed_loop"), "algorithm.cloud.controller"),
        ({"probes": 0}, Settings(), "algorithm.edge.probes"),
    ],
)
def test_runs_that_cannot_be_controlled(changes: dict[str, Any], settings: Settings, path: str) -> None:
    with pytest.raises(ConfigError, match=path):
        build(setting(**changes), settings)


def test_literal_needs_no_end_and_asks_nothing() -> None:
    controller = literal(setting(updates=None))
    with pytest.raises(LocalProtocolError, match="asks no probes"):
        controller.answered(1.0, 0.5, 0.1)
