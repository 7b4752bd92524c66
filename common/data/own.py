"""own: every edge has a file of its own, which only its host needs; nothing is dealt.

`data.root` names a folder (of each host) with

| file | arrays | needed by |
|---|---|---|
| `<edge id>.npz` | x_train, y_train, classes | this edge |
| `test.npz` | x_test, y_test, classes | the cloud |

The arrays are those of `npz`, but `classes` is a must: nobody sees all labels, and all must agree on their number.
Shape of a record, number of classes, and bytes or floats: what a host has of these files must agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from common.data.archive import read_headers
from common.data.dataset import DataSpec, Records
from common.data.npz import check_classes, check_part, read_classes, read_part, scale_of
from common.errors import DataError
from common.experiment import Data, edge_ids

TEST = "test"


@dataclass(frozen=True)
class OwnFile:
    """A file in order. `name`: an edge id, or `test`; `records`: how many it holds."""

    path: Path
    name: str
    records: int
    spec: DataSpec
    scale: float

    def read(self) -> Records:
        """Its records."""
        return read_part(self.path, _part(self.name), self.spec.classes)

    def must_agree(self, other: OwnFile) -> None:
        """DataError unless a model for the one fits the other."""
        for what, own, expected in (
            ("records of shape", self.spec.shape, other.spec.shape),
            ("classes", self.spec.classes, other.spec.classes),
            ("values from 0 to", self.scale, other.scale),
        ):
            if own != expected:
                raise DataError(f"{self.path}: {what} {own}: expected {expected}, as in {other.path.name}")


class Own:
    """A data set whose training records are apart from the start; `shard` and `sizes` are what others deal."""

    def describe(self, data: Data) -> DataSpec:
        """Shape and classes, from the first file that is here (the test's, if it is)."""
        return self._first(data).spec

    def train(self, data: Data) -> Records:
        """All edges' records, one edge after the other, with the number of the edge as writer; needs all files."""
        parts = [self.shard(data, edge) for edge in edge_ids(data.edges)]
        return Records(
            np.concatenate([part.inputs for part in parts]),
            np.concatenate([part.labels for part in parts]),
            parts[0].classes,
            parts[0].scale,
            np.repeat(np.arange(data.edges), [len(part) for part in parts]),
        )

    def test(self, data: Data) -> Records:
        """The records of `test.npz`."""
        return self._open(data, TEST).read()

    def shard(self, data: Data, edge: str) -> Records:
        """The records of this edge; DataError if its file is not here, or damaged, or does not agree with others."""
        return self._open(data, edge).read()

    def sizes(self, data: Data) -> dict[str, int]:
        """How many records each edge has whose file is here, from the headers."""
        folder, first, found = _folder(data), self._first(data), {}
        for edge in edge_ids(data.edges):
            if _path(folder, edge).is_file():
                opened = _opened(folder, edge)
                opened.must_agree(first)
                found[edge] = opened.records
        return found

    def absent(self, data: Data) -> tuple[str, ...]:
        """Names of the files that are not on this host."""
        folder = _folder(data)
        return tuple(f"{name}.npz" for name in _names(data) if not _path(folder, name).is_file())

    def _open(self, data: Data, name: str) -> OwnFile:
        opened = _opened(_folder(data), name)
        opened.must_agree(self._first(data))
        return opened

    def _first(self, data: Data) -> OwnFile:
        folder = _folder(data)
        for name in _names(data):
            if _path(folder, name).is_file():
                return _opened(folder, name)
        ids = edge_ids(data.edges)
        raise DataError(f"data.root: {folder}: no file of an edge: expected {ids[0]}.npz to {ids[-1]}.npz or test.npz")


def _names(data: Data) -> Iterator[str]:
    yield TEST
    yield from edge_ids(data.edges)


def _part(name: str) -> str:
    return "test" if name == TEST else "train"


def _path(folder: Path, name: str) -> Path:
    return folder / f"{name}.npz"


def _folder(data: Data) -> Path:
    wanted = "a folder with <edge id>.npz for each edge of this host (and test.npz for the cloud)"
    if data.root is None:
        raise DataError(f"data.root: None: expected {wanted}; set data.root")
    folder = Path(data.root).expanduser()
    if not folder.is_dir():
        found = "a file, which another data.partition.kind would deal out" if folder.is_file() else "not there"
        raise DataError(f"data.root: {folder}: {found}: expected {wanted}")
    return folder


def _opened(folder: Path, name: str) -> OwnFile:
    path, part = _path(folder, name), _part(name)
    wanted = [f"x_{part}", f"y_{part}", "classes"]
    if not path.is_file():
        whose = "the cloud's test records" if name == TEST else f"the records of {name}"
        raise DataError(f"{path}: not there: expected {whose}, in arrays {', '.join(wanted)}")
    headers = read_headers(path)
    missing = [array for array in wanted if array not in headers]
    if missing:
        raise DataError(f"{path}: {', '.join(missing)}: missing: expected arrays {', '.join(wanted)}")
    shape = check_part(path, headers, part)
    check_classes(path, headers)
    inputs = headers[f"x_{part}"]
    return OwnFile(path, name, inputs.shape[0], DataSpec(shape, read_classes(path)), scale_of(inputs.dtype))
