"""Inputs of a network: raw records once per shard, and one batch of them as float32.

Pictures of one byte per value stay bytes in memory, a quarter of the size, when their scale is 255; everything
else is divided by its scale once. So uint8 rows always mean value / 255.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from common.models.features import check_records
from common.models.spec import Inputs

_BYTE = np.float32(1 / 255)


def framed(inputs: NDArray[np.generic], scale: float, shape: tuple[int, ...], frame: tuple[int, ...]) -> Inputs:
    """[n, *frame] records of `shape`, scaled, with zeros around those smaller than the frame.

    Raises:
        DataError: records of another shape, or a scale that is not positive.
    """
    check_records(inputs, scale, shape)
    values: Inputs
    if inputs.dtype == np.uint8 and scale == 255:
        values = inputs.astype(np.uint8, copy=False)
    else:
        values = inputs.astype(np.float32) / np.float32(scale)
    if frame == shape:
        return values
    # an odd row or column goes to the end
    gaps = [wide - narrow for narrow, wide in zip(shape, frame, strict=True)]
    return np.pad(values, [(0, 0), *((gap // 2, gap - gap // 2) for gap in gaps)])


def batch_values(inputs: Inputs) -> NDArray[np.float32]:
    """[batch, *frame] rows of `framed` as float32, in an array that may be written to."""
    if inputs.dtype == np.uint8:
        return np.multiply(inputs, _BYTE, dtype=np.float32)
    return np.array(inputs, dtype=np.float32, order="C")
