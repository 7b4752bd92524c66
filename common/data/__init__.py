"""Data sets and their partition over the edges: describe; load_shard, load_train and load_test; deal and sizes.

A new data set is one file that satisfies `DataSet` and one line in `DATASETS`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from common.data import standard
from common.data.dataset import DataSet, DataSpec, Records
from common.data.digits import Digits
from common.data.npz import Npz
from common.data.own import Own
from common.data.partition import cautions_of, deal
from common.errors import ConfigError, Fault
from common.experiment import Data, edge_ids

__all__ = [
    "DATASETS",
    "DataSet",
    "DataSpec",
    "Records",
    "absent",
    "cautions_of",
    "deal",
    "describe",
    "load_apart",
    "load_shard",
    "load_test",
    "load_train",
    "sizes",
]

DATASETS: Mapping[str, DataSet] = {
    "digits": Digits(),
    "mnist": standard.MNIST,
    "fashion-mnist": standard.FASHION_MNIST,
    "usps": standard.USPS,
    "cifar10": standard.CIFAR10,
    "emnist": standard.EMNIST,
    "npz": Npz(),
}
OWN = Own()
"""What takes the place of `npz` where every edge has a file of its own."""
FEW = 5
"""How many files are named."""


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

    Where every edge has a file of its own, this takes all of them: an edge asks for its own by `load_shard`.

    Raises:
        ConfigError: no data set has this name, or it cannot be apart from the start.
        DataError: files are missing, damaged or cannot be fetched.
    """
    records = _find(data).train(data)
    return records.halved() if data.classes == "halves" else records


def load_test(data: Data) -> Records:
    """All public test records, read-only; raises as `load_train` does."""
    records = _find(data).test(data)
    return records.halved() if data.classes == "halves" else records


def load_shard(data: Data, seed: int, edge: str) -> Records:
    """The training records of one edge of the experiment, read-only.

    Raises:
        ConfigError, DataError: as `load_train` and `deal`; or the edge's own file is not here.
    """
    if _is_own(data):
        records = OWN.shard(data, edge)
        return records.halved() if data.classes == "halves" else records
    whole = load_train(data)
    return whole.part(deal(whole, data, seed)[edge_ids(data.edges).index(edge)])


def load_apart(data: Data, seed: int) -> tuple[Records, dict[str, int]]:
    """All training records, edge after edge, and how many each edge has, by id.

    Raises:
        ConfigError, DataError: as `load_train` and `deal`.
    """
    whole = load_train(data)
    if _is_own(data):
        return whole, OWN.sizes(data)
    shards = deal(whole, data, seed)
    return whole.part(np.concatenate(shards)), dict(zip(edge_ids(data.edges), map(len, shards), strict=True))


def sizes(data: Data, seed: int) -> dict[str, int]:
    """How many records each edge has, by id: of all edges, or of those whose own files are on this host.

    Raises:
        ConfigError, DataError: as `load_train` and `deal`.
    """
    if _is_own(data):
        return OWN.sizes(data)
    return dict(zip(edge_ids(data.edges), map(len, deal(load_train(data), data, seed)), strict=True))


def absent(data: Data) -> str:
    """Which files are not on this host, where every edge (and the cloud) has one of its own; empty if none."""
    names = OWN.absent(data) if _is_own(data) else ()
    return ", ".join(names[:FEW]) + (f" and {len(names) - FEW} more" if len(names) > FEW else "")


def _is_own(data: Data) -> bool:
    return _find(data) is OWN


def _find(data: Data) -> DataSet:
    found = DATASETS.get(data.name)
    if found is None:
        raise ConfigError(Fault("data.name", data.name, f"one of {', '.join(sorted(DATASETS))}"))
    if data.partition.kind != "own":
        return found
    if data.name != "npz":
        expected = f"a kind that deals {data.name} out; own is for data.name: npz, with a file for each edge"
        raise ConfigError(Fault("data.partition.kind", "own", expected))
    return OWN
