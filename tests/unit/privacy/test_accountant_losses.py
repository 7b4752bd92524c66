"""Laws of losses and their dots: against the definition, against golden profiles, and never below the truth."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from reference import golden, spherical
from scipy import special, stats
from scipy.interpolate import CubicSpline

from common.privacy.bessel import ratio
from common.privacy.dots import Dots, added, connect, on_grid, removed, replaced, trimmed
from common.privacy.losses import GaussianLoss, LaplaceLoss, Law, Loss, PureLoss, SphericalLoss, SwappedGaussianLoss

LOSSES: list[Loss] = [
    GaussianLoss(0.3),
    SphericalLoss(2, 1e-6),
    SphericalLoss(2, 1.0),
    SphericalLoss(3, 40.0),
    SphericalLoss(785, 0.5),
    SphericalLoss(10**6, 30.0),
    SphericalLoss(10**9, 1.0),
    SphericalLoss(7, 300.0),
    LaplaceLoss(0.01),
    LaplaceLoss(30.0),
    PureLoss(2.0),
    SwappedGaussianLoss(0.7, 0.1),
    SwappedGaussianLoss(60.0, 0.5),
]


def spherical_loss(dimension: int, shift: float) -> Loss:
    return SphericalLoss(dimension, shift) if dimension > 1 else LaplaceLoss(shift)


def profile(dots: Dots, epsilon: float) -> float:
    """The delta of dots at any epsilon: above that of the law, and equal on the dots."""
    above = dots.losses > epsilon
    return float(dots.infinite - dots.masses[above] @ np.expm1(epsilon - dots.losses[above]))


def exact_profile(law: Law, epsilon: float) -> float:
    """The delta of the law: exact on the borders, by a cubic through the four nearest in between."""
    dots = connect(law)
    if epsilon >= dots.losses[-1]:
        return 0.0
    if epsilon <= dots.losses[0]:
        return -math.expm1(epsilon)
    near = np.searchsorted(dots.losses, epsilon) + np.arange(-3, 3)
    points = dots.losses[near.clip(0, dots.losses.size - 1)]
    points = np.unique(points)
    return float(CubicSpline(points, [profile(dots, point) for point in points])(epsilon))


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_both_distributions_have_all_their_mass(loss: Loss) -> None:
    losses, logs = loss.law().points()
    assert math.fsum(np.exp(logs)) == pytest.approx(1.0, abs=3e-14)
    if losses.max() < 700:
        assert math.fsum(np.exp(logs - losses)) == pytest.approx(1.0, abs=3e-14)
    dots = connect(loss.law())
    assert dots.masses.min() >= 0
    assert math.fsum(dots.masses) + dots.infinite == pytest.approx(1.0, abs=3e-14)


@pytest.mark.parametrize(("dimension", "shift"), [(2, 0.5), (2, 20.0), (3, 1.0), (10, 0.1), (785, 1.0), (7850, 25.0)])
def test_the_elementary_density_is_that_of_the_definition(dimension: int, shift: float) -> None:
    law = SphericalLoss(dimension, shift).law()
    cells = np.exp(law.log_weights).sum(axis=1)
    chosen = np.arange(150, cells.size, 450)
    found = np.cumsum(cells[::-1])[::-1][chosen]
    np.testing.assert_allclose(found, spherical.survival(dimension, shift, law.borders[chosen]), rtol=0, atol=1e-11)
    wrong = spherical.survival(dimension + 1, shift, law.borders[chosen])  # control
    assert np.abs(found - wrong).max() > 1e-5


@pytest.mark.parametrize("order", [0.0, 0.5, 4.0, 60.5])
@pytest.mark.parametrize("argument", [1e-6, 0.3, 40.0, 5e5])
def test_bessel_ratios(order: float, argument: float) -> None:
    over, under = special.kve(order + 1, argument), special.kve(order, argument)
    assert np.isinf(over) or ratio(order, argument) == pytest.approx(over / under, rel=1e-12)
    recurrence = ratio(order + 1, argument) - 2 * (order + 1) / argument  # K_(n+2) = K_n + 2(n+1)/x K_(n+1)
    scale = ratio(order + 1, argument)
    assert recurrence == pytest.approx(1 / ratio(order, argument), rel=1e-12, abs=1e-13 * scale)


@pytest.mark.parametrize("row", golden.rows("profile_T1"), ids=str)
def test_the_profile_of_one_release_is_golden(row: golden.Row) -> None:
    found = exact_profile(spherical_loss(row["d"], row["a"]).law(), row["eps"])
    assert found == pytest.approx(row["delta"], rel=row["tol_rel"])
    assert abs(found - row["delta_montecarlo"]) < 4 * row["delta_montecarlo_stderr"]


@pytest.mark.parametrize("row", golden.rows("profile_monotone_in_shift"), ids=str)
def test_a_longer_shift_never_leaks_less(row: golden.Row) -> None:
    shifts = [fraction * row["a_full"] for fraction in row["fractions"]]
    found = [exact_profile(spherical_loss(row["d"], shift).law(), row["eps"]) for shift in shifts]
    assert found == pytest.approx(row["delta"], rel=1e-6, abs=1e-12)
    assert all(one <= other + 1e-12 for one, other in pairwise(found))


@pytest.mark.parametrize("dimension", [10**4, 10**6])
def test_many_dimensions_look_like_a_gaussian(dimension: int) -> None:
    dots = connect(SphericalLoss(dimension, 2.0).law())
    variance = 4.0 / dimension
    assert dots.mean == pytest.approx(variance / 2, rel=3 / dimension + 1e-5)
    assert dots.mean_square - dots.mean**2 == pytest.approx(variance, rel=3 / dimension + 1e-5)


@pytest.mark.parametrize("shift", [0.1, 1.0, 5.0])
def test_the_gaussian_profile_is_the_textbook_one(shift: float) -> None:
    law = GaussianLoss(shift).law()
    for epsilon in (0.0, shift, shift**2 / 2 + 2 * shift):
        expected = stats.norm.cdf(shift / 2 - epsilon / shift) - math.exp(epsilon) * stats.norm.cdf(
            -shift / 2 - epsilon / shift
        )
        assert exact_profile(law, epsilon) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("width", [0.0, 0.3, 2.0])
def test_dots_never_promise_more_than_the_law(loss: Loss, width: float) -> None:
    """At every width of the grid, between the dots too; rounding down, the control, does."""
    law = loss.law()
    losses, logs = law.points()
    spread = math.sqrt(float(np.exp(logs) @ losses**2))
    dots, lower = connect(law), False
    if width > 0:
        first, masses = on_grid(dots, width * spread)
        dots = Dots((first + np.arange(masses.size)) * width * spread, masses, dots.infinite)
    for epsilon in spread * np.linspace(-0.9, 2.5, 9):
        truth = float(np.exp(logs) @ np.maximum(0.0, -np.expm1(np.minimum(epsilon - losses, 700.0))))
        assert profile(dots, epsilon) >= truth * (1 - 1e-6) - 1e-13
        down = Dots(dots.losses - width * spread, dots.masses)
        lower = lower or profile(down, epsilon) < truth * (1 - 1e-6) - 1e-13
    assert lower is (width > 0)


def thinned(loss: Loss, rate: float, epsilon: float, way: str) -> float:
    """The delta of a subsampled pair from its definition, on the law's own points."""
    losses, logs = loss.law().points()
    mass = np.exp(logs)
    if way == "removed":  # (1-q) p + q p' against p
        terms = mass * np.exp(-losses) * (1 - rate + rate * np.exp(losses) - math.exp(epsilon))
    elif way == "added":  # p against (1-q) p + q p', p = p' exp(-loss)
        terms = mass * np.exp(-losses) * (1 - math.exp(epsilon) * (1 - rate + rate * np.exp(losses)))
    else:  # of fixed size: q times the profile without sampling, epsilon >= 0
        terms = rate * mass * -np.expm1(math.log1p(math.expm1(epsilon) / rate) - losses)
    return float(np.maximum(terms, 0.0).sum())


