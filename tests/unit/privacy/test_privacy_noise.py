"""Scales and second moments, and the lattice, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from common.errors import SensitivityError, UnsupportedEvent
from common.events import Event
from common.privacy import lattice
from common.privacy.noise import kappa, noise_of


@pytest.mark.parametrize(
    ("event", "dimension", "expected"),
    [
        (Event(mechanism="spherical-laplace", epsilon=1.0), 1, 2.0),
        (Event(mechanism="spherical-laplace", epsilon=0.1), 650, 42_315_000.0),
        (Event(mechanism="paper", epsilon=0.1), 650, 200.0),
        (Event(mechanism="paper", noise_multiplier=0.5), 650, 40.625),
        (Event(mechanism="gaussian", noise_multiplier=0.5), 650, 40.625),
        (Event(mechanism="none"), 650, 0.0),
    ],
)
def test_kappa_is_golden(event: Event, dimension: int, expected: float) -> None:
    assert kappa(event, dimension) == pytest.approx(expected, rel=1e-12)


def test_the_second_moment_of_one_release_is_golden() -> None:
    noise = noise_of(Event(mechanism="spherical-laplace", epsilon=0.1))
    assert noise is not None
    scale = noise.scale(1 / 12)  # dS = 1/6
    assert noise.second_moment(650, scale) == pytest.approx(1_175_416.667, rel=1e-9)


@pytest.mark.parametrize("mechanism", ["gaussian", "spherical-laplace", "paper"])
def test_an_event_without_its_parameter_is_refused(mechanism: str) -> None:
    with pytest.raises(UnsupportedEvent, match=r"(noise_multiplier|epsilon) of .*expected a value"):
        kappa(Event(mechanism=mechanism), 3)  # type: ignore[arg-type]


@pytest.mark.parametrize(("scale", "grid"), [(1.0, 2.0**-30), (1.5, 2.0**-30), (0.99, 2.0**-31), (2.0**70, 2.0**40)])
def test_the_grid_is_a_power_of_two_below_the_scale(scale: float, grid: float) -> None:
    assert lattice.grid_below(scale) == grid


def test_both_parts_are_rounded_before_they_are_added() -> None:
    vector, noise = np.array([0.6, -1.4, 0.5]), np.array([0.6, 0.4, 0.49])
    assert lattice.add(vector, noise, 1.0).tolist() == [2.0, -1.0, 0.0]  # rounding the sum gives 1, -1, 1


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 2.0**53])
def test_what_the_lattice_cannot_hold_is_refused(bad: float) -> None:
    with pytest.raises(SensitivityError, match="expected within the lattice"):
        lattice.add(np.array([0.0, bad]), np.zeros(2), 1.0)


@pytest.mark.parametrize(("dimension", "golden"), [(7850, 8.251539034149307e-07), (1_000_000, 9.313225746154785e-06)])
def test_the_price_of_the_lattice_is_golden(dimension: int, golden: float) -> None:
    """Relative to a sensitivity of 0.1 at epsilon 0.1, where the noise has scale 1."""
    assert lattice.inflated(0.1, lattice.grid_below(1.0), dimension) / 0.1 - 1 == pytest.approx(golden, rel=1e-3)


@pytest.mark.parametrize("strength", [1e-6, 1e6])
@pytest.mark.parametrize("dimension", [1, 10**7])
def test_kappa_is_finite_for_every_event_that_the_wire_lets_through(strength: float, dimension: int) -> None:
    for event in (
        Event(mechanism="gaussian", noise_multiplier=strength),
        Event(mechanism="spherical-laplace", epsilon=strength),
        Event(mechanism="paper", epsilon=strength),
    ):
        assert 0 < kappa(event, dimension) < 1e30


@pytest.mark.parametrize(
    "absurd",
    [
        {"noise_multiplier": 9e-7},
        {"noise_multiplier": 1.1e6},
        {"epsilon": 1e-160},
        {"epsilon": 1e7},
        {"sampling_rate": 1e-10},
    ],
)
def test_an_event_with_an_absurd_number_is_no_event(absurd: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        Event(mechanism="gaussian", **absurd)  # type: ignore[arg-type]
