"""digits: 1,797 handwritten digits of 8x8 pixels, shipped in this package.

Source: E. Alpaydin, C. Kaynak (1998), Optical Recognition of Handwritten Digits, UCI Machine Learning
Repository, doi:10.24432/C50P49, licensed CC BY 4.0; the UCI test part as scikit-learn distributes it, split
80/20 by class. Pixels are 0..16. Nobody recorded which writer wrote which digit.

`data.root` and `data.download` mean nothing here: there is nothing to look for.
"""

from __future__ import annotations

from importlib.resources import as_file, files

import numpy as np

from common.data.archive import read_array
from common.data.dataset import DataSpec, Records
from common.experiment import Data

SPEC = DataSpec(shape=(1, 8, 8), classes=10)
BRIGHTEST = 16.0


class Digits:
    """The data set that needs neither a folder nor a network."""

    def describe(self, data: Data) -> DataSpec:
        """One grey image of 8x8, 10 classes."""
        return SPEC

    def train(self, data: Data) -> Records:
        """1,437 records."""
        return _read("train")

    def test(self, data: Data) -> Records:
        """360 records."""
        return _read("test")


def _read(part: str) -> Records:
    with as_file(files("common.data") / "digits.npz") as path:
        images, labels = read_array(path, f"x_{part}"), read_array(path, f"y_{part}")
    return Records(images[:, np.newaxis], labels.astype(np.int64), SPEC.classes, BRIGHTEST)
