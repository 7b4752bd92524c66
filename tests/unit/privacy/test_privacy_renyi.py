"""The quick bound: the textbook case exactly, and never below the accountant."""

from __future__ import annotations

import numpy as np
import pytest

from common.errors import ConfigError
from common.events import Event
from common.privacy.accountant import total
from common.privacy.probes import plan_probes
from common.privacy.renyi import ORDERS, curve


def event(noise_multiplier: float, rate: float, adjacency: str = "add_remove") -> Event:
    sampling = "all" if rate == 1.0 else "poisson"
    return Event(
        mechanism="gaussian",
        noise_multiplier=noise_multiplier,
        sampling=sampling,
        sampling_rate=rate,
        adjacency=adjacency,
    )


def test_without_sampling_it_is_the_gaussian_curve() -> None:
    np.testing.assert_allclose(curve(1.0, 2.0), ORDERS / 8)


def test_order_two_by_hand() -> None:
    rate, noise_multiplier = 0.1, 1.5
    expected = np.log(1 + rate**2 * (np.exp(1 / noise_multiplier**2) - 1))
    assert curve(rate, noise_multiplier)[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("noise_multiplier", "rate"), [(0.7, 0.02), (2.0, 0.04), (8.0, 0.2), (1.0, 1.0)])
@pytest.mark.parametrize("steps", [1, 100, 5000])
def test_it_is_above_the_accountant_but_not_far(noise_multiplier: float, rate: float, steps: int) -> None:
    events = {event(noise_multiplier, rate): steps, event(15.0, 1.0): 20}
    quick, exact = (total(events, 1e-5, method).epsilon for method in ("quick", "pld"))
    assert quick is not None
    assert exact is not None
    assert exact <= quick
    if noise_multiplier > 1:  # where the best order is not below 2
        assert total(events, 1e-5, "rdp").epsilon == pytest.approx(quick, rel=0.05)


@pytest.mark.parametrize(("noise_multiplier", "rate"), [(2.0, 0.1), (0.2, 0.1), (0.05, 0.5), (20.0, 0.01)])
@pytest.mark.parametrize("mechanism", ["gaussian", "spherical-laplace"])
@pytest.mark.parametrize("sampling", ["poisson", "fixed"])
def test_it_is_above_the_accountant_for_replaced_records(
    noise_multiplier: float, rate: float, mechanism: str, sampling: str
) -> None:
    size = {"noise_multiplier": noise_multiplier} if mechanism == "gaussian" else {"epsilon": 5 / noise_multiplier}
    fields = {"mechanism": mechanism, "sampling": sampling, "sampling_rate": rate, "dimension": 25}
    replaced = Event.model_validate(fields | size | {"adjacency": "replace_one"})
    for count in (1, 50, 5000):
        quick, exact = (total({replaced: count}, 1e-5, method).epsilon for method in ("quick", "pld"))
        assert quick is not None
        assert exact is not None
        assert exact <= quick * (1 + 1e-9)


@pytest.mark.parametrize("noise_multiplier", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("rate", [1e-9, 0.5, 1 - 1e-16, 1.0])
def test_the_curve_is_positive_and_finite_for_every_event(noise_multiplier: float, rate: float) -> None:
    found = curve(rate, noise_multiplier)
    assert np.all(np.isfinite(found))
    assert np.all(found > 0)


def test_a_tiny_divergence_is_not_lost_in_rounding() -> None:
    """At order 2 it is q^2 (exp(1/z^2) - 1), here 1e-16: less than what 1 plus it can hold."""
    assert curve(1e-6, 100.0)[0] == pytest.approx(1e-12 * np.expm1(1e-4), rel=1e-9, abs=0)


@pytest.mark.parametrize("noise_multiplier", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("rate", [1e-9, 0.5, 1.0])
@pytest.mark.parametrize("share", [1e-6, 0.1, 1 - 1e-6])
def test_probes_are_planned_or_refused_in_words(noise_multiplier: float, rate: float, share: float) -> None:
    try:
        planned, fits = plan_probes(noise_multiplier, rate, 1000, 24, share), True
    except ConfigError as error:
        planned, fits = tuple(float(str(fault.value)) for fault in error.faults), False
    assert planned
    assert all((1e-6 <= value <= 1e6) is fits for value in planned)
