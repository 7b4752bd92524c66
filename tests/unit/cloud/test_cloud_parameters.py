"""The flat buffer: exact steps, versions, overflow."""

from __future__ import annotations

import numpy as np
import pytest

from cloud.parameters import BLOCK, Parameters
from common.tensors import Layout, Tensors


def parameters(size: int = 4, value: float = 1.0) -> Parameters:
    layout = Layout.of({"w": (size,)})
    return Parameters(Tensors(layout, np.full(size, value, dtype=np.float32)))


def test_a_step_moves_in_place_and_counts_a_version() -> None:
    model = parameters()
    seen = model.tensors
    assert model.step([np.array([1, 2, 3, 4], dtype=np.float32)], 0.5)
    assert np.array_equal(seen.flat, np.array([0.5, 0.0, -0.5, -1.0], dtype=np.float32))
    assert model.version == 2


def test_several_updates_are_averaged() -> None:
    model = parameters(2)
    model.step([np.array([1, 0], dtype=np.float32), np.array([3, 2], dtype=np.float32)], 1.0)
    assert np.array_equal(model.flat, np.array([-1.0, 0.0], dtype=np.float32))


@pytest.mark.parametrize("size", [1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7])
def test_blocks_do_not_show(size: int) -> None:
    rng = np.random.default_rng(size)
    start, update = rng.normal(size=(2, size)).astype(np.float32)
    model = Parameters(Tensors(Layout.of({"w": (size,)}), start))
    model.step([update], 0.25)
    assert np.array_equal(model.flat, start - np.float32(0.25) * update)


def test_the_start_is_copied() -> None:
    start = Tensors(Layout.of({"w": (2,)}), np.ones(2, dtype=np.float32))
    Parameters(start).step([np.ones(2, dtype=np.float32)], 1.0)
    assert np.array_equal(start.flat, np.ones(2, dtype=np.float32))


@pytest.mark.parametrize("place", [0, BLOCK + 5])
def test_overflow_is_told(place: int) -> None:
    model = parameters(BLOCK + 10)
    update = np.zeros(BLOCK + 10, dtype=np.float32)
    update[place] = 3e38
    assert not model.step([update], 10.0)


def test_nobody_else_can_write() -> None:
    with pytest.raises(ValueError, match="read-only"):
        parameters().tensors.flat[0] = 1.0


def test_restoring_is_a_change() -> None:
    model = parameters()
    model.restore(np.zeros(4, dtype=np.float32))
    assert model.version == 2
    assert not model.flat.any()
