"""Reads arrays of bytes in the IDX format of MNIST's family.

Source: Y. LeCun, C. Cortes, C. Burges, the MNIST database: two zero bytes, the type (8: unsigned byte), the number of
axes, the length of each axis as four bytes (the highest first), then the values, the last axis fastest.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from common.errors import DataError

BYTES = 8


def read_idx(path: Path) -> NDArray[np.uint8]:
    """The values, mapped from the file: read when they are used, and in memory once for all processes of a host.

    Raises:
        DataError: no such file, no IDX file of bytes, or one of another length than it says.
    """
    try:
        with path.open("rb") as file:
            start = file.read(4)
            if start[:3] != bytes([0, 0, BYTES]) or len(start) < 4:
                raise DataError(f"{path}: starts with {start.hex(' ')}: expected 00 00 08, an IDX file of bytes")
            shape = tuple(int.from_bytes(file.read(4), "big") for _ in range(start[3]))
        offset, size = 4 + 4 * len(shape), path.stat().st_size
        expected = offset + math.prod(shape)
        if size != expected:
            announced = " x ".join(map(str, shape))
            raise DataError(f"{path}: {size} bytes: expected {expected}, as it announces {announced} values")
        return np.asarray(np.memmap(path, dtype=np.uint8, mode="r", offset=offset, shape=shape))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: {error}: expected a readable IDX file") from error
