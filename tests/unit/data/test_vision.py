"""Sets that torchvision reads: right arrays from whole files, named errors from missing or damaged ones."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import idx
import numpy as np
import pytest
from numpy.typing import NDArray

from common.data import standard
from common.data.idx import read_idx
from common.data.vision import ImageSet
from common.errors import DataError
from common.experiment import Data

T10K = ("train", "t10k")
BYCLASS = ("emnist-byclass-train", "emnist-byclass-test")
SMALL = {
    "mnist": (idx.small(standard.MNIST, "MNIST/raw", T10K), "MNIST/raw", T10K),
    "fashion-mnist": (idx.small(standard.FASHION_MNIST, "FashionMNIST/raw", T10K), "FashionMNIST/raw", T10K),
    "emnist": (idx.small(standard.EMNIST, "EMNIST/raw", BYCLASS), "EMNIST/raw", BYCLASS),
}
CIFAR_SUBSET = {
    "train_list": [
        ["data_batch_1", "a664849657d6c9e2bf173ef97df601dd"],
        ["data_batch_2", "2cbed6208dcb5e2126ae899fe4a4d841"],
        ["data_batch_3", "d05c6a3b1c676aeffc53b35aab3ff17d"],
        ["data_batch_4", "0b1e1c1d9760d01e35c25d1ac3ad10c0"],
        ["data_batch_5", "4326cc3936c9059a482f4a1b58d1e04d"],
    ],
    "test_list": [["test_batch", "32d5090ce0fa518a9b85f04e7f7c2edd"]],
    "meta": {"filename": "batches.meta", "key": "label_names", "md5": "848a1272f76a2f2d7bfcd70e1fa3949d"},
}


@pytest.mark.parametrize("name", sorted(SMALL))
def test_idx_sets(name: str, tmp_path: Path) -> None:
    image_set, folder, prefixes = SMALL[name]
    written = idx.write(tmp_path / folder, prefixes, image_set.spec.classes)
    data = Data(name=name, root=str(tmp_path))
    assert image_set.describe(data) == image_set.spec
    for records, prefix in ((image_set.train(data), prefixes[0]), (image_set.test(data), prefixes[1])):
        images, labels = written[prefix]
        upright = images.transpose(0, 2, 1) if name == "emnist" else images
        assert np.array_equal(records.inputs, upright[:, None])
        assert np.array_equal(records.labels, labels)
        assert records.classes == image_set.spec.classes
        assert records.writers is None


@pytest.mark.parametrize("name", sorted(SMALL))
def test_idx_files_are_where_torchvision_looks_and_read_as_it_does(name: str, tmp_path: Path) -> None:
    from torchvision import datasets

    image_set, folder, prefixes = SMALL[name]
    idx.write(tmp_path / folder, prefixes, image_set.spec.classes)
    data = Data(name=name, root=str(tmp_path))
    for train, records in ((True, image_set.train(data)), (False, image_set.test(data))):
        theirs = getattr(datasets, image_set.kind)(tmp_path, train=train, **image_set.options)
        assert np.array_equal(records.inputs, image_set.arrange(theirs.data.numpy()))
        assert np.array_equal(records.labels, theirs.targets.numpy())


@pytest.fixture
def small_mnist(tmp_path: Path) -> tuple[ImageSet, Data]:
    image_set, folder, prefixes = SMALL["mnist"]
    idx.write(tmp_path / "set" / folder, prefixes, 10)
    return image_set, Data(name="mnist", root=str(tmp_path / "set"))


@pytest.mark.parametrize("place", [".", ".."])
def test_writers_in_the_folder_or_beside_it(place: str, small_mnist: tuple[ImageSet, Data]) -> None:
    image_set, data = small_mnist
    np.savez(Path(str(data.root)) / place / "writers.npz", train_writer=np.arange(30) // 3)
    writers = image_set.train(data).writers
    assert writers is not None
    assert np.array_equal(writers, np.arange(30) // 3)
    assert image_set.test(data).writers is None


@pytest.mark.parametrize(
    ("arrays", "text"),
    [
        ({"train_writer": np.arange(12)}, "train_writer: int64 (12,): expected integers or text, (30,)"),
        ({"train_writer": np.zeros(30)}, "train_writer: float64 (30,): expected integers or text, (30,)"),
        ({"test_writer": np.arange(12)}, "holds test_writer: expected an array 'train_writer'"),
    ],
    ids=["length", "type", "name"],
)
def test_writers_of_other_records_are_refused(
    arrays: dict[str, NDArray[np.int64]], text: str, small_mnist: tuple[ImageSet, Data]
) -> None:
    image_set, data = small_mnist
    np.savez(Path(str(data.root)) / "writers.npz", **arrays)  # type: ignore[arg-type]
    with pytest.raises(DataError) as caught:
        image_set.train(data)
    assert str(caught.value).endswith(text)


@pytest.mark.parametrize("download", [False, True])
def test_a_cut_file_is_named(download: bool, small_mnist: tuple[ImageSet, Data]) -> None:
    image_set, data = small_mnist
    data = data.model_copy(update={"download": download})
    path = Path(str(data.root)) / "MNIST/raw/train-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(DataError, match=rf"{path}: 1000 bytes: expected 23536.*remove"):
        image_set.train(data)


def test_a_missing_file_is_named_by_describe(small_mnist: tuple[ImageSet, Data]) -> None:
    image_set, data = small_mnist
    path = Path(str(data.root)) / "MNIST/raw/t10k-labels-idx1-ubyte"
    path.unlink()
    with pytest.raises(DataError, match=rf"^mnist: {path}: not there: put the files there"):
        image_set.describe(data)
    shutil.rmtree(path.parent)
    with pytest.raises(DataError, match="not there; and 2 more files: put the files there"):
        image_set.describe(data)


def test_a_label_out_of_range_is_refused(small_mnist: tuple[ImageSet, Data]) -> None:
    image_set, data = small_mnist
    path = Path(str(data.root)) / "MNIST/raw/train-labels-idx1-ubyte"
    path.write_bytes(path.read_bytes()[:-1] + bytes([10]))
    with pytest.raises(DataError, match=r"mnist in .*: labels: 0\.\.10: expected 0\.\.9"):
        image_set.train(data)


@pytest.mark.parametrize(
    ("broken", "text"),
    [
        ({"sizes": (31, 12)}, "images: uint8 (30, 1, 28, 28): expected uint8 (31, 1, 28, 28)"),
        ({"arrange": lambda images: images[:, None] / 1.0}, "images: float64 (30, 1, 28, 28): expected uint8 (30,"),
    ],
    ids=["count", "type"],
)
def test_images_of_another_kind_are_refused(
    broken: dict[str, object], text: str, small_mnist: tuple[ImageSet, Data]
) -> None:
    image_set, data = small_mnist
    with pytest.raises(DataError) as caught:
        replace(image_set, **broken).train(data)  # type: ignore[arg-type]
    assert text in str(caught.value)


def test_labels_of_another_number_are_refused(small_mnist: tuple[ImageSet, Data]) -> None:
    """Both files have the size of their kind, but the labels' own header announces fewer."""
    image_set, data = small_mnist
    path = Path(str(data.root)) / "MNIST/raw/train-labels-idx1-ubyte"
    path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 29]) + bytes(30))
    with pytest.raises(DataError, match=rf"^{path}: 38 bytes: expected 37, as it announces 29 values$"):
        image_set.train(data)


