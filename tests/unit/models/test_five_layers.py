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


@pytest.mark.parametrize(("shape", "pixels"), [((1, 28, 28), 16), ((3, 32, 32), 25), ((2, 31, 29), 16)])
def test_equals_the_torch_module_on_a_tape(shape: tuple[int, int, int], pixels: int) -> None:
    rng = stream(1, "five layers")
    written = build_model(ModelChoice(name="cnn"), shape, 7)
    taped = Network(Tape(Torch(shape[0], pixels, 7), shape, 7, channels_last=True))
    assert written.layout == taped.layout
    flat = written.init(rng).flat + 0.05 * rng.standard_normal(written.layout.size).astype(np.float32)
    inputs = rng.random((20, *shape), dtype=np.float32)
    labels = rng.integers(0, 7, 20)
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


@pytest.mark.parametrize("shape", [(2, 3, 4, 6), (1, 1, 2, 2), (2, 2, 5, 4), (2, 2, 4, 5), (1, 3, 7, 9)])
def test_pool_and_the_way_back(shape: tuple[int, ...]) -> None:
    rng = stream(2, "pool")
    pictures = torch.from_numpy(rng.standard_normal(shape)).requires_grad_()
    top = functional.max_pool2d(pictures, 2)
    gradient = torch.from_numpy(rng.standard_normal(tuple(top.shape)))
    (expected,) = torch.autograd.grad(top, pictures, gradient)
    pool = Pool(pictures.detach().clone())
    assert torch.equal(pool.top, top)
    assert torch.equal(pool.spread(gradient), expected)


def test_pool_gives_the_gradient_of_equal_pixels_to_one() -> None:
    pool = Pool(torch.ones(1, 1, 2, 2))
    assert torch.equal(pool.spread(torch.full((1, 1, 1, 1), 3.0)), torch.tensor([[[[3.0, 0.0], [0.0, 0.0]]]]))
