"""Deals are disjoint, complete, repeatable, and an edge that would get nothing is named."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from common.data import Records, deal, load_train
from common.data.partition import RULES
from common.errors import ConfigError, DataError
from common.experiment import Data, Partition

KINDS = sorted(RULES.keys() - {"own"})


def _records(labels: NDArray[np.int64], classes: int = 4, writers: NDArray[np.int64] | None = None) -> Records:
    return Records(np.zeros((len(labels), 1), np.float32), labels, classes, 1.0, writers)


def _some(count: int, classes: int = 4, writers: int = 12, seed: int = 0) -> Records:
    rng = np.random.default_rng(seed)
    return _records(rng.integers(classes, size=count), classes, rng.permutation(np.arange(count) % writers))


def _data(kind: str, edges: int, **settings: object) -> Data:
    partition = Partition.model_validate({"kind": kind, **settings})
    return Data(name="own", edges=edges, partition=partition)


@given(
    kind=st.sampled_from(KINDS),
    count=st.integers(60, 300),
    edges=st.integers(1, 12),
    seed=st.integers(0, 2**63 - 1),
    alpha=st.floats(2, 50),
)
@settings(max_examples=150, deadline=None)
def test_shards_are_sorted_disjoint_complete_and_repeatable(
    kind: str, count: int, edges: int, seed: int, alpha: float
) -> None:
    records, data = _some(count), _data(kind, edges, alpha=alpha)
    shards = deal(records, data, seed)
    assert len(shards) == edges
    for shard in shards:
        assert shard.dtype == np.int64
        assert len(shard) >= 1
        assert (np.diff(shard) > 0).all()
    assert np.array_equal(np.sort(np.concatenate(shards)), np.arange(count))
    again = deal(records, data, seed)
    assert all(np.array_equal(one, other) for one, other in zip(shards, again, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_another_seed_gives_another_deal(kind: str) -> None:
    records, data = _some(200), _data(kind, 4)
    assert not np.array_equal(deal(records, data, 1)[0], deal(records, data, 2)[0])


@pytest.mark.parametrize("kind", KINDS)
def test_one_edge_gets_everything(kind: str) -> None:
    (shard,) = deal(_some(50), _data(kind, 1), 1)
    assert np.array_equal(shard, np.arange(50))


@given(count=st.integers(1, 200), edges=st.integers(1, 50))
def test_iid_sizes_differ_by_at_most_one(count: int, edges: int) -> None:
    assume(edges <= count)
    sizes = [len(shard) for shard in deal(_some(count), _data("iid", edges), 3)]
    assert max(sizes) - min(sizes) <= 1


def _largest_class_share(records: Records, shards: tuple[NDArray[np.int64], ...]) -> float:
    return float(np.mean([np.bincount(records.labels[shard]).max() / len(shard) for shard in shards]))


def test_skew_grows_as_alpha_falls() -> None:
    records = _some(4_000, classes=10)
    skew = [_largest_class_share(records, deal(records, _data("dirichlet", 8, alpha=a), 5)) for a in (0.1, 1.0, 1e4)]
    iid = _largest_class_share(records, deal(records, _data("iid", 8), 5))
    assert skew[0] > skew[1] + 0.1 > skew[2] + 0.2
    assert abs(skew[2] - iid) < 0.02


def test_dirichlet_follows_its_law() -> None:
    """A share's variance is (1/K)(1 - 1/K) / (K alpha + 1); the same figure for 4 alpha is the control."""
    records, edges, alpha = _records(np.zeros(10_000, np.int64), classes=2), 5, 0.8
    shares = np.array([[len(shard) for shard in deal(records, _data("dirichlet", edges, alpha=alpha), seed)]
                       for seed in range(400)]) / 10_000  # fmt: skip
    expected = 0.2 * 0.8 / (edges * alpha + 1)
    control = 0.2 * 0.8 / (edges * 4 * alpha + 1)
    assert np.allclose(shares.mean(axis=0), 0.2, atol=0.03)
    assert abs(shares.var() / expected - 1) < 0.15
    assert abs(shares.var() / control - 1) > 0.5


@given(minimum=st.integers(1, 30), seed=st.integers(0, 1000))
@settings(deadline=None)
def test_dirichlet_keeps_its_minimum(minimum: int, seed: int) -> None:
    shards = deal(_some(400, classes=10), _data("dirichlet", 5, alpha=5.0, minimum=minimum), seed)
    assert min(len(shard) for shard in shards) >= minimum


