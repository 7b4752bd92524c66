"""Data sets and their partition over the edges: describe, load_train, load_test, deal.

A new data set is one file that satisfies `DataSet` and one line in `DATASETS`.
"""

from __future__ import annotations

from collections.abc import Mapping

from common.data import standard
from common.data.dataset import DataSet, DataSpec, Records
from common.data.digits import Digits
from common.data.npz import Npz
from common.data.partition import deal
from common.errors import ConfigError, Fault
from common.experiment import Data

__all__ = ["DATASETS", "DataSet", "DataSpec", "Records", "deal", "describe", "load_test", "load_train"]

DATASETS: Mapping[str, DataSet] = {
    "digits": Digits(),
    "mnist": standard.MNIST,
    "fashion-mnist": standard.FASHION_MNIST,
    "usps": standard.USPS,
    "cifar10": standard.CIFAR10,
    "emnist": standard.EMNIST,
    "npz": Npz(),
}


def describe(data: Data) -> DataSpec:
    """Shape and classes of a data set, cheaply: no inputs are read.

    Raises:
        ConfigError: no data set has this name.
        DataError: its folder or file is missing or plainly not what it should be.
    """
    spec = _find(data).describe(data)
    return spec.halved() if data.classes == "halves" else spec


def load_train(data: Data) -> Records:
    """All training records, read-only; downloads them first if `data.download` says so.

    Raises:
        ConfigError: no data set has this name.
        DataError: files are missing, damaged or cannot be fetched.
    """
    records = _find(data).train(data)
    return records.halved() if data.classes == "halves" else records


def load_test(data: Data) -> Records:
    """All public test records, read-only; raises as `load_train` does."""
    records = _find(data).test(data)
    return records.halved() if data.classes == "halves" else records


def _find(data: Data) -> DataSet:
    found = DATASETS.get(data.name)
    if found is None:
        raise ConfigError(Fault("data.name", data.name, f"one of {', '.join(sorted(DATASETS))}"))
    return found
