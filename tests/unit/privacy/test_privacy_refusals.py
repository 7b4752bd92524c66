"""What the parts refuse when they are asked directly, and what a plan forgets and finds again."""

from __future__ import annotations

import numpy as np
import pytest
from declared import EDGE, declare

from common.errors import ConfigError, UnsupportedEvent
from common.events import Event
from common.privacy.plan import plan_for
from common.privacy.target import Work, plan_to_target
from common.privacy.theorems import gaussian_epsilon, pure_epsilon
from common.seeds import stream


def test_a_release_without_its_strength_has_no_epsilon() -> None:
    with pytest.raises(UnsupportedEvent, match=r"^epsilon of Event.*: expected a value$"):
        pure_epsilon(Event(mechanism="spherical-laplace", dimension=3))
    with pytest.raises(UnsupportedEvent, match=r"^noise_multiplier of Event.*: expected a value$"):
        gaussian_epsilon(Event(mechanism="gaussian", dimension=3), 1e-5)


def test_no_plan_to_a_target_that_nobody_states() -> None:
    with pytest.raises(ConfigError, match=r"privacy\.target_epsilon: None: expected together with noise"):
        plan_to_target(declare(noise_multiplier=1.0), EDGE, 100, 5, Work(updates=10))


def test_a_plan_releases_alike_at_a_clip_norm_that_it_has_forgotten() -> None:
    """A controller may try more clip norms than a plan keeps in mind."""
    plan = plan_for(declare(noise_multiplier=1.0), EDGE, 100, 5)
    first = plan.grain(1.0)
    for number in range(200):
        plan.grain(2.0 + number)
    assert plan.grain(1.0) == first
    assert plan.grain(2.0) != first
    total = np.full(5, 0.1)
    releases = [plan.perturb(plan.bound(total, 1.0), stream(1, "noise")).flat for _ in range(2)]
    assert np.array_equal(*releases)
