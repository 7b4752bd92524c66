"""Unit features of a linear model: each record on the unit sphere, by itself.

A record is divided by its own l2 norm, gets the constant 0.3 appended (the bias), and is divided again. No other
record is used, so this costs no privacy; and a norm of 1 makes the loss's own bound the bound of the gradient.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from common.errors import DataError

BIAS = 0.3
_ROWS = 4096  # records at a time: the float64 copies of a large set would not fit in memory


def unit_features(inputs: NDArray[np.generic], scale: float, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """[n, features + 1] rows of norm 1; a record of zeros becomes (0, ..., 0, 1), one that is not finite stays so.

    Raises:
        DataError: records of another shape, or a scale that is not positive.
    """
    check_records(inputs, scale, shape)
    width = math.prod(shape)
    flat = inputs.reshape(len(inputs), width)
    result = np.empty((len(flat), width + 1), dtype=np.float32)
    length = math.hypot(1.0, BIAS)
    with np.errstate(all="ignore"):
        for start in range(0, len(flat), _ROWS):
            rows = flat[start : start + _ROWS].astype(np.float64) / scale
            norms = np.sqrt(np.square(rows).sum(axis=1))
            zero = norms == 0
            last = np.where(zero, 1.0, BIAS / length)
            result[start : start + _ROWS, :-1] = rows / np.where(zero, 1.0, norms * length)[:, None]
            result[start : start + _ROWS, -1] = last
    return result


def check_records(inputs: NDArray[np.generic], scale: float, shape: tuple[int, ...]) -> None:
    """Refuses records that are not [n, *shape], and a scale that is not finite and positive."""
    if inputs.shape[1:] != shape:
        raise DataError(f"records: shape {inputs.shape}: expected [n, {', '.join(map(str, shape))}]")
    if not (math.isfinite(scale) and scale > 0):
        raise DataError(f"scale of the records: {scale}: expected finite and positive")
