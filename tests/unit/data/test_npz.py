"""One's own data: what fits is read, what does not is refused by name."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from common.data import deal, describe, load_test, load_train
from common.data.archive import read_array, read_headers
from common.errors import DataError
from common.experiment import Data, Partition

RNG = np.random.default_rng(3)
FEATURES: dict[str, Any] = {
    "x_train": RNG.normal(size=(12, 5)),
    "y_train": np.arange(12) % 3,
    "x_test": RNG.normal(size=(4, 5)),
    "y_test": np.arange(4) % 3,
}


def _write(folder: Path, **changes: Any) -> Data:
    arrays = {name: array for name, array in {**FEATURES, **changes}.items() if array is not None}
    np.savez(folder / "own.npz", **arrays)
    return Data(name="npz", root=str(folder / "own.npz"), edges=2)


def test_features(tmp_path: Path) -> None:
    data = _write(tmp_path)
    assert (describe(data).shape, describe(data).classes) == ((5,), 3)
    train, test = load_train(data), load_test(data)
    assert train.inputs.dtype == np.float32
    assert np.array_equal(train.inputs, FEATURES["x_train"].astype(np.float32))
    assert np.array_equal(test.inputs, FEATURES["x_test"].astype(np.float32))
    assert np.array_equal(test.labels, FEATURES["y_test"])
    assert (train.scale, train.classes, train.writers) == (1.0, 3, None)
    assert train.labels.dtype == np.int64
    assert not train.inputs.flags.writeable


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((12, 6, 7), (1, 6, 7)), ((12, 3, 6, 7), (3, 6, 7)), ((12, 9), (9,))],
    ids=["grey", "channels", "bytes"],
)
def test_bytes_are_scaled_by_255(tmp_path: Path, shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    pixels = RNG.integers(256, size=shape).astype(np.uint8)
    data = _write(tmp_path, x_train=pixels, x_test=pixels[:4])
    train = load_train(data)
    assert describe(data).shape == train.inputs.shape[1:] == expected
    assert train.inputs.dtype == np.uint8
    assert train.scale == 255.0
    assert np.array_equal(train.inputs.reshape(shape), pixels)


def test_float_images_lie_in_0_to_1(tmp_path: Path) -> None:
    images = RNG.random((12, 6, 6))
    records = load_train(_write(tmp_path, x_train=images, x_test=images[:4]))
    assert records.inputs.shape == (12, 1, 6, 6)
    assert records.scale == 1.0
    with pytest.raises(DataError, match=r"x_train: .*: expected float images in 0\.\.1"):
        load_train(_write(tmp_path, x_train=images * 255, x_test=images[:4]))


def test_writers_make_a_writer_partition(tmp_path: Path) -> None:
    data = _write(tmp_path, writer_train=np.array(["ann", "bob", "cy"] * 4))
    data = data.model_copy(update={"edges": 3, "partition": Partition(kind="writer")})
    assert sorted(shard.tolist() for shard in deal(load_train(data), data, 1)) == [
        [0, 3, 6, 9],
        [1, 4, 7, 10],
        [2, 5, 8, 11],
    ]
    assert load_test(data).writers is None


def test_classes_may_be_more_than_occur(tmp_path: Path) -> None:
    data = _write(tmp_path, classes=np.array(7))
    assert describe(data).classes == load_train(data).classes == load_test(data).classes == 7


def test_describe_reads_no_inputs(tmp_path: Path) -> None:
    """Inputs that break in the middle do not matter to describe, and do to load_train."""
    data = _write(tmp_path, x_train=RNG.normal(size=(12_000, 5)), y_train=np.arange(12_000) % 3)
    path = tmp_path / "own.npz"
    content = bytearray(path.read_bytes())
    content[100_000] ^= 0xFF
    path.write_bytes(content)
    assert describe(data).shape == (5,)
    with pytest.raises(DataError, match=r"own\.npz: x_train: .*CRC.*: expected an undamaged array"):
        load_train(data)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"x_test": None, "y_test": None}, "x_test, y_test: missing: expected arrays x_train"),
        ({"x_train": np.zeros((12, 5), np.int64)}, "x_train: int64: expected uint8 or a float type"),
        ({"x_train": np.zeros((12, 5), np.complex64)}, "x_train: complex64: expected uint8 or a float type"),
        ({"x_train": np.zeros(12)}, "x_train: (12,): expected (n, features)"),
        ({"x_train": np.zeros((12, 1, 1, 1, 1))}, "x_train: (12, 1, 1, 1, 1): expected (n, features)"),
        ({"x_train": np.zeros((12, 0))}, "x_train: (12, 0): expected (n, features)"),
        ({"x_train": np.zeros((0, 5)), "y_train": np.zeros(0, int)}, "none of them 0"),
        ({"y_train": np.zeros(12)}, "y_train: float64 (12,): expected integers, (12,)"),
        ({"y_train": np.zeros(11, int)}, "y_train: int64 (11,): expected integers, (12,)"),
        ({"y_train": np.zeros((12, 3), int)}, "y_train: int64 (12, 3): expected integers, (12,)"),
        ({"y_test": np.zeros(5, int)}, "y_test: int64 (5,): expected integers, (4,)"),
        ({"x_test": np.zeros((4, 6))}, "x_test: float64 (4, 6): expected float64 (n, 5) as in x_train"),
        ({"x_test": np.zeros((4, 5), np.uint8)}, "x_test: uint8 (4, 5): expected float64 (n, 5) as in x_train"),
        ({"writer_train": np.zeros(12)}, "writer_train: float64 (12,): expected integers or text, (12,)"),
        ({"writer_train": np.zeros(4, int)}, "writer_train: int64 (4,): expected integers or text, (12,)"),
        ({"classes": np.array([3])}, "classes: int64 (1,): expected one integer, shape ()"),
        ({"classes": np.array(3.0)}, "classes: float64 (): expected one integer, shape ()"),
        ({"classes": np.array(1)}, "classes: 1 classes: expected at least 2"),
        ({"y_train": np.zeros(12, int)}, "y_train: 1 classes: expected at least 2"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_does_not_fit_is_refused_from_the_headers(tmp_path: Path, changes: dict[str, Any], text: str) -> None:
    data = _write(tmp_path, **changes)
    for ask in (describe, load_train, load_test):
        with pytest.raises(DataError) as caught:
            ask(data)
        assert str(tmp_path / "own.npz") in str(caught.value)
        assert text in str(caught.value)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
def test_values_must_be_finite_in_float32(tmp_path: Path, bad: float) -> None:
    inputs = FEATURES["x_train"].copy()
    inputs[3, 2] = bad
    with pytest.raises(DataError, match="x_train: 1 values are not finite"):
        load_train(_write(tmp_path, x_train=inputs))


@pytest.mark.parametrize("label", [-1, 3])
def test_labels_must_be_in_range(tmp_path: Path, label: int) -> None:
    labels = FEATURES["y_test"].copy()
    labels[2] = label
    with pytest.raises(DataError, match=rf"y_test: {label}: expected labels 0\.\.2"):
        load_test(_write(tmp_path, y_test=labels))
    with pytest.raises(DataError, match=r"y_train: 2: expected labels 0\.\.1"):
        load_train(_write(tmp_path, classes=np.array(2)))


def test_unsigned_labels_do_not_wrap(tmp_path: Path) -> None:
    labels = np.array([0, 1, 2, 2**64 - 1], np.uint64)
    with pytest.raises(DataError, match=r"y_test: 18446744073709551615: expected labels 0\.\.2"):
        load_test(_write(tmp_path, y_test=labels))


def test_python_objects_are_refused(tmp_path: Path) -> None:
    data = _write(tmp_path, writer_train=np.array([{"ann": 1}] * 12, dtype=object))
    for ask in (describe, load_train, load_test):
        with pytest.raises(DataError, match="writer_train: object: expected numbers or text, not Python objects"):
            ask(data)


@pytest.mark.parametrize("content", [b"", b"not an archive", b"PK\x03\x04 cut short"])
def test_no_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "own.npz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"own\.npz: .*: expected an undamaged \.npz archive"):
        describe(Data(name="npz", root=str(path)))


@pytest.mark.parametrize("kept", [0.3, 0.9, 0.999])
def test_a_cut_archive_is_refused(tmp_path: Path, kept: float) -> None:
    data = _write(tmp_path)
    path = tmp_path / "own.npz"
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * kept)])
    with pytest.raises(DataError, match=r"own\.npz"):
        load_train(data)


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"data\.root: .*: a folder: expected a \.npz file with x_train, y_train"):
        describe(Data(name="npz", root=str(tmp_path)))


def test_reading_by_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "two.npz", one=np.arange(3), two=np.eye(2))
    assert read_headers(tmp_path / "two.npz")["two"].shape == (2, 2)
    assert read_array(tmp_path / "two.npz", "one").tolist() == [0, 1, 2]
    with pytest.raises(DataError, match="holds one, two: expected an array 'three'"):
        read_array(tmp_path / "two.npz", "three")
    with pytest.raises(DataError, match="no such file"):
        read_headers(tmp_path / "none.npz")
