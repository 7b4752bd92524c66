"""Every entry of the table keeps the same promises; the real sets are read where they are there."""

import bz2
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import idx
import numpy as np
import pytest

from common.data import DATASETS, Records, describe, load_test, load_train
from common.errors import ConfigError, DataError
from common.experiment import Data


@dataclass(frozen=True)
class Case:
    name: str
    folder: str | None
    train: int
    test: int
    shape: tuple[int, ...]
    brightest: int  # the largest pixel that occurs


CASES = [
    Case("digits", None, 1_437, 360, (1, 8, 8), 16),
    Case("mnist", "mnist", 60_000, 10_000, (1, 28, 28), 255),
    Case("usps", "usps", 7_291, 2_007, (1, 16, 16), 255),
]


def _data(case: Case, request: pytest.FixtureRequest, **settings: object) -> Data:
    root = None if case.folder is None else str(request.getfixturevalue("shared_data") / case.folder)
    return Data.model_validate({"name": case.name, "root": root, **settings})


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_schema(case: Case, request: pytest.FixtureRequest) -> None:
    data = _data(case, request)
    spec = describe(data)
    assert (spec.shape, spec.classes) == (case.shape, 10)
    for records, count in ((load_train(data), case.train), (load_test(data), case.test)):
        assert records.inputs.shape == (count, *spec.shape)
        assert records.inputs.dtype == np.uint8
        assert records.inputs.max() == case.brightest
        assert records.inputs.max() <= records.scale
        assert records.labels.shape == (count,)
        assert records.labels.dtype == np.int64
        assert set(np.unique(records.labels)) == set(range(spec.classes))
        assert records.classes == spec.classes
        assert len(records) == count
        with pytest.raises(ValueError, match="read-only"):
            records.inputs[0] = 0
        with pytest.raises(ValueError, match="read-only"):
            records.labels[0] = 0


@pytest.mark.parametrize("case", CASES[:1] + CASES[2:], ids=lambda case: case.name)
def test_a_class_looks_like_itself_in_both_parts(case: Case, request: pytest.FixtureRequest) -> None:
    """Labels belong to their images: the nearest class mean of train is right for most of test."""
    data = _data(case, request)
    train, test = load_train(data), load_test(data)
    flat, probe = (part.inputs.reshape(len(part), -1) / part.scale for part in (train, test))
    means = np.stack([flat[train.labels == label].mean(axis=0) for label in range(10)])
    nearest = ((probe[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
    assert (nearest == test.labels).mean() > 0.75
    assert (nearest == np.roll(test.labels, 1)).mean() < 0.3  # the control: labels of other images


def test_halves_are_the_lower_and_the_upper_classes() -> None:
    whole, halves = Data(name="digits"), Data(name="digits", classes="halves")
    assert describe(halves).classes == 2
    assert describe(halves).shape == describe(whole).shape
    for load in (load_train, load_test):
        expected, records = load(whole), load(halves)
        assert np.array_equal(records.labels, np.where(expected.labels <= 4, 0, 1))
        assert np.array_equal(records.inputs, expected.inputs)
        assert (records.classes, records.scale) == (2, 16.0)
        assert records.labels.dtype == np.int64
        assert not records.labels.flags.writeable


def test_halves_of_an_odd_number_of_classes() -> None:
    records = Records(np.zeros((3, 1), np.float32), np.array([0, 1, 2]), 3, 1.0, np.array([7, 8, 9]))
    assert records.halved().labels.tolist() == [0, 0, 1]
    assert records.halved().writers is not None


def test_records_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\[3, 2\]: expected the same length"):
        Records(np.zeros((3, 1), np.float32), np.zeros(2, np.int64), 2, 1.0)


def test_records_do_not_freeze_the_callers_array() -> None:
    mine = np.zeros((3, 1), np.float32)
    records = Records(mine, np.zeros(3, np.int64), 2, 1.0)
    assert mine.flags.writeable
    assert not records.inputs.flags.writeable


@pytest.mark.parametrize("ask", [describe, load_train, load_test])
def test_an_unknown_set_is_a_config_error_that_lists_the_known(ask: object) -> None:
    with pytest.raises(ConfigError) as caught:
        ask(Data(name="mnits"))  # type: ignore[operator]
    assert str(caught.value) == (
        "data.name: 'mnits': expected one of cifar10, digits, emnist, fashion-mnist, mnist, npz, usps"
    )


@pytest.mark.parametrize("name", sorted(set(DATASETS) - {"digits"}))
@pytest.mark.parametrize("ask", [describe, load_train, load_test])
def test_no_root_says_to_set_it(name: str, ask: object) -> None:
    with pytest.raises(DataError, match=r"^data\.root: None: expected .*set +data\.root"):
        ask(Data(name=name))  # type: ignore[operator]


@pytest.mark.parametrize("name", sorted(set(DATASETS) - {"digits"}))
def test_a_missing_folder_is_named(name: str, tmp_path: Path) -> None:
    missing = tmp_path / "nowhere"
    for ask in (describe, load_train, load_test):
        with pytest.raises(DataError) as caught:
            ask(Data(name=name, root=str(missing)))
        assert f"data.root: {missing}: no" in str(caught.value)
    assert not missing.exists()


def test_what_needs_no_torch_does_not_import_it(tmp_path: Path) -> None:
    lines = [f"{label} " + " ".join(f"{place}:-1" for place in range(1, 257)) for label in (1, 10)]
    for name in ("usps.bz2", "usps.t.bz2"):
        (tmp_path / name).write_bytes(bz2.compress("\n".join(lines).encode()))
    np.savez(
        tmp_path / "own.npz",
        x_train=np.eye(4, dtype=np.float32),
        y_train=np.arange(4),
        x_test=np.eye(4, dtype=np.float32),
        y_test=np.arange(4),
    )
    idx.write(tmp_path / "MNIST" / "raw", ("train", "t10k"), 10)
    script = f"""
import sys
from dataclasses import replace
import idx
from common.data import deal, describe, load_test, load_train, standard
from common.experiment import Data
for data in (Data(name="digits", edges=2), Data(name="npz", root={str(tmp_path / "own.npz")!r}, edges=2)):
    describe(data), load_test(data), deal(load_train(data), data, 1)
for name in ("mnist", "fashion-mnist", "usps", "cifar10", "emnist"):
    describe(Data(name=name, root="unused", download=True))
small = idx.small(standard.MNIST, "MNIST/raw", ("train", "t10k"))
for download in (False, True):
    small.train(Data(name="mnist", root={str(tmp_path)!r}, download=download))
    replace(standard.USPS, sizes=(2, 2)).train(Data(name="usps", root={str(tmp_path)!r}, download=download))
print(sorted({{"torch", "torchvision", "filelock"}} & set(sys.modules)))
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