def test_labels_of_another_shape_are_refused(small_mnist: tuple[ImageSet, Data]) -> None:
    image_set, data = small_mnist
    path = Path(str(data.root)) / "MNIST/raw/train-labels-idx1-ubyte"
    path.write_bytes(bytes([0, 0, 8, 2, 0, 0, 0, 26, 0, 0, 0, 1]) + bytes(26))
    with pytest.raises(DataError, match=r"^mnist in .*: labels: \(26, 1\): expected \(30,\)$"):
        image_set.train(data)


@pytest.mark.parametrize(
    ("header", "text"),
    [
        (bytes([0, 0, 13, 1, 0, 0, 0, 30]), "starts with 00 00 0d 01: expected 00 00 08, an IDX file of bytes"),
        (bytes([31, 139, 8, 0, 0, 0, 0, 0]), "starts with 1f 8b 08 00: expected 00 00 08"),
        (bytes([0, 0, 8, 200, 0, 0, 0, 30]), "38 bytes: expected "),
    ],
    ids=["floats", "packed", "axes"],
)
def test_a_file_of_another_format_is_named(header: bytes, text: str, small_mnist: tuple[ImageSet, Data]) -> None:
    image_set, data = small_mnist
    path = Path(str(data.root)) / "MNIST/raw/train-labels-idx1-ubyte"
    path.write_bytes(header + bytes(30))
    with pytest.raises(DataError) as caught:
        image_set.train(data)
    assert str(caught.value).startswith(f"{path}: {text}")


