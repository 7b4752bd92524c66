"""Deals the training records out to the edges.

Each rule names an owner for every record, so shards never overlap and together are all records.

Sources:
    shards: H. B. McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized
        Data", AISTATS 2017, section 3.
    dirichlet: M. Yurochkin et al., "Bayesian Nonparametric Federated Learning of Neural Networks",
        ICML 2019, section 4: for each class, shares of the edges drawn from Dirichlet(alpha, ..., alpha).

Symbols: K -> edges, n -> records, p -> shares.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from common.data.dataset import Records
from common.errors import ConfigError, DataError, Fault
from common.experiment import Data, edge_ids
from common.seeds import stream

TRIES = 100
"""How often a Dirichlet deal is drawn again before the minimum is given up."""

Owners = NDArray[np.int64]
"""[records]: the number (0..edges-1) of the edge that gets the record."""


def deal(records: Records, data: Data, seed: int) -> tuple[NDArray[np.int64], ...]:
    """One sorted index array per edge, in the order of `edge_ids`; the same for the same seed.

    Raises:
        ConfigError: `writer` for records whose writers are not known; a Dirichlet alpha beyond floating point.
        DataError: an edge would have no records, or fewer than the minimum; it is named.
    """
    if len(records) < data.edges:
        without = edge_ids(data.edges)[len(records)]
        raise DataError(f"{without}: no records: {data.edges} edges share {len(records)} records of {data.name}")
    rule = RULES[data.partition.kind]
    owners = rule(records, data, stream(seed, "partition", data.partition.kind))
    sizes = np.bincount(owners, minlength=data.edges)
    assert sizes.min() >= 1, f"{data.partition.kind}: an edge without records"  # each rule has refused that
    by_owner = np.argsort(owners, kind="stable")  # stable: each edge's indices stay sorted
    return tuple(np.split(by_owner, np.cumsum(sizes)[:-1]))


def _iid(records: Records, data: Data, rng: np.random.Generator) -> Owners:
    """Every edge a random sample; sizes differ by at most one."""
    return rng.permutation(np.arange(len(records)) % data.edges)


def _shards(records: Records, data: Data, rng: np.random.Generator) -> Owners:
    """Sorts by label, cuts into near-equal pieces, gives each edge the same number of random pieces."""
    per_edge = data.partition.shards_per_edge
    pieces = data.edges * per_edge
    if len(records) < pieces:
        without = edge_ids(data.edges)[len(records) // per_edge]
        raise DataError(
            f"{without}: an empty shard: {data.edges} edges with {per_edge} shards each share {len(records)} records "
            f"of {data.name}; expected at least {pieces} records"
        )
    shuffled = rng.permutation(len(records))
    by_label = shuffled[np.argsort(records.labels[shuffled], kind="stable")]
    piece_owner = rng.permutation(np.arange(pieces) % data.edges)
    owners = np.empty(len(records), dtype=np.int64)
    owners[by_label] = piece_owner[np.arange(len(records)) * pieces // len(records)]
    return owners


def _dirichlet(records: Records, data: Data, rng: np.random.Generator) -> Owners:
    """Splits each class by shares from Dirichlet(alpha); draws again until nobody is below the minimum."""
    counts = _draw_counts(np.bincount(records.labels, minlength=records.classes), data, rng)
    owners = np.empty(len(records), dtype=np.int64)
    for label, share in enumerate(counts):
        members = np.flatnonzero(records.labels == label)
        owners[members] = rng.permutation(np.repeat(np.arange(data.edges), share))
    return owners


def _draw_counts(of_class: NDArray[np.int64], data: Data, rng: np.random.Generator) -> NDArray[np.int64]:
    """How many records of each class each edge gets: [classes, edges]."""
    alpha, minimum, total = data.partition.alpha, data.partition.minimum, int(of_class.sum())
    if data.edges * minimum > total:
        without = edge_ids(data.edges)[total // minimum]
        raise DataError(
            f"{without}: fewer than {minimum} records: {data.edges} edges share {total} records of {data.name}; "
            f"expected data.partition.minimum of at most {total // data.edges}"
        )
    best, worst = -1, 0
    for _ in range(TRIES):
        shares = rng.dirichlet(np.full(data.edges, alpha), size=len(of_class))
        if not np.allclose(shares.sum(axis=1), 1):
            raise ConfigError(Fault("data.partition.alpha", alpha, "a concentration that floating point can draw from"))
        ends = np.rint(np.cumsum(shares, axis=1) * of_class[:, np.newaxis]).astype(np.int64)
        ends[:, -1] = of_class
        counts = np.diff(ends, axis=1, prepend=0)
        sizes = counts.sum(axis=0)
        if sizes.min() >= minimum:
            return counts
        if sizes.min() > best:
            best, worst = int(sizes.min()), int(sizes.argmin())
    raise DataError(
        f"{edge_ids(data.edges)[worst]}: {best} records in the best of {TRIES} Dirichlet deals with alpha {alpha}, "
        f"expected at least {minimum}: {data.edges} edges share {total} records of {data.name}; raise "
        "data.partition.alpha, lower data.partition.minimum or take fewer edges"
    )


def _writer(records: Records, data: Data, rng: np.random.Generator) -> Owners:
    """Every writer to one edge; the number of writers differs by at most one between edges."""
    if records.writers is None:
        raise ConfigError(
            Fault(
                "data.partition.kind",
                "writer",
                f"a data set that says who wrote what, which {data.name} here does not "
                "(mnist does with writers.npz in data.root, npz with an array writer_train)",
            )
        )
    names, writer = np.unique(records.writers, return_inverse=True)
    if len(names) < data.edges:
        without = edge_ids(data.edges)[len(names)]
        raise DataError(
            f"{without}: no writer left: {data.edges} edges share {len(names)} writers ({len(records)} records) "
            f"of {data.name}; expected data.edges of at most {len(names)}"
        )
    writer_owner = rng.permutation(np.arange(len(names)) % data.edges)
    return writer_owner[writer]


def _own(records: Records, data: Data, rng: np.random.Generator) -> Owners:
    """Every edge the records that came from its file."""
    assert records.writers is not None  # `Own.train` wrote the edge's number there
    return records.writers.astype(np.int64)


def cautions_of(data: Data) -> tuple[str, ...]:
    """Settings that were given and that this kind of partition does not read."""
    partition = data.partition
    return tuple(
        f"data.partition.{name}: {getattr(partition, name)}: only {kind} reads it, not {partition.kind}"
        for name, kind in SETTINGS.items()
        if name in partition.model_fields_set
        and kind != partition.kind
        and getattr(partition, name) != type(partition).model_fields[name].default
    )


SETTINGS: Mapping[str, str] = {"alpha": "dirichlet", "minimum": "dirichlet", "shards_per_edge": "shards"}
"""Whose settings they are."""

RULES: Mapping[str, Callable[[Records, Data, np.random.Generator], Owners]] = {
    "iid": _iid,
    "dirichlet": _dirichlet,
    "shards": _shards,
    "writer": _writer,
    "own": _own,
}
