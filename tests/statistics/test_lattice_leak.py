"""The last bits of a release do not give the input away; without the lattice they do (the control)."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from common.privacy import lattice
from common.privacy.laplace import SphericalLaplace
from common.seeds import stream

RUNS = 4000


def noises(name: str) -> NDArray[np.float64]:
    rng = stream(23, name)
    noise = SphericalLaplace(1.0)
    return np.concatenate([noise.draw(1, 1.0, rng) for _ in range(RUNS)])


def on_grid(values: NDArray[np.floating], grid: float) -> float:
    """Share of the values in (-1/2, 1/2) that are multiples of `grid`."""
    near = values[np.abs(values) < 0.5].astype(np.float64)
    assert near.size > 500
    return float((np.rint(near / grid) == near / grid).mean())


def test_plain_float32_noise_gives_the_input_away() -> None:
    """Control. Near zero, 1 + noise keeps the grid of floats near one; 0 + noise has a finer one."""
    noise = noises("plain").astype(np.float32)
    assert on_grid(np.float32(0) + noise, 2.0**-24) < 0.5
    assert on_grid(np.float32(1) + noise, 2.0**-24) == 1.0


def test_plain_float64_noise_gives_the_input_away() -> None:
    """Control."""
    noise = noises("plain")
    assert on_grid(0.0 + noise, 2.0**-53) < 0.5
    assert on_grid(1.0 + noise, 2.0**-53) == 1.0


@pytest.mark.parametrize("value", [0.0, 1.0, 1 / 3, -1e-9])
def test_on_the_lattice_every_input_gives_the_same_grid(value: float) -> None:
    grid = lattice.grid_below(1.0)
    released = lattice.add(np.full(RUNS, value), noises("lattice") / grid, grid)
    assert on_grid(released, grid) == 1.0
    assert on_grid(released, 2 * grid) < 0.6  # all of it is used, not some coarser grid
