"""npz: one's own data, in one .npz file that `data.root` names.

| array | type | shape |
|---|---|---|
| x_train, x_test | uint8 (0..255) or a float type | [n, features], [n, height, width] or [n, channels, height, width] |
| y_train, y_test | an integer type | [n], labels 0..classes-1 |
| classes (optional) | an integer type | [], how many labels there are; without it, the largest of y_train plus one |
| writer_train (optional) | integers or text | [n], who made each training record |

Float images must lie in 0..1; float features keep their range but must be finite. Pickled arrays are refused.
Where every edge has a file of its own, see `own`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.data.archive import Header, read_array, read_headers
from common.data.dataset import DataSpec, Records
from common.errors import DataError
from common.experiment import Data

BRIGHTEST = 255.0
REQUIRED = ("x_train", "y_train", "x_test", "y_test")


class Npz:
    """A data set that a person brings along."""

    def describe(self, data: Data) -> DataSpec:
        """Shape and classes from the file's headers (and from the labels, if it has no `classes`)."""
        path = _path(data)
        shape = _check_headers(path, read_headers(path))
        return DataSpec(shape, _classes(path))

    def train(self, data: Data) -> Records:
        """x_train, y_train and, where it is there, writer_train."""
        path = _path(data)
        headers = read_headers(path)
        _check_headers(path, headers)
        writers = read_array(path, "writer_train") if "writer_train" in headers else None
        return read_part(path, "train", _classes(path), writers)

    def test(self, data: Data) -> Records:
        """x_test and y_test."""
        path = _path(data)
        _check_headers(path, read_headers(path))
        return read_part(path, "test", _classes(path))


def _path(data: Data) -> Path:
    if data.root is None:
        raise DataError("data.root: None: expected the .npz file that holds your data; set data.root")
    path = Path(data.root).expanduser()
    if not path.is_file():
        found = "a folder" if path.is_dir() else "not there"
        own = "; with a file of its own for each edge, set data.partition.kind: own" if path.is_dir() else ""
        raise DataError(f"data.root: {path}: {found}: expected a .npz file with {', '.join(REQUIRED)}{own}")
    return path


def _check_headers(path: Path, headers: dict[str, Header]) -> tuple[int, ...]:
    """Refuses arrays that cannot fit each other; returns the shape of one record."""
    missing = [name for name in REQUIRED if name not in headers]
    if missing:
        raise DataError(f"{path}: {', '.join(missing)}: missing: expected arrays {', '.join(REQUIRED)}")
    shape, _ = (check_part(path, headers, part) for part in ("train", "test"))
    train, test = headers["x_train"], headers["x_test"]
    if (train.shape[1:], train.dtype) != (test.shape[1:], test.dtype):
        raise DataError(
            f"{path}: x_test: {test.dtype} {test.shape}: expected {train.dtype} (n, "
            f"{', '.join(map(str, train.shape[1:]))}) as in x_train"
        )
    writers = headers.get("writer_train")
    if writers is not None and (writers.dtype.kind not in "iuU" or writers.shape != train.shape[:1]):
        raise DataError(
            f"{path}: writer_train: {writers.dtype} {writers.shape}: expected integers or text, ({train.shape[0]},)"
        )
    check_classes(path, headers)
    return shape


def check_classes(path: Path, headers: dict[str, Header]) -> None:
    """Refuses a number of classes, if there is one, that is no number."""
    counted = headers.get("classes")
    if counted is not None and (counted.dtype.kind not in "iu" or counted.shape != ()):
        raise DataError(f"{path}: classes: {counted.dtype} {counted.shape}: expected one integer, shape ()")


def check_part(path: Path, headers: dict[str, Header], part: str) -> tuple[int, ...]:
    """Refuses inputs and labels of `part` (train or test) that cannot be; returns the shape of one record."""
    inputs, labels = headers[f"x_{part}"], headers[f"y_{part}"]
    if inputs.dtype != np.uint8 and inputs.dtype.kind != "f":
        raise DataError(f"{path}: x_{part}: {inputs.dtype}: expected uint8 or a float type")
    if len(inputs.shape) not in (2, 3, 4) or 0 in inputs.shape:
        raise DataError(
            f"{path}: x_{part}: {inputs.shape}: expected (n, features), (n, height, width) or "
            "(n, channels, height, width), none of them 0"
        )
    if labels.dtype.kind not in "iu" or labels.shape != inputs.shape[:1]:
        raise DataError(f"{path}: y_{part}: {labels.dtype} {labels.shape}: expected integers, ({inputs.shape[0]},)")
    return (1, *inputs.shape[1:]) if len(inputs.shape) == 3 else inputs.shape[1:]


def _classes(path: Path) -> int:
    if "classes" in read_headers(path):
        return read_classes(path)
    return _enough(path, "y_train", int(read_array(path, "y_train").max()) + 1)


def read_classes(path: Path) -> int:
    """The number of classes that the file tells."""
    return _enough(path, "classes", int(read_array(path, "classes")))


def _enough(path: Path, name: str, classes: int) -> int:
    if classes < 2:
        raise DataError(f"{path}: {name}: {classes} classes: expected at least 2")
    return classes


def scale_of(dtype: np.dtype[Any]) -> float:
    """What inputs of this type are divided by."""
    return BRIGHTEST if dtype == np.uint8 else 1.0


def read_part(path: Path, part: str, classes: int, writers: NDArray[Any] | None = None) -> Records:
    """Inputs and labels of `part` (train or test), whose headers are in order."""
    labels = read_array(path, f"y_{part}")
    strange = labels[(labels < 0) | (labels >= classes)]
    if strange.size:
        raise DataError(f"{path}: y_{part}: {strange[0]}: expected labels 0..{classes - 1}")
    stored = read_array(path, f"x_{part}")
    images = stored.ndim > 2
    if images and stored.ndim == 3:
        stored = stored[:, np.newaxis]
    inputs = stored if stored.dtype == np.uint8 else _floats(path, part, stored, images)
    return Records(np.ascontiguousarray(inputs), labels.astype(np.int64), classes, scale_of(stored.dtype), writers)


def _floats(path: Path, part: str, stored: NDArray[Any], images: bool) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # what float32 cannot hold is reported below, by name
        inputs = stored.astype(np.float32)
    if not np.isfinite(inputs).all():
        count = int((~np.isfinite(inputs)).sum())
        raise DataError(f"{path}: x_{part}: {count} values are not finite: expected finite float32 numbers")
    if images and (inputs.min() < 0 or inputs.max() > 1):
        raise DataError(f"{path}: x_{part}: {inputs.min()}..{inputs.max()}: expected float images in 0..1")
    return inputs
