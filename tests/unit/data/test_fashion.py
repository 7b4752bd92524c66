"""Fashion-MNIST from its real files, as Debian's package dataset-fashion-mnist has them."""

import gzip
import hashlib
from pathlib import Path

import numpy as np
import pytest

from common.data import load_test, load_train
from common.errors import DataError
from common.experiment import Data

FOLDER = Path("/usr/share/datasets/fashion-mnist")
PACKED = {"train-images-idx3": 1504176606, "train-labels-idx1": 1504176606} | {
    "t10k-images-idx3": 1504176627,
    "t10k-labels-idx1": 1504176627,
}
"""When the authors packed each file: with it and the name put back, Debian's files are theirs to the byte."""


@pytest.fixture(scope="module")
def packed() -> dict[str, bytes]:
    """The authors' four files by name."""
    if not FOLDER.is_dir():
        pytest.skip(f"Fashion-MNIST: {FOLDER}: not there (apt-get install dataset-fashion-mnist)")
    files = {}
    for name, packed_at in PACKED.items():
        stripped = (FOLDER / f"{name}-ubyte.gz").read_bytes()
        header = b"\x1f\x8b\x08\x08" + packed_at.to_bytes(4, "little") + stripped[8:10]
        files[f"{name}-ubyte"] = header + f"{name}-ubyte\0".encode() + stripped[10:]
    return files


def test_the_files_are_the_authors(packed: dict[str, bytes]) -> None:
    """Against the checksums that torchvision knows."""
    from torchvision.datasets import FashionMNIST

    found = [(f"{name}.gz", hashlib.md5(content).hexdigest()) for name, content in packed.items()]
    assert found == list(FashionMNIST.resources)


def test_unpacked_by_hand(packed: dict[str, bytes], tmp_path: Path) -> None:
    """As docs/data.md tells it."""
    raw = tmp_path / "FashionMNIST" / "raw"
    raw.mkdir(parents=True)
    for name, content in packed.items():
        (raw / name).write_bytes(gzip.decompress(content))
    check(Data(name="fashion-mnist", root=str(tmp_path)))


def test_packed_files_are_checked_and_unpacked(packed: dict[str, bytes], tmp_path: Path) -> None:
    """With `download: true` torchvision takes the files that are there; nothing has to be fetched."""
    raw = tmp_path / "FashionMNIST" / "raw"
    raw.mkdir(parents=True)
    for name, content in packed.items():
        (raw / f"{name}.gz").write_bytes(content)
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte: not there; .* and 2 more files"):
        load_train(Data(name="fashion-mnist", root=str(tmp_path)))
    check(Data(name="fashion-mnist", root=str(tmp_path), download=True))


def check(data: Data) -> None:
    """Sizes, classes and means that the authors publish, and labels that belong to their images."""
    train, test = load_train(data), load_test(data)
    assert np.bincount(train.labels).tolist() == [6_000] * 10
    assert np.bincount(test.labels).tolist() == [1_000] * 10
    assert train.inputs.shape == (60_000, 1, 28, 28)
    assert test.inputs.shape == (10_000, 1, 28, 28)
    assert train.inputs.mean() / train.scale == pytest.approx(0.2860, abs=5e-5)
    assert train.inputs.std() / train.scale == pytest.approx(0.3530, abs=5e-5)
    # upright: trousers (1) are two legs, apart at the bottom and together at the top
    trousers = train.inputs[train.labels == 1, 0].mean(axis=0)
    assert trousers[24, 13:15].mean() < 0.7 * trousers[24, [10, 17]].mean()
    assert trousers[3, 13:15].mean() > 0.9 * trousers[3, [11, 16]].mean()
    flat, probe = (part.inputs.reshape(len(part), -1) / part.scale for part in (train, test))
    means = np.stack([flat[train.labels == label].mean(axis=0) for label in range(10)])
    nearest = (np.square(means).sum(axis=1) - 2 * probe @ means.T).argmin(axis=1)
    assert (nearest == test.labels).mean() > 0.65
    assert (nearest == np.roll(test.labels, 1)).mean() < 0.2  # the control: labels of other images
