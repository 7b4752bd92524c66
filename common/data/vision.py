"""Image sets that torchvision knows: it fetches them, this module locks, checks and names, and reads most.

torchvision (and with it torch) costs seconds and hundreds of megabytes in every process, so it is imported only to
fetch what is missing, and to read CIFAR-10; the files of all other sets need no more than NumPy. Downloads are
checked by the checksums torchvision knows; what a person put into the folder is checked by size where the format
fixes it, by checksum where torchvision does (CIFAR-10), and always by number, shape, type and label range.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.data.archive import read_array
from common.data.dataset import DataSpec, Records
from common.data.reservation import reserved
from common.errors import DataError
from common.experiment import Data

Arrays = tuple[NDArray[Any], NDArray[Any]]
"""Images and labels as stored."""
BRIGHTEST = 255.0
ABSENT = ": not there"
FAILURES = (
    OSError,
    EOFError,
    RuntimeError,
    ValueError,
    LookupError,
    TypeError,
    AssertionError,
    zlib.error,
    HTTPException,
)
"""What torchvision raises for missing, damaged or unreachable files."""


@dataclass(frozen=True)
class StoredFile:
    """A file of the set: its path below the root and, where the format fixes it, its size in bytes."""

    path: str
    size: int | None = None

    def fault(self, root: Path) -> str | None:
        """What is wrong with it, or None."""
        path = root / self.path
        if not path.is_file():
            return f"{path}{ABSENT}"
        size = path.stat().st_size
        if self.size is not None and size != self.size:
            return f"{path}: {size} bytes: expected {self.size}"
        return None


@dataclass(frozen=True)
class ImageSet:
    """One data set of torchvision.

    Attributes:
        name: Its name in an experiment file.
        kind: Its class in torchvision.datasets.
        spec: Shape (channels, height, width) and classes.
        sizes: Number of training and of test records.
        stored: The files as torchvision lays them out below the root.
        arrange: Brings the stored array into [n, channels, height, width].
        read: Gives images and labels from the files of one part (of `stored` the first half is for training, the
            second for the test); None: torchvision reads them.
        options: Further arguments of the torchvision class.
        writers: Array of `writers.npz` with the writer of each training record, if such a file exists at all.
    """

    name: str
    kind: str
    spec: DataSpec
    sizes: tuple[int, int]
    stored: tuple[StoredFile, ...]
    arrange: Callable[[NDArray[Any]], NDArray[Any]]
    read: Callable[[Sequence[Path]], Arrays] | None = None
    options: dict[str, str] = field(default_factory=dict)
    writers: str | None = None

    def describe(self, data: Data) -> DataSpec:
        """Shape and classes from the table; the files must be there unless they may be downloaded."""
        self._folder(data)
        return self.spec

    def train(self, data: Data) -> Records:
        """The training records, with their writers where `writers.npz` is there."""
        return self._read(data, train=True)

    def test(self, data: Data) -> Records:
        """The test records."""
        return self._read(data, train=False)

    def _folder(self, data: Data) -> Path:
        """The root folder, checked as far as that is cheap."""
        if data.root is None:
            raise DataError(
                f"data.root: None: expected the folder of {self.name} (with {self.stored[0].path} in it); set "
                "data.root, and data.download: true to have it filled"
            )
        root = Path(data.root).expanduser()
        if data.download:
            return root
        if not root.is_dir():
            raise DataError(
                f"data.root: {root}: no such folder: expected the folder of {self.name}; correct data.root, or set "
                "data.download: true"
            )
        faults = self._faults(root)
        if faults:
            raise DataError(
                f"{self.name}: {_listed(faults)}: put the files there (see docs/data.md), or remove what is damaged "
                "and set data.download: true"
            )
        return root

    def _faults(self, root: Path) -> list[str]:
        return [fault for fault in (file.fault(root) for file in self.stored) if fault is not None]

    def _read(self, data: Data, *, train: bool) -> Records:
        root = self._folder(data)
        images, labels = self._arrays(data, root, train) if self.read is None else self._own(data, root, train)
        images, labels = self.arrange(images), labels.astype(np.int64)
        self._check(root, images, labels, self.sizes[0 if train else 1])
        writers = self._writers(root, len(labels)) if train else None
        return Records(images, labels, self.spec.classes, BRIGHTEST, writers)

    def _own(self, data: Data, root: Path, train: bool) -> Arrays:
        """Images and labels as `read` gives them; torchvision is asked only if files are missing and may be fetched."""
        assert self.read is not None
        if data.download and self._faults(root):
            self._fetched(root, train)
        half = len(self.stored) // 2
        return self.read([root / file.path for file in (self.stored[:half] if train else self.stored[half:])])

    def _arrays(self, data: Data, root: Path, train: bool) -> Arrays:
        """Images and labels as torchvision reads them."""
        if data.download and (self._faults(root) or os.access(root, os.W_OK)):
            opened = self._fetched(root, train)
        else:  # a complete folder may be read-only: there is nothing to fetch and no place for a lock
            opened = self._open(root, train=train, download=False)
        return np.asarray(opened.data), np.asarray(opened.targets)

    def _fetched(self, root: Path, train: bool) -> Any:
        with reserved(root, self.name):
            return self._open(root, train=train, download=True)

    def _open(self, root: Path, *, train: bool, download: bool) -> Any:
        """The object of torchvision, or a DataError that names the files at fault."""
        kind = getattr(_torchvision(self.name), self.kind)
        try:
            return kind(str(root), train=train, download=download, **self.options)
        except FAILURES as error:
            damaged = [fault for fault in self._faults(root) if not fault.endswith(ABSENT)]
            damaged += _checksum_faults(kind, root)
            found = _listed(damaged) if damaged else f"{type(error).__name__}: {' '.join(str(error).split())}"
            other = "fetch the files by hand (see docs/data.md)" if download else "set data.download: true"
            raise DataError(f"{self.name} in {root}: {found}: remove what is damaged and {other}") from error

    def _check(self, root: Path, images: NDArray[Any], labels: NDArray[np.int64], count: int) -> None:
        expected = (count, *self.spec.shape)
        if images.shape != expected or images.dtype != np.uint8:
            raise DataError(f"{self.name} in {root}: images: {images.dtype} {images.shape}: expected uint8 {expected}")
        if labels.shape != (count,):
            raise DataError(f"{self.name} in {root}: labels: {labels.shape}: expected ({count},)")
        if labels.min() < 0 or labels.max() >= self.spec.classes:
            raise DataError(
                f"{self.name} in {root}: labels: {labels.min()}..{labels.max()}: expected 0..{self.spec.classes - 1}"
            )

    def _writers(self, root: Path, count: int) -> NDArray[Any] | None:
        """Who wrote each record, from `writers.npz` in the root folder or beside it; None without that file."""
        if self.writers is None:
            return None
        places = [path for path in (root / "writers.npz", root.parent / "writers.npz") if path.is_file()]
        if not places:
            return None
        writers = read_array(places[0], self.writers)
        if writers.shape != (count,) or writers.dtype.kind not in "iuU":
            raise DataError(
                f"{places[0]}: {self.writers}: {writers.dtype} {writers.shape}: expected integers or text, ({count},)"
            )
        return writers


def _torchvision(name: str) -> ModuleType:
    try:
        from torchvision import datasets  # noqa: PLC0415  # seconds and 300 MB, only for who reads images
    except (ImportError, RuntimeError) as error:
        raise DataError(
            f"{name}: torchvision cannot be imported: {error}: expected the build of torchvision that belongs to torch"
        ) from error
    found: ModuleType = datasets
    return found


def _checksum_faults(kind: Any, root: Path) -> list[str]:
    """Files whose MD5 torchvision knows and which are there but different."""
    from torchvision.datasets.utils import calculate_md5  # noqa: PLC0415  # as above

    known = [*getattr(kind, "train_list", ()), *getattr(kind, "test_list", ())]
    if isinstance(getattr(kind, "meta", None), dict):
        known.append((kind.meta["filename"], kind.meta["md5"]))
    paths = [(root / getattr(kind, "base_folder", "") / filename, md5) for filename, md5 in known]
    present = [(path, calculate_md5(path), md5) for path, md5 in paths if path.is_file()]
    return [f"{path}: MD5 {found}: expected {md5}" for path, found, md5 in present if found != md5]


def _listed(faults: list[str]) -> str:
    more = f"; and {len(faults) - 2} more files" if len(faults) > 2 else ""
    return "; ".join(faults[:2]) + more
