"""Clipped rows, by hand and at the edges."""

from __future__ import annotations

import math

import numpy as np
import pytest

from common.errors import SensitivityError
from common.privacy.clipping import clip, clip_each, clipped_sum

ROWS = np.array([[3.0, 4.0], [0.3, -0.4], [-6.0, 8.0]])


def test_each_row_is_clipped_on_its_own() -> None:
    assert clip_each(ROWS, 1.0) == pytest.approx(np.array([[0.6, 0.8], [0.3, -0.4], [-0.6, 0.8]]))
    assert clipped_sum(ROWS, 1.0) / 3 == pytest.approx([0.1, 0.4])


def test_clipping_the_average_is_something_else() -> None:
    assert clip(ROWS.mean(axis=0), 1.0) == pytest.approx([-0.2266987336, 0.9739649296])


@pytest.mark.parametrize("clip_norm", [0.0, -1.0, math.inf, math.nan])
def test_a_bound_that_bounds_nothing_is_refused(clip_norm: float) -> None:
    with pytest.raises(SensitivityError, match=f"clip_norm: {clip_norm!r}: expected finite and positive"):
        clip_each(ROWS, clip_norm)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e200])
def test_a_row_that_is_not_finite_counts_as_zero(bad: float) -> None:
    rows = np.array([[1.0, bad], [3.0, 4.0]])
    assert clip_each(rows, 5.0).tolist() == [[0.0, 0.0], [3.0, 4.0]]


def test_large_float32_rows_do_not_overflow() -> None:
    assert clip(np.array([3e30, 4e30], dtype=np.float32), 1.0) == pytest.approx([0.6, 0.8])


def test_zero_stays_zero_and_nothing_sums_to_zero() -> None:
    assert clip(np.zeros(3), 1.0).tolist() == [0.0, 0.0, 0.0]
    assert clipped_sum(np.empty((0, 3)), 1.0).tolist() == [0.0, 0.0, 0.0]


def test_the_input_is_left_alone() -> None:
    rows = ROWS.copy()
    clip_each(rows, 0.1)
    assert rows.tolist() == ROWS.tolist()
