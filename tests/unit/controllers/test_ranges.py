"""At the ends of every range a controller either works with finite numbers or says in words that it cannot."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from settings import setting

from cloud.algorithms import controllers, mapa
from cloud.controller import Continue, Controller, Setting
from cloud.stages import first_sensitivity
from common.errors import ConfigError
from common.events import Event
from common.messages import Directive
from common.privacy.noise import kappa

CLIP_NORMS = (1e-20, 1.0, 1e20)
EVENTS = [
    *(Event(mechanism="gaussian", noise_multiplier=strength) for strength in (1e-6, 1e6)),
    *(Event(mechanism="spherical-laplace", epsilon=strength) for strength in (1e-6, 1e6)),
]
SETTINGS = [
    setting(clip_norm=clip_norm, kappa=kappa(event, dimension), dimension=dimension, updates=40)
    for clip_norm, event, dimension in itertools.product(CLIP_NORMS, EVENTS, (1, 10**7))
]


def drive(controller: Controller) -> None:
    """Forty updates with losses that fall and rise; every directive must be one that can be sent."""
    flat, losses = np.zeros(3, np.float32), itertools.cycle((2.3, 1.0, 5.0, 0.0, -1.0))
    ask = controller.begin(flat)
    for _ in range(40):
        while ask is not None:
            assert math.isfinite(ask.cap)
            assert ask.bound > 0
            reply = controller.answered(next(losses), 1.0, 0.1)
            ask = None if isinstance(reply, Continue) else reply
        directive = Directive(stage=1, learning_rate=controller.rate(), clip_norm=controller.clip_norm)
        assert directive.clip_norm is not None
        assert 1e-20 <= directive.clip_norm <= 1e20
        assert all(math.isfinite(value) for value in controller.describe().values())
        ask = controller.applied(flat)


@pytest.mark.parametrize("choice", ["closed_loop", "budgeted", "literal"])
@pytest.mark.parametrize("changes", [{}, {"clip_factor": 1e-6}, {"smoothness": 1e-20}, {"smoothness": 1e20}])
def test_mapa_works_or_refuses(choice: str, changes: dict[str, Any]) -> None:
    worked = 0
    for given in SETTINGS:
        try:
            controller = mapa.build(given, mapa.Settings(controller=choice, **changes))  # type: ignore[arg-type]
        except ConfigError:
            continue
        drive(controller)
        worked += 1
    assert worked


def test_the_literal_rules_work_or_refuse() -> None:
    for given in SETTINGS:
        paper = Setting(**{**vars(given), "rigour": "paper"})
        for own in ({}, {"gradient_std": 1e20}, {"first_clip_delta": 1e-18}):
            try:
                controller = mapa.build(paper, mapa.Settings(**own))  # type: ignore[arg-type]
            except ConfigError:
                continue
            drive(controller)


def test_audp_works_or_refuses() -> None:
    for given in SETTINGS:
        try:
            controller = controllers.build_audp(given, controllers.NoisySettings())
        except ConfigError:
            continue
        drive(controller)


@pytest.mark.parametrize("absurd", [{"smoothness": 1e-320}, {"gradient_std": 1e200}, {"radius": 1e-320}])
def test_constants_that_no_rate_follows_from_are_faults(absurd: dict[str, float]) -> None:
    name = next(iter(absurd))
    with pytest.raises(ConfigError, match=f"{name}: .*: expected finite, from 1e-20 to 1e\\+20"):
        controllers.build_asgd(setting(), controllers.PlainSettings(**absurd))
    with pytest.raises(ConfigError, match=f"{name}: .*: expected finite, from 1e-20 to 1e\\+20"):
        controllers.build_audp(setting(), controllers.NoisySettings(**absurd))


def test_a_clip_norm_that_no_edge_follows_is_a_fault() -> None:
    for clip_norm in (1e-21, 1e21):
        with pytest.raises(ConfigError, match="clip_norm"):
            setting(clip_norm=clip_norm)
        with pytest.raises(ConfigError, match="first_clip_norm"):
            mapa.build(setting(), mapa.Settings(first_clip_norm=clip_norm))


def test_the_first_sensitivity_of_a_tiny_tail_is_finite() -> None:
    """1 - sqrt(1 - tail) is tail/2 for a small tail, though 1 - tail rounds to 1."""
    assert first_sensitivity(1.0, 1, 1e-18) == pytest.approx(2.0 / math.sqrt(0.5e-18))
