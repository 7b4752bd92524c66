"""Matrix products in which a row's result is its own affair, to the last bit.

A matrix library may round the same row differently in batches of different sizes, or at another place in a batch, and
then taking one record out changes what the others say. So rows go through products of one shape: blocks of 16, the
last one filled up with zeros. `tests/unit/models/test_alone.py` compares bit by bit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_ROWS = 16  # of one product

Matrix = NDArray[np.float32]


def product(rows: Matrix, matrix: Matrix) -> Matrix:
    """[n, outputs]: `rows` [n, width] times `matrix` [width, outputs]; rows that are not finite stay so.

    NumPy may warn of these, which is the caller's to silence.
    """
    count, width = rows.shape
    whole = count - count % _ROWS
    if whole == count:
        return (rows.reshape(-1, _ROWS, width) @ matrix).reshape(count, matrix.shape[1])
    block = np.zeros((_ROWS, width), dtype=np.float32)
    block[: count - whole] = rows[whole:]
    rest: Matrix = (block @ matrix)[: count - whole]
    if whole == 0:
        return rest
    return np.concatenate([product(rows[:whole], matrix), rest])
