"""What every data set gives: its shape, and records that nobody can change."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from common.experiment import Data


@dataclass(frozen=True)
class DataSpec:
    """What a model must know of a data set before it sees a record."""

    shape: tuple[int, ...]
    """One record: (channels, height, width) for images, (features,) otherwise."""
    classes: int

    def halved(self) -> DataSpec:
        """The same records with two classes."""
        return DataSpec(self.shape, 2)


@dataclass(frozen=True, eq=False)
class Records:
    """Inputs and labels in a fixed order; the arrays are handed out read-only.

    Attributes:
        inputs: uint8 or float32 [n, *shape].
        labels: [n], each in 0..classes-1.
        classes: How many labels there can be (not how many occur).
        scale: inputs / scale lies in 0..1 for images; 1.0 for features, which keep their own range.
        writers: [n], who made each record; None where nobody knows.
    """

    inputs: NDArray[Any] = field(repr=False)
    labels: NDArray[np.int64] = field(repr=False)
    classes: int
    scale: float
    writers: NDArray[Any] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        lengths = [len(array) for array in (self.inputs, self.labels, self.writers) if array is not None]
        if len(set(lengths)) != 1:
            raise ValueError(f"lengths of inputs, labels, writers: {lengths}: expected the same length")
        for name in ("inputs", "labels", "writers"):
            array = getattr(self, name)
            if array is not None:
                view = array.view()
                view.flags.writeable = False
                object.__setattr__(self, name, view)

    def __len__(self) -> int:
        return len(self.labels)

    def part(self, indices: NDArray[np.int64]) -> Records:
        """A copy of these records [m]."""
        writers = None if self.writers is None else self.writers[indices]
        return Records(self.inputs[indices], self.labels[indices], self.classes, self.scale, writers)

    def halved(self) -> Records:
        """The same records, labelled 0 (lower half of the classes) or 1 (upper half).

        With an odd number of classes the lower half is the larger one.
        """
        upper = self.labels >= (self.classes + 1) // 2
        return Records(self.inputs, upper.astype(np.int64), 2, self.scale, self.writers)


class DataSet(Protocol):
    """One entry of the table of data sets; `data` tells it where to look."""

    def describe(self, data: Data) -> DataSpec:
        """Shape and classes, without reading the records; DataError if what it needs is not there."""

    def train(self, data: Data) -> Records:
        """The training records; DataError if they are missing or damaged."""

    def test(self, data: Data) -> Records:
        """The public test records; DataError if they are missing or damaged."""
