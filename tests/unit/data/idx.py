"""Writes a small image set in the IDX format of MNIST's family, as torchvision lays it out."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from common.data.standard import idx_files
from common.data.vision import ImageSet

SIZES = (30, 12)


def small(whole: ImageSet, folder: str, prefixes: tuple[str, str]) -> ImageSet:
    """The same data set, expected with 30 training and 12 test records."""
    return replace(whole, sizes=SIZES, stored=idx_files(folder, prefixes, SIZES, 28 * 28))


def write(
    folder: Path, prefixes: tuple[str, str], classes: int
) -> dict[str, tuple[NDArray[np.uint8], NDArray[np.uint8]]]:
    """Fills `folder` with four files; returns what is in them, by prefix."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(11)
    written = {}
    for prefix, count in zip(prefixes, SIZES, strict=True):
        images = rng.integers(256, size=(count, 28, 28), dtype=np.uint8)
        labels = rng.integers(classes, size=count, dtype=np.uint8)
        labels[:2] = 0, classes - 1
        (folder / f"{prefix}-images-idx3-ubyte").write_bytes(_header(3, images.shape) + images.tobytes())
        (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(_header(1, labels.shape) + labels.tobytes())
        written[prefix] = images, labels
    return written


def _header(axes: int, shape: tuple[int, ...]) -> bytes:
    return bytes([0, 0, 8, axes]) + b"".join(length.to_bytes(4, "big") for length in shape)