def test_an_empty_or_absent_file_is_no_idx_file(tmp_path: Path) -> None:
    path = tmp_path / "labels"
    with pytest.raises(DataError, match=rf"{path}: .*No such file.*: expected a readable IDX file"):
        read_idx(path)
    path.write_bytes(b"")
    with pytest.raises(DataError, match=rf"{path}: starts with : expected 00 00 08"):
        read_idx(path)


def test_a_torchvision_that_does_not_fit_torch_is_named(tmp_path: Path) -> None:
    """A torchvision built for another torch fails while it is imported; a module that does the same stands in."""
    (tmp_path / "torchvision.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')")
    for file in standard.CIFAR10.stored:
        (tmp_path / file.path).parent.mkdir(exist_ok=True)
        (tmp_path / file.path).write_bytes(b"")
    script = f"""
from common.data import load_train
from common.errors import DataError
from common.experiment import Data
try:
    load_train(Data(name="cifar10", root={str(tmp_path)!r}))
except DataError as error:
    print(error)
"""
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == (
        "cifar10: torchvision cannot be imported: operator torchvision::nms does not exist: "
        "expected the build of torchvision that belongs to torch"
    )


@pytest.fixture
def cifar_folder(shared_data: Path) -> Path:
    folder = shared_data / "cifar10-subset"
    if not folder.is_dir():
        pytest.skip(f"CIFAR-10 subset: {folder}: not there")
    return folder


def _difference(images: NDArray[np.float64], axis: int, distance: int) -> float:
    """Mean difference between a pixel and the one `distance` further along `axis` (round the edge)."""
    return float(np.abs(images - np.roll(images, distance, axis=axis)).mean())


def test_cifar_with_the_checksums_of_a_subset(cifar_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torchvision.datasets import CIFAR10

    for name, value in CIFAR_SUBSET.items():
        monkeypatch.setattr(CIFAR10, name, value)
    subset = replace(standard.CIFAR10, sizes=(10_000, 2_000))
    data = Data(name="cifar10", root=str(cifar_folder))
    train, test = subset.train(data), subset.test(data)
    assert np.bincount(train.labels).tolist() == [1_000] * 10
    assert np.bincount(test.labels).tolist() == [200] * 10
    # channels come first: the published means of red, green and blue
    means = train.inputs.mean(axis=(0, 2, 3)) / train.scale
    assert np.allclose(means, [0.491, 0.482, 0.447], atol=0.005)
    # the axes are channels, rows, columns: a pixel is like its neighbours, and unlike those half an image away
    pixels = train.inputs[:500].astype(float)
    assert _difference(pixels, 1, 1) < 0.5 * _difference(pixels, 3, 16)
    assert all(_difference(pixels, axis, 1) < 0.5 * _difference(pixels, axis, 16) for axis in (2, 3))
    with pytest.raises(DataError, match=r"expected uint8 \(50000, 3, 32, 32\)"):
        standard.CIFAR10.train(data)


def test_cifar_with_other_checksums_names_file_and_expectation(cifar_folder: Path) -> None:
    with pytest.raises(DataError) as caught:
        standard.CIFAR10.train(Data(name="cifar10", root=str(cifar_folder)))
    assert str(caught.value) == (
        f"cifar10 in {cifar_folder}: {cifar_folder}/cifar-10-batches-py/data_batch_1: "
        "MD5 a664849657d6c9e2bf173ef97df601dd: expected c99cafc152244af753f735de768cd75f; "
        f"{cifar_folder}/cifar-10-batches-py/data_batch_2: "
        "MD5 2cbed6208dcb5e2126ae899fe4a4d841: expected d4bba439e000b95fd0a9bffe97cbabec; and 5 more files: "
        "remove what is damaged and set data.download: true"
    )