def test_dirichlet_gives_up_and_names_the_poorest_edge() -> None:
    records = _records(np.zeros(100, np.int64), classes=2)
    with pytest.raises(DataError) as caught:
        deal(records, _data("dirichlet", 10, alpha=0.01, minimum=10), 1)
    text = str(caught.value)
    assert text.startswith("edge-00")
    assert "of 100 Dirichlet deals with alpha 0.01, expected at least 10: 10 edges share 100 records of own" in text


def test_dirichlet_refuses_an_impossible_minimum_at_once() -> None:
    with pytest.raises(DataError) as caught:
        deal(_some(40), _data("dirichlet", 7, minimum=6), 1)
    assert str(caught.value) == (
        "edge-0007: fewer than 6 records: 7 edges share 40 records of own; expected data.partition.minimum of at most 5"
    )


def test_dirichlet_refuses_an_alpha_that_overflows() -> None:
    with pytest.raises(ConfigError, match=r"^data\.partition\.alpha: 1e\+308: expected"):
        deal(_some(40), _data("dirichlet", 7, alpha=1e308), 1)


def test_shards_hold_few_labels() -> None:
    records = _records(np.repeat(np.arange(10), 100), classes=10)
    shards = deal(records, _data("shards", 10, shards_per_edge=2), 1)
    assert [len(shard) for shard in shards] == [100] * 10
    assert max(len(np.unique(records.labels[shard])) for shard in shards) <= 2
    control = deal(records, _data("iid", 10), 1)
    assert min(len(np.unique(records.labels[shard])) for shard in control) > 2


def test_shards_of_one_label_are_shuffled() -> None:
    """Records of one class are not dealt in file order: neighbours in a file are often alike."""
    records = _records(np.zeros(100, np.int64), classes=2)
    first, _ = deal(records, _data("shards", 2, shards_per_edge=1), 1)
    assert not np.array_equal(first, np.arange(first[0], first[0] + 50))


def test_a_shard_without_records_names_the_edge() -> None:
    with pytest.raises(DataError) as caught:
        deal(_some(7), _data("shards", 5, shards_per_edge=2), 1)
    assert str(caught.value) == (
        "edge-0004: an empty shard: 5 edges with 2 shards each share 7 records of own; expected at least 10 records"
    )


def test_a_writer_stays_with_one_edge() -> None:
    records = _some(300, writers=30)
    assert records.writers is not None
    shards = deal(records, _data("writer", 7), 1)
    writers = [set(records.writers[shard].tolist()) for shard in shards]
    assert sum(len(own) for own in writers) == len(set.union(*writers)) == 30
    assert {len(own) for own in writers} == {4, 5}


def test_writers_may_be_names() -> None:
    records = Records(np.zeros((4, 1)), np.zeros(4, np.int64), 2, 1.0, np.array(["ann", "bob", "ann", "bob"]))
    assert sorted(shard.tolist() for shard in deal(records, _data("writer", 2), 1)) == [[0, 2], [1, 3]]


def test_fewer_writers_than_edges_names_the_edge() -> None:
    with pytest.raises(DataError) as caught:
        deal(_some(100, writers=6), _data("writer", 9), 1)
    assert str(caught.value) == (
        "edge-0007: no writer left: 9 edges share 6 writers (100 records) of own; expected data.edges of at most 6"
    )


def test_unknown_writers_are_a_config_error() -> None:
    with pytest.raises(ConfigError, match=r"^data\.partition\.kind: 'writer': expected .* which digits here does not"):
        deal(load_train(Data(name="digits")), Data(name="digits", partition=Partition(kind="writer")), 1)


@pytest.mark.parametrize("kind", KINDS)
def test_more_edges_than_records_names_the_first_without(kind: str) -> None:
    with pytest.raises(DataError) as caught:
        deal(_some(6), _data(kind, 9), 1)
    assert str(caught.value) == "edge-0007: no records: 9 edges share 6 records of own"


@pytest.mark.parametrize(
    ("kind", "sizes", "first"),
    [
        ("iid", [288, 288, 287, 287, 287], [4, 13, 19, 20, 26]),
        ("dirichlet", [358, 87, 138, 335, 519], [6, 14, 17, 26, 34]),
        ("shards", [287, 288, 287, 287, 288], [0, 9, 10, 19, 20]),
    ],
    ids=["iid", "dirichlet", "shards"],
)
def test_digits_are_dealt_the_same_on_every_machine(kind: str, sizes: list[int], first: list[int]) -> None:
    """Hosts with other versions of NumPy must agree on the shards, or they would share records."""
    data = Data(name="digits", edges=5, partition=Partition.model_validate({"kind": kind}))
    shards = deal(load_train(data), data, 1)
    assert [len(shard) for shard in shards] == sizes
    assert shards[0][:5].tolist() == first
