"""The stage formulas: numbers worked out by hand, and what must hold for all."""

from __future__ import annotations

import math
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud.open_loop import literal_stages
from cloud.stages import Ground, even_lengths, first_sensitivity, sensitivity_of, stage_lengths, variance_of

SOFTMAX = Ground(12, 650 / 4, 4, 0.5, math.log(10), math.sqrt(2))
Row = tuple[float, float, float, float, int]


def test_by_hand() -> None:
    ground = Ground(
        batch_size=4, noise_energy=2, staleness=1, smoothness=1, gap=1, gradient_std=2, is_clipped_std=False
    )
    stage = ground.literal(1, clip_norm=1.0, clip_factor=0.5)
    assert sensitivity_of(1.0, 4) == 0.5
    assert (stage.variance, stage.damping, stage.length) == (1.5, 6.0, 384)
    assert stage.learning_rate == pytest.approx(1 / 24)


@pytest.mark.parametrize(
    ("gradient_std", "batch_size", "tail", "expected"), [(30, 12, 1e-3, 223.5788382), (1, 10, 0.19, 0.632455532)]
)
def test_first_sensitivity(gradient_std: float, batch_size: int, tail: float, expected: float) -> None:
    assert first_sensitivity(gradient_std, batch_size, tail) == pytest.approx(expected, rel=1e-9)


@given(st.floats(0.01, 100), st.integers(1, 500), st.floats(1e-4, 0.999))
def test_first_sensitivity_solves_its_equation(gradient_std: float, batch_size: int, tail: float) -> None:
    sensitivity = first_sensitivity(gradient_std, batch_size, tail)
    assert (1 - 4 * gradient_std**2 / (batch_size * sensitivity) ** 2) ** 2 == pytest.approx(1 - tail, rel=1e-6)


PAPER: list[Row] = [
    (1341.473029, 9997574.375, 7.407462977, 0.00112499156, 1),
    (167.6841286, 156285.9277, 7.410963852, 0.001124460124, 2),
    (10.48025804, 685.1989364, 8.317857299, 0.001001860579, 335),
    (0.6550161274, 77.3835896, 240.4825797, 3.465254467e-05, 2477973),
]
TRUE_LAPLACE: list[Row] = [
    (1341.473029, 2115220930000.0, 1567222.222, 5.317263382e-09, 3851),
    (670.7365145, 528805232600.0, 1567222.222, 5.317263381e-09, 15401),
    (335.3682572, 132201308200.0, 1567222.223, 5.317263379e-09, 61604),
]
GAUSS: list[Row] = [
    (1.414213562, 9.194444444, 7.355555556, 0.02719033233, 678),
    (0.7071067812, 2.298611111, 7.355555556, 0.02719033233, 2710),
    (0.08838834765, 0.03591579861, 7.355555556, 0.02719033233, 173433),
]
GAUSS_HALF: list[Row] = [
    (1.414213562, 2.423611111, 1.938888889, 0.1031518625, 179),
    (0.08838834765, 0.009467230903, 1.938888889, 0.1031518625, 45717),
]
LAPLACE: list[Row] = [
    (1.414213562, 238.5, 190.8, 0.001048218029, 17574),
    (0.3535533906, 14.90625, 190.8, 0.001048218029, 281173 + 1),
]
RELEASED_CODE: list[Row] = [
    (15.0, 311.6614583, 1.082157841, 6.243781173, 1),
    (12.0, 199.5833333, 1.082808883, 6.240027083, 1),
    (9.6, 127.8533333, 1.083826136, 6.234170347, 1),
]


