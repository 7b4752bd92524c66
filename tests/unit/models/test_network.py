"""One-pass clipped gradients of any network against a float64 loop over records."""

from __future__ import annotations

import math

import networks
import numpy as np
import per_record
import pytest
import torch
from torch import nn

from common.errors import SensitivityError
from common.models.layers import RULES, Formed, Gram, Products, convolution, linear
from common.models.network import Network
from common.models.tape import Tape
from common.seeds import stream

BATCH = 7


@pytest.mark.filterwarnings("ignore:Using padding=.same.:UserWarning")  # torch, about even kernels: we mean them
@pytest.mark.parametrize("channels_last", [False, True], ids=["default", "channels last"])
@pytest.mark.parametrize("name", sorted(networks.NETWORKS))
def test_equals_the_loop(name: str, channels_last: bool) -> None:
    module = networks.built(networks.NETWORKS[name]())
    loss = per_record.of_module(module)
    network = Network(Tape(module, networks.SHAPE, networks.CLASSES, channels_last=channels_last))
    rng = stream(1, "network", name)
    flat = network.init(rng).flat + 0.1 * rng.standard_normal(network.layout.size).astype(np.float32)
    inputs = rng.standard_normal((BATCH, *networks.SHAPE)).astype(np.float32)
    inputs[3] *= 20  # norms far apart
    labels = rng.integers(0, networks.CLASSES, BATCH)
    flat.flags.writeable = inputs.flags.writeable = False

    losses, rows = per_record.losses_and_gradients(loss, network.layout, flat, inputs, labels)
    norms = np.linalg.norm(rows, axis=1)
    assert network.losses(flat, inputs, labels) == pytest.approx(losses, rel=1e-5, abs=1e-6)
    assert network.norms(flat, inputs, labels) == pytest.approx(norms, rel=2e-5)
    assert (network.norms(flat, inputs, labels) >= norms * (1 - 1e-5)).all()
    total = network.gradient_sum(flat, inputs, labels)
    assert np.abs(total - rows.sum(axis=0)).max() <= 1e-5 * np.abs(rows).max()
    smallest = max(0.3 * float(norms.min()), 1e-9)  # a gradient may vanish where no unit is active
    for bound in (smallest, float(np.median(norms)), 2 * norms.max()):
        expected = per_record.clipped(rows, bound)
        clipped = network.clipped_sum(flat, inputs, labels, bound)
        assert np.abs(clipped - expected).max() <= 1e-5 * np.abs(expected).max() + 1e-6 * bound
        for index in range(BATCH):
            one = slice(index, index + 1)
            alone = network.clipped_sum(flat, inputs[one], labels[one], bound).astype(np.float64)
            assert np.linalg.norm(alone) <= bound


@pytest.mark.parametrize("name", ["grouped", "few positions", "residual", "wide sequence", "mlp"])
@pytest.mark.parametrize("value", [math.nan, math.inf, 1e30])
def test_record_that_is_not_finite_drops_out(name: str, value: float) -> None:
    network = Network(Tape(networks.built(networks.NETWORKS[name]()), networks.SHAPE, networks.CLASSES))
    rng = stream(2, "network", name)
    flat = network.init(rng).flat
    inputs = rng.standard_normal((BATCH, *networks.SHAPE)).astype(np.float32)
    inputs[5, 0, 4, 4] = value
    labels = rng.integers(0, networks.CLASSES, BATCH)
    rest = np.delete(np.arange(BATCH), 5)
    alone = network.clipped_sum(flat, inputs[5:6], labels[5:6], 0.5)
    assert np.isfinite(alone).all()
    assert np.linalg.norm(alone) <= 0.5
    total = network.clipped_sum(flat, inputs, labels, 0.5)
    expected = network.clipped_sum(flat, inputs[rest], labels[rest], 0.5) + alone
    assert np.abs(total - expected).max() <= 1e-5 * np.abs(expected).max()


def test_each_way_to_a_norm_is_taken_and_agrees() -> None:
    """Both ways on the same numbers, since the networks above take whichever is cheaper."""
    generator = torch.Generator().manual_seed(1)
    left = torch.randn(5, 6, 4, generator=generator)
    entered = torch.randn(5, 6, 9, generator=generator)
    exact = torch.bmm(left.double().transpose(1, 2), entered.double()).flatten(1)
    factors = torch.rand(5, generator=generator)
    formed = Formed(torch.bmm(left.transpose(1, 2), entered).flatten(1))
    for gradients in (formed, Gram(left, entered)):
        assert torch.allclose(gradients.squares().double(), exact.square().sum(1), rtol=1e-5)
        assert torch.allclose(gradients.total(factors).double(), factors.double() @ exact, rtol=1e-4, atol=1e-5)
    conv, wide = nn.Conv2d(4, 6, 3), nn.Conv2d(32, 64, 3)
    assert isinstance(convolution(conv, torch.ones(2, 4, 9, 9), torch.ones(2, 6, 7, 7))["weight"], Formed)
    assert isinstance(convolution(wide, torch.ones(2, 32, 4, 4), torch.ones(2, 64, 2, 2))["weight"], Gram)
    assert isinstance(linear(nn.Linear(3, 2), torch.ones(2, 3), torch.ones(2, 2))["weight"], Products)


def test_gram_norm_with_cancellation_is_not_too_small() -> None:
    left = torch.ones(1, 2, 3)
    entered = torch.full((1, 2, 50), 1.0)
    left[0, 1] = -1.0  # the two positions' products cancel but for the last bit
    entered[0, 1] += 1e-7
    exact = torch.bmm(left.double().transpose(1, 2), entered.double()).square().sum()
    assert Gram(left, entered).squares()[0] >= exact


def test_underflow_does_not_hide_a_gradient() -> None:
    left, entered = torch.full((1, 4), 1e-25), torch.full((1, 4), 1e18)
    exact = 16 * (1e-25 * 1e18) ** 2
    assert Products(left, entered).squares()[0] >= exact


def test_layer_rules_are_exact_about_the_type() -> None:
    assert set(RULES) == {nn.Linear, nn.Conv2d, nn.GroupNorm}


class Moody(nn.Module):
    """Uses its second layer only for bright pictures, so inspection cannot see it go unused."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 3)
        self.second = nn.Linear(3, 3)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        hidden = self.first(values)
        return self.second(hidden) if values.min() >= 0 else hidden


class Careless(nn.Module):
    """Writes over a layer's input after its use, only for pictures with a value below zero."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 3)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        hidden = torch.sin(self.first(values))
        scores = self.second(hidden)
        if values.min() < 0:
            hidden.detach().zero_()
        return scores


@pytest.mark.parametrize(("module", "text"), [(Moody, "layers used"), (Careless, "written over in place")])
def test_surprises_after_inspection_are_errors(module: type[nn.Module], text: str) -> None:
    network = Network(Tape(module(), (4,), 3))
    flat, labels = network.init(stream(1, "x")).flat, np.array([0, 1])
    assert network.clipped_sum(flat, np.ones((2, 4), dtype=np.float32), labels, 1.0).any()
    with pytest.raises(SensitivityError, match=text):
        network.clipped_sum(flat, -np.ones((2, 4), dtype=np.float32), labels, 1.0)
