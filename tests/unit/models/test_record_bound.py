"""What one record can do to the sum: the bound, hostile records, and a control that must exceed it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from test_model_table import BATCH, Case, make

from common.errors import SensitivityError
from common.models import MODELS
from common.models.clipping import MARGIN, clip_factors, row_squares
from common.seeds import stream

HOSTILE = {
    "nan": math.nan,
    "inf": math.inf,
    "minus inf": -math.inf,
    "1e30": 1e30,
    "minus 1e38": -1e38,
}


@pytest.fixture(params=sorted(MODELS))
def case(request: pytest.FixtureRequest) -> Case:
    return make(request.param)


def floats(case: Case) -> NDArray[np.float32]:
    return case.inputs / np.float32(255) if case.inputs.dtype == np.uint8 else case.inputs.copy()


@pytest.mark.parametrize("value", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("whole", [True, False], ids=["whole record", "one value"])
def test_hostile_record_is_bounded_and_leaves_the_others_alone(case: Case, value: float, whole: bool) -> None:
    inputs, bound = floats(case), 0.1
    if whole:
        inputs[4] = value
    else:
        inputs[4].flat[400] = value
    alone = case.model.clipped_sum(case.flat, inputs[4:5], case.labels[4:5], bound)
    assert np.isfinite(alone).all()
    assert np.linalg.norm(alone.astype(np.float64)) <= bound
    rest = np.delete(np.arange(BATCH), 4)
    total = case.model.clipped_sum(case.flat, inputs, case.labels, bound)
    expected = case.model.clipped_sum(case.flat, inputs[rest], case.labels[rest], bound) + alone
    assert np.abs(total - expected).max() <= 1e-6 * np.abs(expected).max()


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_record_without_a_finite_gradient_is_the_zero_vector(case: Case, value: float) -> None:
    inputs = floats(case)
    inputs[:] = value
    assert not case.model.clipped_sum(case.flat, inputs, case.labels, 1.0).any()
    assert not case.model.clipped_sum(case.flat, inputs[:1], case.labels[:1], 1.0).any()


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e38])
def test_parameters_that_are_not_finite_or_huge_give_a_finite_sum(case: Case, value: float) -> None:
    total = case.model.clipped_sum(np.full_like(case.flat, value), case.inputs, case.labels, 1.0)
    assert np.isfinite(total).all()
    assert np.linalg.norm(total) <= BATCH
    assert case.model.predict(np.full_like(case.flat, value), case.inputs).shape == (BATCH,)


def test_norm_of_a_hostile_record_shows_it(case: Case) -> None:
    inputs = floats(case)
    inputs[4].flat[400] = math.nan
    norms = case.model.norms(case.flat, inputs, case.labels)
    assert not np.isfinite(norms[4])
    assert np.isfinite(np.delete(norms, 4)).all()


def test_zero_record_and_equal_records(case: Case) -> None:
    inputs = floats(case)
    inputs[0] = 0
    inputs[2:5] = inputs[1]
    labels = np.array(case.labels)
    labels[1:5] = labels[1]
    total = case.model.clipped_sum(case.flat, inputs[:5], labels[:5], 0.1).astype(np.float64)
    parts = [case.model.clipped_sum(case.flat, inputs[i : i + 1], labels[i : i + 1], 0.1) for i in (0, 1)]
    expected = parts[0].astype(np.float64) + 4 * parts[1].astype(np.float64)
    assert np.abs(total - expected).max() <= 1e-6 * np.abs(expected).max()


def farthest(case: Case, query: str, bound: float) -> float:
    """The largest distance found between the sums of neighbours: batches that differ in one record."""
    largest = 0.0
    for trial in range(20):
        rng = stream(trial, "neighbours", case.name)
        inputs, labels = floats(case), np.array(case.labels)
        other, other_labels = inputs.copy(), labels.copy()
        other[0] = rng.uniform(-1, 1, other[0].shape) * 10.0 ** rng.integers(0, 4)
        other_labels[0] = (labels[0] + 1) % case.model.classes
        sums = []
        for values, names in ((inputs, labels), (other, other_labels)):
            if query == "clip each":
                sums.append(case.model.clipped_sum(case.flat, values, names, bound).astype(np.float64))
            else:
                mean = case.model.gradient_sum(case.flat, values, names).astype(np.float64) / BATCH
                sums.append(BATCH * mean * min(1.0, bound / np.linalg.norm(mean)))
        largest = max(largest, float(np.linalg.norm(sums[0] - sums[1])))
    return largest


def test_neighbours_are_no_farther_apart_than_twice_the_bound(case: Case) -> None:
    assert 0 < farthest(case, "clip each", 0.05) <= 2 * 0.05 * (1 + 1e-6)


def test_control_clipping_the_average_exceeds_it(case: Case) -> None:
    assert farthest(case, "clip average", 0.05) > 2 * 0.05 * (1 + 1e-6)


def test_factors_by_hand() -> None:
    squares = np.array([0.0, 0.25, 1.0, 4.0, math.inf, math.nan])
    factors = clip_factors(squares, 1.0)
    assert factors == pytest.approx([1.0, 1.0, MARGIN, MARGIN / 2, 0.0, 0.0], abs=0)
    assert clip_factors(np.zeros(0), 1.0).shape == (0,)
    for bound in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(SensitivityError, match="finite and positive"):
            clip_factors(squares, bound)


def test_row_squares_are_never_too_small() -> None:
    rng = stream(8, "squares")
    rows = (rng.standard_normal((4, 20_000)) * 10.0 ** rng.integers(-3, 3, (4, 20_000))).astype(np.float32)
    exact = np.array([math.fsum(float(value) ** 2 for value in row) for row in rows])
    assert row_squares(rows.astype(np.float64)) == pytest.approx(exact, rel=20_000 * 2.0**-53)
    running = np.cumsum(np.square(rows), axis=1)[:, -1]  # the control: added up in float32
    assert np.abs(running / exact - 1).max() > 1 - MARGIN**2
    tiny = np.full((1, 100), 1e-25, dtype=np.float32)  # each square is below the smallest float32
    assert row_squares(tiny.astype(np.float64))[0] == pytest.approx(100 * 1e-50)