@pytest.mark.parametrize(
    ("ground", "first_clip_norm", "clip_factor", "golden"),
    [
        (Ground(12, 200, 5, 10, math.log(10), 30, False), 1341.4730292, 0.5, PAPER),
        (Ground(12, 42315000, 5, 10, math.log(10), 30, False), 1341.4730292, 0.5, TRUE_LAPLACE),
        (SOFTMAX, math.sqrt(2), 0.5, GAUSS),
        (Ground(12, 650 / 16, 4, 0.5, math.log(10), math.sqrt(2)), math.sqrt(2), 0.5, GAUSS_HALF),
        (Ground(12, 65 * 66, 4, 0.5, math.log(10), math.sqrt(2)), math.sqrt(2), 0.5, LAPLACE),
        (Ground(48, 12752 / 16, 3, 0.0185, 50, 4, False), 15.0, 0.8, RELEASED_CODE),
    ],
    ids=["paper", "true laplace", "gauss", "gauss half", "laplace", "released code"],
)
def test_golden_schedules(ground: Ground, first_clip_norm: float, clip_factor: float, golden: list[Row]) -> None:
    ours = list(islice(literal_stages(ground, first_clip_norm, clip_factor), 12))
    assert [stage.number for stage in ours] == list(range(1, 13))
    for clip_norm, variance, damping, learning_rate, length in golden:
        stage = next(stage for stage in ours if math.isclose(stage.clip_norm, clip_norm, rel_tol=1e-6))
        assert (stage.variance, stage.damping, stage.learning_rate) == pytest.approx(
            (variance, damping, learning_rate), rel=1e-6
        )
        assert stage.length == length


grounds = st.builds(
    Ground,
    batch_size=st.integers(1, 256),
    noise_energy=st.floats(0, 1e6),
    staleness=st.floats(0, 100),
    smoothness=st.floats(1e-3, 100),
    gap=st.floats(0.1, 100),
    gradient_std=st.floats(0.01, 100),
)


@given(grounds, st.floats(0.01, 100), st.floats(0.1, 0.9))
def test_the_literal_pair_is_the_best_constant_rate_for_its_length(
    ground: Ground, clip_norm: float, clip_factor: float
) -> None:
    stage = ground.literal(1, clip_norm, clip_factor)
    assert stage.damping >= 1
    assert stage.learning_rate <= 1 / (2 * ground.smoothness * (ground.staleness + 1)) * (1 + 1e-12)
    if stage.damping > 1 and stage.length > 1000:  # so that rounding up does not matter
        best = math.sqrt(ground.gap / (ground.smoothness * stage.length * stage.variance))
        assert stage.learning_rate == pytest.approx(best, rel=1e-3)


@given(grounds, st.floats(0.01, 100), st.integers(1, 10**6))
def test_a_fitted_stage_is_what_equation_15_makes_of_its_damping(ground: Ground, clip_norm: float, length: int) -> None:
    stage = ground.fitted(1, clip_norm, length)
    if stage.damping > 1:
        again = 4 * stage.damping**2 * ground.smoothness * (ground.staleness + 1) ** 2 * ground.gap / stage.variance
        assert again == pytest.approx(length)


@pytest.mark.parametrize(
    ("length", "damping", "rate"), [(1000, 17.75119078, 0.01126684978), (8000, 50.2079495, 0.003983432942)]
)
def test_golden_fitted_stages(length: int, damping: float, rate: float) -> None:
    ground = Ground(12, 650, 4, 0.5, math.log(10), math.sqrt(2))
    stage = ground.fitted(1, math.sqrt(2), length)
    assert (stage.variance, stage.damping, stage.learning_rate) == pytest.approx((36.27777778, damping, rate), rel=1e-8)


@pytest.mark.parametrize(
    ("updates", "stages", "expected"),
    [
        (15000, 4, (1000, 2000, 4000, 8000)),
        (10000, 6, (158, 317, 635, 1270, 2540, 5080)),
        (7, 3, (1, 2, 4)),
        (2, 4, (2,)),
        (9, 1, (9,)),
    ],
)
def test_golden_lengths(updates: int, stages: int, expected: tuple[int, ...]) -> None:
    assert stage_lengths(updates, stages) == expected


@given(st.integers(1, 10**6), st.integers(1, 50))
def test_lengths_fill_the_run(updates: int, stages: int) -> None:
    for lengths in (stage_lengths(updates, stages), even_lengths(updates, stages)):
        assert sum(lengths) == updates
        assert min(lengths) >= 1
    assert max(even_lengths(updates, stages)) - min(even_lengths(updates, stages)) <= 1


def test_clipping_bounds_the_spread_and_averaging_divides_it() -> None:
    assert SOFTMAX.variance(0.5) == variance_of(0.5, 0.5, 12, 650 / 4)
    assert SOFTMAX.variance(5.0) == variance_of(5.0, math.sqrt(2), 12, 650 / 4)
    averaged = Ground(12, 650 / 4, 0, 0.5, math.log(10), math.sqrt(2), averaged=5)
    assert averaged.variance(0.5) == pytest.approx(SOFTMAX.variance(0.5) / 5)
