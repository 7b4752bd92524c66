"""Unit features: each record by itself on the unit sphere."""

from __future__ import annotations

import math

import numpy as np
import pytest

from common.models.features import unit_features
from common.seeds import stream


def test_by_hand() -> None:
    features = unit_features(np.array([[30, 40]], dtype=np.uint8), 255.0, (2,))
    length = math.sqrt(1.09)
    assert features[0] == pytest.approx([0.6 / length, 0.8 / length, 0.3 / length])
    assert features.dtype == np.float32


def test_length_is_one_whatever_the_record() -> None:
    rng = stream(1, "features")
    records = rng.standard_normal((5000, 1, 8, 8)) * 10.0 ** rng.integers(-30, 30, (5000, 1, 1, 1))
    features = unit_features(records.astype(np.float32), 16.0, (1, 8, 8))
    assert features.shape == (5000, 65)
    assert np.linalg.norm(features.astype(np.float64), axis=1) == pytest.approx(np.ones(5000), abs=2e-7)


def test_record_of_zeros_is_the_constant_alone() -> None:
    features = unit_features(np.zeros((2, 3)), 1.0, (3,))
    assert np.array_equal(features, [[0, 0, 0, 1]] * 2)


def test_no_record_changes_another() -> None:
    records = stream(2, "features").random((4, 6))
    others = records.copy()
    others[1] = math.nan
    first, second = (unit_features(rows, 1.0, (6,)) for rows in (records, others))
    assert np.array_equal(np.delete(first, 1, axis=0), np.delete(second, 1, axis=0))
    assert np.isnan(second[1, :-1]).all()


def test_scale_of_the_values_does_not_matter() -> None:
    records = stream(3, "features").integers(1, 255, (4, 6)).astype(np.uint8)
    assert unit_features(records, 255.0, (6,)) == pytest.approx(unit_features(records, 1.0, (6,)), rel=1e-6)
