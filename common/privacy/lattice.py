"""Rounds a noisy vector to a grid, so that its last bits cannot give the data away.

Floating-point noise added to x lies on other floats than the same noise added to x', and one output can tell
them apart (Mironov 2012). Here the vector and the noise are both rounded to multiples of one power of two first:

    y = grid * (rint(x / grid) + rint(noise / grid))

which equals rounding (x on the grid + ideal noise), a post-processing of the mechanism. Two inputs a distance s
apart are at most s + grid * sqrt(d) apart on the grid, so the noise is calibrated to that. All in float64.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from common.errors import SensitivityError

FINENESS = 30
"""The grid is 2^-30 of the noise scale (or less, down to half of it)."""

_EXACT = 2.0**52  # integers up to here are exact in float64, and so are their sums


def grid_below(scale: float) -> float:
    """The largest power of two that is at most scale * 2^-30."""
    _, exponent = math.frexp(scale)
    return math.ldexp(1.0, exponent - 1 - FINENESS)


def inflated(sensitivity: float, grid: float, dimension: int) -> float:
    """How far two vectors [d] can be apart on the grid, if off it they are at most `sensitivity` apart."""
    return sensitivity + grid * math.sqrt(dimension)


def add(vector: NDArray[np.float64], noise: NDArray[np.float64], grid: float) -> NDArray[np.float64]:
    """The sum [d] of both, each rounded to the grid; `noise` is consumed (used as scratch space).

    Raises:
        SensitivityError: a coordinate is not finite, or too large for the grid to be exact.
    """
    steps = vector / grid
    np.rint(steps, out=steps)
    noise /= grid
    np.rint(noise, out=noise)
    steps += noise
    if not (steps.max(initial=0.0) < _EXACT and steps.min(initial=0.0) > -_EXACT):
        raise SensitivityError(f"noisy vector: beyond {_EXACT * grid:g} or not finite: expected within the lattice")
    steps *= grid
    return steps
