"""Networks whose per-record gradients would be wrong or not private are refused, by the layer's name."""

from __future__ import annotations

import networks
import pytest
import torch
from torch import Tensor, nn

from common.errors import ConfigError
from common.models.network import Network
from common.models.tape import Tape


class Shared(nn.Module):
    """One layer used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.again = nn.Linear(4, 4)
        self.head = nn.Linear(4, 3)

    def forward(self, values: Tensor) -> Tensor:
        return self.head(self.again(torch.relu(self.again(values))))


class Tied(nn.Module):
    """Two layers with one matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.second.weight = self.first.weight

    def forward(self, values: Tensor) -> Tensor:
        return self.second(torch.relu(self.first(values)))[:, :3]


class Unused(nn.Module):
    """A layer that the forward pass leaves out."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 3)
        self.spare = nn.Linear(4, 3)

    def forward(self, values: Tensor) -> Tensor:
        return self.head(values)


class Centred(nn.Module):
    """Mixes records without any layer for it."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 3)

    def forward(self, values: Tensor) -> Tensor:
        return self.head(values - values.mean(0))


class Loose(nn.Module):
    """A parameter outside any layer."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.head = nn.Linear(4, 3)

    def forward(self, values: Tensor) -> Tensor:
        return self.head(values * self.scale)


class Louder(nn.Linear):
    """A known layer that computes something else."""

    def forward(self, values: Tensor) -> Tensor:
        return super().forward(2 * values)


def pictures(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(4 * 9 * 8, 3))


REFUSED = {
    "batch norm": (pictures(nn.BatchNorm2d(4)), networks.SHAPE, "layer 0: 'BatchNorm2d': .*GroupNorm"),
    "batch norm without statistics": (
        pictures(nn.BatchNorm2d(4, affine=False, track_running_stats=False)),
        networks.SHAPE,
        "layer 0: 'BatchNorm2d': .*GroupNorm",
    ),
    "synchronised batch norm": (pictures(nn.SyncBatchNorm(4)), networks.SHAPE, "'SyncBatchNorm': .*GroupNorm"),
    "instance norm with statistics": (
        pictures(nn.InstanceNorm2d(4, track_running_stats=True)),
        networks.SHAPE,
        "layer 0: 'InstanceNorm2d': .*GroupNorm",
    ),
    "instance norm with parameters": (
        pictures(nn.InstanceNorm2d(4, affine=True)),
        networks.SHAPE,
        "'InstanceNorm2d': .*rule.*GroupNorm",
    ),
    "layer norm": (nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 3)), (4,), "layer 0: 'LayerNorm'.*GroupNorm"),
    "recurrent": (nn.Sequential(nn.LSTM(4, 3)), (4,), "layer 0: 'LSTM'"),
    "dropout": (nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 3)), (4,), "layer 0: 'Dropout'.*no dropout"),
    "circular padding": (
        pictures(nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular")),
        networks.SHAPE,
        "layer 0: 'Conv2d': expected padding_mode zeros, not circular",
    ),
    "subclass": (nn.Sequential(Louder(4, 3)), (4,), "layer 0: 'Louder'"),
    "used twice": (Shared(), (4,), "layer again: 'used 2 times'"),
    "tied": (Tied(), (4,), "second.weight: 'shared with first.weight'"),
    "unused": (Unused(), (4,), "layer spare: 'used 0 times'"),
    "mixes records": (Centred(), (4,), "rest of its batch.*GroupNorm"),
    "loose parameter": (Loose(), (4,), r"layer \(root\): 'Loose'"),
    "double": (nn.Linear(4, 3).double(), (4,), "weight: 'torch.float64 on cpu': expected float32"),
    "wrong scores": (nn.Linear(4, 5), (4,), r"scores of shape \[2, 5\].*\[batch, 3\]"),
    "wrong records": (nn.Linear(7, 3), (4,), r"records of shape \[4\]"),
    "nothing to train": (nn.Flatten(), (4,), "at least one layer with parameters"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name(name: str) -> None:
    module, shape, text = REFUSED[name]
    with pytest.raises(ConfigError, match=text):
        Tape(module, shape, 3)


def test_every_fault_is_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        Tape(pictures(nn.BatchNorm2d(4), nn.Dropout(0.1)), networks.SHAPE, 3)
    assert len(caught.value.faults) == 2


def test_a_bare_layer_is_a_network() -> None:
    assert Network(Tape(nn.Linear(4, 3), (4,), 3)).layout.shapes == (("bias", (3,)), ("weight", (3, 4)))


def test_dropout_that_drops_nothing_is_fine() -> None:
    assert Network(Tape(nn.Sequential(nn.Dropout(0.0), nn.Linear(4, 3)), (4,), 3)).layout.size == 15
