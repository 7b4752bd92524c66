"""Reads arrays from an .npz archive: no pickle, headers first, and every failure names the file.

A .npz file is a zip archive with one `<name>.npy` for each array.
"""

from __future__ import annotations

import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.errors import DataError

DAMAGE = (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error, RuntimeError)


@dataclass(frozen=True)
class Header:
    """Shape and type of a stored array."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def read_headers(path: Path) -> dict[str, Header]:
    """Name, shape and type of every array, without reading any values.

    Raises:
        DataError: no such file, no .npz archive, or an array that only pickle could read.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file: expected a .npz archive")
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.endswith(".npy")]
            headers = {name.removesuffix(".npy"): _read_header(archive, name) for name in names}
    except DAMAGE as error:
        raise DataError(f"{path}: {error}: expected an undamaged .npz archive") from error
    for name, header in headers.items():
        if header.dtype.hasobject:
            raise DataError(f"{path}: {name}: {header.dtype}: expected numbers or text, not Python objects")
    return headers


def _read_header(archive: zipfile.ZipFile, name: str) -> Header:
    with archive.open(name) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
    return Header(shape, dtype)


def read_array(path: Path, name: str) -> NDArray[Any]:
    """The values of one array.

    Raises:
        DataError: no such file or array, or a damaged one.
    """
    headers = read_headers(path)
    if name not in headers:
        raise DataError(f"{path}: holds {', '.join(sorted(headers)) or 'no arrays'}: expected an array {name!r}")
    try:
        with np.load(path, allow_pickle=False) as archive:
            array: NDArray[Any] = archive[name]
    except DAMAGE as error:
        raise DataError(f"{path}: {name}: {error}: expected an undamaged array") from error
    return array
