"""The standard image sets; none is part of this package, each has its own terms.

| name | source | licence |
|---|---|---|
| mnist | Y. LeCun, C. Cortes, C. Burges | usually stated as CC BY-SA 3.0 |
| fashion-mnist | H. Xiao, K. Rasul, R. Vollgraf (2017), arXiv:1708.07747 | MIT |
| usps | J. Hull (1994), as LIBSVM distributes it | none stated |
| cifar10 | A. Krizhevsky (2009), Learning Multiple Layers of Features from Tiny Images | none stated |
| emnist | G. Cohen et al. (2017), arXiv:1702.05373; split `byclass`: 0-9, A-Z, a-z | none stated (NIST) |
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.data.dataset import DataSpec
from common.data.idx import read_idx
from common.data.libsvm import read_libsvm
from common.data.vision import Arrays, ImageSet, StoredFile
from common.errors import DataError


def grey(images: NDArray[Any]) -> NDArray[Any]:
    """[n, h, w] -> [n, 1, h, w], no copy."""
    return images[:, np.newaxis]


def grey_upright(images: NDArray[Any]) -> NDArray[Any]:
    """[n, w, h] -> [n, 1, h, w], no copy: EMNIST stores its characters transposed."""
    return images.swapaxes(1, 2)[:, np.newaxis]


def channels_first(images: NDArray[Any]) -> NDArray[Any]:
    """[n, h, w, channels] -> [n, channels, h, w], no copy."""
    return images.transpose(0, 3, 1, 2)


def idx_arrays(paths: Sequence[Path]) -> Arrays:
    """Images and labels from one IDX file each."""
    images, labels = paths
    return read_idx(images), read_idx(labels)


def usps_arrays(paths: Sequence[Path]) -> Arrays:
    """Images [n, 16, 16] and labels 0..9; the file has pixels from -1 to 1 and labels 1..10.

    Rounded down to bytes, in float32, as torchvision does.
    """
    values, labels = read_libsvm(paths[0], 16 * 16)
    if not (np.abs(values) <= 1.0).all():
        raise DataError(f"{paths[0]}: pixels: {values.min():g} to {values.max():g}: expected -1 to 1")
    images = ((values.astype(np.float32) + 1) / 2 * 255).astype(np.uint8)
    return images.reshape(-1, 16, 16), labels - 1


def idx_files(folder: str, prefixes: tuple[str, str], sizes: tuple[int, int], pixels: int) -> tuple[StoredFile, ...]:
    """The four files of a set in IDX format (unpacked); a header has 4 bytes and 4 more for each axis."""
    files = []
    for prefix, count in zip(prefixes, sizes, strict=True):
        files.append(StoredFile(f"{folder}/{prefix}-images-idx3-ubyte", 16 + count * pixels))
        files.append(StoredFile(f"{folder}/{prefix}-labels-idx1-ubyte", 8 + count))
    return tuple(files)


MNIST = ImageSet(
    name="mnist",
    kind="MNIST",
    spec=DataSpec((1, 28, 28), 10),
    sizes=(60_000, 10_000),
    stored=idx_files("MNIST/raw", ("train", "t10k"), (60_000, 10_000), 28 * 28),
    arrange=grey,
    read=idx_arrays,
    writers="train_writer",
)

FASHION_MNIST = ImageSet(
    name="fashion-mnist",
    kind="FashionMNIST",
    spec=DataSpec((1, 28, 28), 10),
    sizes=(60_000, 10_000),
    stored=idx_files("FashionMNIST/raw", ("train", "t10k"), (60_000, 10_000), 28 * 28),
    arrange=grey,
    read=idx_arrays,
)

USPS = ImageSet(
    name="usps",
    kind="USPS",
    spec=DataSpec((1, 16, 16), 10),
    sizes=(7_291, 2_007),
    stored=(StoredFile("usps.bz2"), StoredFile("usps.t.bz2")),
    arrange=grey,
    read=usps_arrays,
)

CIFAR10 = ImageSet(
    name="cifar10",
    kind="CIFAR10",
    spec=DataSpec((3, 32, 32), 10),
    sizes=(50_000, 10_000),
    stored=tuple(
        StoredFile(f"cifar-10-batches-py/{name}")
        for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch", "batches.meta")
    ),
    arrange=channels_first,
)

EMNIST = ImageSet(
    name="emnist",
    kind="EMNIST",
    spec=DataSpec((1, 28, 28), 62),
    sizes=(697_932, 116_323),
    stored=idx_files("EMNIST/raw", ("emnist-byclass-train", "emnist-byclass-test"), (697_932, 116_323), 28 * 28),
    arrange=grey_upright,
    read=idx_arrays,
    options={"split": "byclass"},
)
