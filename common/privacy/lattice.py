"""Rounds a noisy vector to a grid, so that its last bits cannot give the data away.

Floating-point noise added to x lies on other floats than the same noise added to x', and one output can tell
them apart (Mironov 2012). Here the vector and the noise are both rounded to multiples of one power of two first:

    y = grid * (rint(x / grid) + rint(noise / grid))

which equals rounding (x on the grid + ideal noise), a post-processing of the mechanism. Two inputs a distance s
apart are at most s + grid * sqrt(d) apart on the grid, so the noise is calibrated to that. All in float64, whose own
rounding before the grid the noise pays for as well (`rounding_apart`).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from common.errors import SensitivityError

FINENESS = 30
"""The grid is 2^-30 of the noise scale (or less, down to half of it)."""

_EXACT = 2.0**52  # integers up to here are exact in float64, and so are their sums
_ROOM = 51  # binary digits for the vector: as much again is left for the noise
_ROUNDOFF = 2.0**-53  # of float64


def grid_below(scale: float, longest: float = 0.0) -> float:
    """The largest power of two that is at most scale * 2^-30, unless vectors of length `longest` need a coarser one.

    These have to fit the integers that are exact, with room for the noise; whether they do must not depend on data.
    So `longest` is a public bound, which only matters where there is next to no noise.
    """
    _, exponent = math.frexp(scale)
    _, most = math.frexp(longest)
    return math.ldexp(1.0, exponent - 1 - FINENESS if longest <= 0 else max(exponent - 1 - FINENESS, most - _ROOM))


def inflated(sensitivity: float, grid: float, dimension: int) -> float:
    """How far two vectors [d] can be apart on the grid, if off it they are at most `sensitivity` apart."""
    return sensitivity + grid * math.sqrt(dimension)


def rounding_apart(count: int) -> float:
    """How far apart rounding puts two averages of `count` vectors, as a share of the largest norm over the divisor.

    Adding n numbers that are products, in any order, and multiplying by a rounded reciprocal puts each through at most
    n + 2 roundings and the result off by at most gamma times the sum of their sizes, with
    gamma = (n+2) u / (1 - (n+2) u) and u = 2^-53 (Higham, Accuracy and Stability of Numerical Algorithms, 2002,
    section 3.1). Over all coordinates of n vectors of norm C that is gamma n C, and two averages are compared.
    """
    roundings = (count + 2) * _ROUNDOFF
    return 2 * count * roundings / (1 - roundings)


def add(vector: NDArray[np.float64], steps: NDArray[np.float64], grid: float) -> NDArray[np.float64]:
    """The sum [d] of the vector and of noise given in `steps` of the grid, each rounded to the grid.

    The grid is a power of two, so noise drawn at scale/grid is, bit for bit, noise drawn at `scale` and divided by it.
    `steps` is consumed: it becomes the result.

    Raises:
        SensitivityError: the sum is not finite, or too long for the grid to be exact.
    """
    np.rint(steps, out=steps)
    whole = vector * (1.0 / grid)
    np.rint(whole, out=whole)
    steps += whole
    if not float(steps.dot(steps)) < _EXACT**2:  # no coordinate is larger than the length
        raise SensitivityError(f"noisy vector: beyond {_EXACT * grid:g} or not finite: expected within the lattice")
    steps *= grid
    return steps
