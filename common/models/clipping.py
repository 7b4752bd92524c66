"""Per-record clip factors from squared gradient norms.

Guarantee: a gradient times its factor has an l2 norm of at most `clip_norm`, float32 rounding included.

| case | factor |
|---|---|
| norm 0 | 1 (the zero vector stays) |
| norm <= clip_norm (1 - 2^-20) | 1 |
| norm not finite | 0; the caller leaves the record out, since 0 * NaN is not 0 |
| clip_norm 0, negative, infinite or NaN | SensitivityError |
| empty batch | empty |
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from common.errors import SensitivityError

# Clipping in float32 overshoots by about 1e-7; a bound lower by one in a million keeps every case below clip_norm.
MARGIN = 1.0 - 2.0**-20
# What squaring one float32 value can lose by underflow; without it tiny values times huge ones look like zero.
UNDERFLOW = 2.0**-126


def clip_factors(squares: NDArray[np.float64], clip_norm: float) -> NDArray[np.float64]:
    """[batch] what to multiply each gradient with, from its squared norm [batch]."""
    if not (math.isfinite(clip_norm) and clip_norm > 0):
        raise SensitivityError(f"clip_norm: {clip_norm}: expected finite and positive")
    bound = clip_norm * MARGIN
    factors: NDArray[np.float64] = bound / np.maximum(np.sqrt(squares), bound)
    factors[~np.isfinite(squares)] = 0.0
    return factors


def row_squares(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """[batch] the squared norm of each row [batch, n], right to n 2^-52; a product for each row by itself.

    In float64 because a float32 sum is too small by more than `MARGIN` forgives, in which order ever it is made.
    """
    squares: NDArray[np.float64] = np.matmul(rows[:, np.newaxis, :], rows[:, :, np.newaxis])[:, 0, 0]
    return squares
