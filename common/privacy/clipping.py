"""Bounds the l2 norm of vectors.

Symbols: C -> clip_norm.
Source: Abadi et al. 2016 (per-sample clipping); Song et al. 2019 and Wang et al. 2020 (MAPA), Algorithm 1
line 5, clip the average instead, which bounds nothing per record (see `plan`).

| input | result |
|---|---|
| norm 0 | 0 |
| norm at most C | unchanged |
| clip_norm 0, negative, infinite or NaN | SensitivityError |
| a vector with a non-finite entry or norm | 0 |
| no vectors | sum 0 |
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.errors import SensitivityError


def check_clip_norm(clip_norm: float) -> None:
    """Raises SensitivityError unless `clip_norm` is finite and positive."""
    if not (math.isfinite(clip_norm) and clip_norm > 0):
        raise SensitivityError(f"clip_norm: {clip_norm!r}: expected finite and positive")


def clip_each(vectors: NDArray[Any], clip_norm: float) -> NDArray[np.float64]:
    """Every row scaled to a norm of at most `clip_norm`.

    A row whose norm is not finite becomes zero, so that one record can neither stop a release nor move it
    further than the bound. Works in float64, where the bound is overshot by at most 1e-15 of itself.

    Args:
        vectors: [units, d], one row for each privacy unit.
        clip_norm: largest norm of a row.

    Returns:
        [units, d] in float64.

    Raises:
        SensitivityError: `clip_norm` is not finite and positive.
    """
    check_clip_norm(clip_norm)
    rows = np.array(vectors, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        norms = np.sqrt(np.square(rows).sum(axis=1))
    rows[~np.isfinite(norms)] = 0.0
    longer = np.isfinite(norms) & (norms > clip_norm)
    rows[longer] *= (clip_norm / norms[longer])[:, np.newaxis]
    return rows


def clipped_sum(vectors: NDArray[Any], clip_norm: float) -> NDArray[np.float64]:
    """The sum [d] of the rows of `vectors` [units, d], each clipped; one record moves it by at most clip_norm."""
    total: NDArray[np.float64] = clip_each(vectors, clip_norm).sum(axis=0)
    return total


def clip(vector: NDArray[Any], clip_norm: float) -> NDArray[np.float64]:
    """One vector [d], clipped like a row of `clip_each`."""
    clipped: NDArray[np.float64] = clip_each(np.asarray(vector)[np.newaxis, :], clip_norm)[0]
    return clipped
