"""The CNN written out against the same network in torch, also for pictures of odd sides and several channels."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from common.experiment import ModelChoice
from common.models import build_model
from common.models.network import Network
from common.models.pooling import Pool
from common.models.tape import Tape
from common.seeds import stream


class Torch(nn.Module):
    """As the paper says it, with the same names."""

    def __init__(self, channels: int, pixels: int, classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 10, 5)
        self.conv2 = nn.Conv2d(10, 10, 5)
        self.full = nn.Linear(10 * pixels, classes)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        hidden = functional.max_pool2d(torch.relu(self.conv1(pictures)), 2)
        hidden = functional.max_pool2d(torch.relu(self.conv2(hidden)), 2)
        return self.full(hidden.flatten(1))


@pytest.mark.parametrize("classes", [7, 70])  # few: the full layer's gradients are formed
@pytest.mark.parametrize(
    ("shape", "pixels"), [((1, 28, 28), 16), ((3, 32, 32), 25), ((2, 31, 29), 16), ((1, 30, 37), 24), ((2, 35, 28), 20)]
)
def test_equals_the_torch_module_on_a_tape(shape: tuple[int, int, int], pixels: int, classes: int) -> None:
    rng = stream(1, "five layers")
    written = build_model(ModelChoice(name="cnn"), shape, classes)
    taped = Network(Tape(Torch(shape[0], pixels, classes), shape, classes, channels_last=True))
    assert written.layout == taped.layout
    flat = written.init(rng).flat + 0.05 * rng.standard_normal(written.layout.size).astype(np.float32)
    inputs = rng.random((20, *shape), dtype=np.float32)
    labels = rng.integers(0, classes, 20)
    assert written.losses(flat, inputs, labels) == pytest.approx(taped.losses(flat, inputs, labels), rel=1e-5)
    norms = taped.norms(flat, inputs, labels)
    assert written.norms(flat, inputs, labels) == pytest.approx(norms, rel=1e-5)
    for bound in (float(np.median(norms)), 1e3):
        expected = taped.clipped_sum(flat, inputs, labels, bound)
        assert (
            np.abs(written.clipped_sum(flat, inputs, labels, bound) - expected).max() <= 1e-5 * np.abs(expected).max()
        )
    expected = taped.gradient_sum(flat, inputs, labels)
    assert np.abs(written.gradient_sum(flat, inputs, labels) - expected).max() <= 1e-5 * np.abs(expected).max()


def planes_of(pictures: torch.Tensor) -> torch.Tensor:
    """[batch, channels, 2, 2, height / 2, width / 2]"""
    return torch.stack([torch.stack([pictures[:, :, row::2, column::2] for column in (0, 1)], 2) for row in (0, 1)], 2)


@pytest.mark.parametrize("shape", [(2, 3, 4, 6), (1, 1, 2, 2), (2, 2, 6, 4)])
def test_pool_and_the_way_back(shape: tuple[int, ...]) -> None:
    rng = stream(2, "pool")
    pictures = torch.from_numpy(rng.standard_normal(shape)).requires_grad_()
    top = functional.max_pool2d(pictures, 2)
    gradient = torch.from_numpy(rng.standard_normal(tuple(top.shape)))
    (expected,) = torch.autograd.grad(top, pictures, gradient)
    pool = Pool(planes_of(pictures.detach()))
    assert torch.equal(pool.top, top)
    assert torch.equal(pool.spread(gradient), planes_of(expected))


def test_pool_works_in_the_memory_of_its_planes() -> None:
    """A view of planes in another order is as good, and its memory has the result."""
    rng = stream(3, "pool")
    pictures = torch.from_numpy(rng.standard_normal((2, 3, 4, 6)))
    view = pictures.view(2, 3, 2, 2, 3, 2).permute(0, 1, 3, 5, 2, 4)
    own = Pool(planes_of(pictures))
    pool = Pool(view)
    assert torch.equal(pool.top, own.top)
    gradient = torch.from_numpy(rng.standard_normal(tuple(pool.top.shape)))
    pool.spread(gradient)
    assert torch.equal(view, own.spread(gradient))


def test_pool_gives_the_gradient_of_equal_pixels_to_one() -> None:
    """The left column wins, and in a column the upper pixel."""
    for pixels, winner in (([1.0, 1.0, 1.0, 1.0], 0), ([0.0, 1.0, 1.0, 1.0], 2), ([0.0, 1.0, 0.0, 1.0], 1)):
        pool = Pool(torch.tensor(pixels).view(1, 1, 2, 2, 1))
        expected = torch.zeros(4)
        expected[winner] = 3.0
        assert torch.equal(pool.spread(torch.full((1, 1, 1), 3.0)).flatten(), expected)
