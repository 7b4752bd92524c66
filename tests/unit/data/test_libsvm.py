"""Files in LIBSVM's format: the values that stand in them, and errors that name the file."""

import bz2
import os
from pathlib import Path

import numpy as np
import pytest

from common.data import standard
from common.data.libsvm import read_libsvm
from common.errors import DataError
from common.experiment import Data

ROWS = "3 1:-1 2:0.25\n10 1:1 2:-0.631\n"


def _packed(path: Path, text: str) -> Path:
    path.write_bytes(bz2.compress(text.encode()))
    return path


def test_values_and_labels_as_they_stand_there(tmp_path: Path) -> None:
    values, labels = read_libsvm(_packed(tmp_path / "a.bz2", ROWS), 2)
    assert values.tolist() == [[-1.0, 0.25], [1.0, -0.631]]
    assert labels.tolist() == [3.0, 10.0]
    with pytest.raises(ValueError, match="read-only"):
        values[0, 0] = 2.0


def test_a_file_is_read_once_until_it_changes(tmp_path: Path) -> None:
    path = _packed(tmp_path / "a.bz2", ROWS)
    first = read_libsvm(path, 2)
    assert read_libsvm(path, 2)[0] is first[0]
    _packed(path, ROWS.replace("0.25", "0.75"))
    os.utime(path, ns=(1, 1))
    assert read_libsvm(path, 2)[0][0, 1] == 0.75


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "0 numbers: expected lines of 5, a label and 2 features"),
        ("3 1:-1\n", "3 numbers: expected lines of 5"),
        ("3 2:-1 1:0.25\n", "expected in every line the features 1 to 2, in this order"),
        ("3 1:-1 2:cat\n", "expected a whole bz2 file of LIBSVM's lines"),
    ],
    ids=["empty", "short", "order", "word"],
)
def test_another_format_is_refused(text: str, words: str, tmp_path: Path) -> None:
    path = _packed(tmp_path / "a.bz2", text)
    with pytest.raises(DataError) as caught:
        read_libsvm(path, 2)
    assert str(caught.value).startswith(f"{path}: ")
    assert words in str(caught.value)


def test_a_cut_an_unpacked_and_an_absent_file_are_named(tmp_path: Path) -> None:
    path = _packed(tmp_path / "a.bz2", ROWS * 100)
    path.write_bytes(path.read_bytes()[:40])
    plain = tmp_path / "b.bz2"
    plain.write_text(ROWS)
    for found in (path, plain, tmp_path / "c.bz2"):
        with pytest.raises(DataError, match=rf"^{found}: .*: expected a whole bz2 file"):
            read_libsvm(found, 2)


def _line(label: int, pixel: str) -> str:
    return f"{label} " + " ".join(f"{place}:{pixel}" for place in range(1, 257)) + "\n"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (_line(1, "1.5"), "pixels: -1 to 1.5: expected -1 to 1"),
        (_line(1, "nan"), "pixels: nan to nan: expected -1 to 1"),
        (_line(11, "0"), "labels: 1..10: expected 0..9"),
    ],
    ids=["bright", "no number", "label"],
)
def test_digits_of_the_post_that_are_none_are_refused(line: str, words: str, tmp_path: Path) -> None:
    for file in standard.USPS.stored:
        _packed(tmp_path / file.path, _line(2, "-1") * 7_290 + line)
    with pytest.raises(DataError) as caught:
        standard.USPS.train(Data(name="usps", root=str(tmp_path)))
    assert words in str(caught.value)


def test_the_digits_of_the_post_are_as_torchvision_reads_them(shared_data: Path) -> None:
    from torchvision import datasets

    data = Data(name="usps", root=str(shared_data / "usps"))
    records, theirs = standard.USPS.test(data), datasets.USPS(data.root, train=False)
    assert np.array_equal(records.inputs[:, 0], theirs.data)
    assert np.array_equal(records.labels, theirs.targets)
