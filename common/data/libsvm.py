"""Reads packed text files in the format of LIBSVM, in which every line has every feature.

A line is a record: `<label> 1:<value> 2:<value> ...` (C.-C. Chang, C.-J. Lin, LIBSVM: a library for support vector
machines). Of the data sets here, USPS comes in it. NumPy reads one in a second, and without torchvision, whose import
takes longer than that.
"""

from __future__ import annotations

import bz2
import warnings
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from common.errors import DataError

Pair = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Values [n, features] and labels [n], read-only."""


def read_libsvm(path: Path, features: int) -> Pair:
    """Values and labels as they stand in the file.

    The last ones read stay in memory for as long as the file is not changed: a process that makes many runs, as those
    of a sweep do, reads it once.

    Raises:
        DataError: no such file, a damaged one, or one of another format.
    """
    try:
        state = path.stat()
        return _read(path, features, (state.st_size, state.st_mtime_ns, state.st_ino))
    except (OSError, EOFError, ValueError) as error:
        raise DataError(f"{path}: {error}: expected a whole bz2 file of LIBSVM's lines") from error


@lru_cache(maxsize=2)  # the two files of a set
def _read(path: Path, features: int, _state: tuple[int, ...]) -> Pair:
    with bz2.open(path) as file:
        text = file.read()
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # which is how NumPy says that something is no number
        numbers = np.fromstring(text.replace(b":", b" "), dtype=np.float64, sep=" ")
    width = 1 + 2 * features
    if len(numbers) == 0 or len(numbers) % width:
        raise DataError(f"{path}: {len(numbers)} numbers: expected lines of {width}, a label and {features} features")
    table = numbers.reshape(-1, width)
    if not np.array_equal(table[:, 1::2], np.broadcast_to(np.arange(1.0, features + 1), (len(table), features))):
        raise DataError(f"{path}: expected in every line the features 1 to {features}, in this order")
    values, labels = table[:, 2::2].copy(), table[:, 0].copy()
    values.flags.writeable = labels.flags.writeable = False
    return values, labels