@pytest.mark.parametrize("way", ["removed", "added", "replaced"])
@pytest.mark.parametrize("rate", [1e-4, 0.1, 0.9])
@pytest.mark.parametrize("loss", [SphericalLoss(3, 1.5), SphericalLoss(785, 3.0), LaplaceLoss(1.0), GaussianLoss(1.0)])
def test_sampling_thins_as_defined(loss: Loss, rate: float, way: str) -> None:
    dots = {"removed": removed, "added": added, "replaced": replaced}[way](connect(loss.law()), rate)
    assert math.fsum(dots.masses) + dots.infinite == pytest.approx(1.0, abs=1e-13)
    assert np.all(np.diff(dots.losses) >= 0)
    spread = math.sqrt(dots.mean_square)
    for epsilon in spread * np.array([0.0, 0.3, 1.0, 2.0]):
        expected = thinned(loss, rate, epsilon, way)
        assert profile(dots, epsilon) == pytest.approx(expected, rel=1e-4, abs=1e-15)
        assert profile(dots, epsilon) >= expected * (1 - 1e-6)


def test_the_two_directions_differ() -> None:
    dots = connect(SphericalLoss(10, 2.0).law())
    one, other = removed(dots, 0.1), added(dots, 0.1)
    assert profile(one, 0.1) > 1.2 * profile(other, 0.1)
    assert one.losses[-1] > 5 * other.losses[-1]


@pytest.mark.parametrize("shift", [1e-6, 0.3, 2.0, 20.0])
@pytest.mark.parametrize("build", [lambda shift: SphericalLoss(10, shift), LaplaceLoss, PureLoss, GaussianLoss])
def test_replaced_dots_are_their_own_mirror_image(build: Callable[[float], Loss], shift: float) -> None:
    dots = replaced(connect(build(shift).law()), 0.3)
    assert math.fsum(dots.masses) + dots.infinite == pytest.approx(1.0, abs=3e-14)
    np.testing.assert_allclose(dots.masses * np.exp(-dots.losses), dots.masses[::-1], rtol=1e-9, atol=1e-300)


def test_what_is_trimmed_goes_up() -> None:
    dots = Dots(np.array([-2.0, -1.0, 0.0, 1.0, 2.0]), np.array([0.01, 0.1, 0.6, 0.28, 0.01]))
    kept = trimmed(dots, 0.02)
    np.testing.assert_allclose(kept.losses, [-1.0, 0.0, 1.0])
    np.testing.assert_allclose(kept.masses, [0.11, 0.6, 0.28])
    assert kept.infinite == pytest.approx(0.01)
    for epsilon in (-1.5, 0.3, 1.5):
        assert profile(kept, epsilon) >= profile(dots, epsilon)


def test_sharing_keeps_both_masses() -> None:
    losses: NDArray[np.float64] = np.array([-0.7, 0.01, 0.02, 1.3])
    dots = Dots(losses, np.array([0.1, 0.2, 0.3, 0.4]))
    first, masses = on_grid(dots, 0.25)
    points = (first + np.arange(masses.size)) * 0.25
    assert masses.sum() == pytest.approx(1.0, abs=1e-15)
    assert masses @ np.exp(-points) == pytest.approx(dots.masses @ np.exp(-losses), abs=1e-14)
