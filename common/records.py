"""Records: one JSON line per row, appended with one write each.

A process killed at any moment leaves whole lines, at most the last one cut short. Numbers that JSON does not know
(NaN, infinite) become null.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_json

from common.errors import RecordError
from common.node import NodeId, Seconds


class Recorder:
    """Appends rows to one file; every row says run, node, time and kind."""

    def __init__(self, path: Path, run: str, node: NodeId) -> None:
        """Opens `path`, and ends a line that a killed process left open there.

        Raises:
            RecordError: the file cannot be opened for writing.
        """
        self.path = path
        self._stamp = {"run": run, "node": node}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            size = os.fstat(self._file).st_size
            if size and os.pread(self._file, 1, size - 1) != b"\n":
                os.write(self._file, b"\n")
        except OSError as error:
            raise RecordError(f"records: {path}: {error.strerror}: expected a file that can be appended to") from error

    def append(self, kind: str, row: Mapping[str, object], now: Seconds) -> None:
        """Writes one row. `now`: unix seconds.

        Raises:
            RecordError: the row could not be written, as on a full disk.
        """
        data = line_of({**self._stamp, "time": now, "kind": kind, **row})
        try:
            written = os.write(self._file, data)
        except OSError as error:
            raise RecordError(f"records: {self.path}: {error.strerror}: expected room for a row") from error
        if written != len(data):
            raise RecordError(f"records: {self.path}: {written} of {len(data)} bytes: expected room for a row")

    def close(self) -> None:
        """Closes the file; a second call does nothing."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def line_of(content: Mapping[str, object]) -> bytes:
    """A row as it stands in the file, with the end of the line."""
    try:
        return to_json(content, inf_nan_mode="null", fallback=_plain) + b"\n"
    except ValueError:  # text that UTF-8 cannot write, such as half of a surrogate pair
        return json.dumps(_finite(content)).encode("ascii") + b"\n"


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file, in order. A line that a killed process left incomplete is no row.

    Raises:
        RecordError: the file cannot be read.
    """
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                try:
                    row = json.loads(line)
                except ValueError:
                    continue
                if isinstance(row, dict):
                    yield row
    except OSError as error:
        raise RecordError(f"records: {path}: {error.strerror}: expected a readable file") from error


def _plain(value: object) -> object:
    """What JSON makes of a value that it does not know."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if hasattr(value, "tolist"):
        return value.tolist()  # NumPy scalars and arrays
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"{type(value).__name__}: expected something that JSON can hold")


def _finite(value: object) -> object:
    """The same with null in place of every number that is not finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return _finite(_plain(value))
