"""Small networks that use the layers' options; each maps [batch, channels, 9, 8] to [batch, 3]."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

SHAPE = (4, 9, 8)
CLASSES = 3


def convolutional(**options: object) -> nn.Module:
    return nn.Sequential(nn.Conv2d(4, 6, **options), nn.Tanh(), nn.Flatten(), nn.LazyLinear(CLASSES))  # type: ignore[arg-type]


class Residual(nn.Module):
    """Writes over its layers' outputs in place, as torchvision's networks do."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(4, 6, 3, padding=1, bias=False)
        self.norm = nn.GroupNorm(2, 6)
        self.second = nn.Conv2d(6, 6, 3, padding=1, bias=False)
        self.second_norm = nn.GroupNorm(3, 6)
        self.relu = nn.ReLU(inplace=True)
        self.head = nn.Linear(6, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        hidden = self.relu(self.norm(self.first(images)))
        out = self.second_norm(self.second(hidden))
        out += hidden
        return self.head(self.relu(out).mean((2, 3)))


class Sequence(nn.Module):
    """Linear layers on many positions (summed gradients) and on few (Gram matrices)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Linear(8, width)
        self.outer = nn.Linear(width, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        return self.outer(torch.sigmoid(self.inner(images)).mean((1, 2)))


def built(module: nn.Module) -> nn.Module:
    """Lets lazy layers find their sizes."""
    module(torch.zeros(2, *SHAPE))
    return module


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "padded": lambda: convolutional(kernel_size=3, padding=(2, 1)),
    "strided": lambda: convolutional(kernel_size=(3, 2), stride=(2, 3), padding=1),
    "dilated": lambda: convolutional(kernel_size=3, dilation=(2, 3), bias=False),
    "same": lambda: convolutional(kernel_size=(4, 3), padding="same", dilation=(1, 2)),
    "valid": lambda: convolutional(kernel_size=2, padding="valid"),
    "grouped": lambda: convolutional(kernel_size=3, groups=2, padding=1, stride=2),
    "pixelwise": lambda: convolutional(kernel_size=1),
    "few positions": lambda: nn.Sequential(
        nn.Conv2d(4, 24, 5, stride=3), nn.Tanh(), nn.Conv2d(24, 40, 2, bias=False), nn.Flatten(), nn.LazyLinear(CLASSES)
    ),
    "residual": Residual,
    "sequence": lambda: Sequence(4),
    "wide sequence": lambda: Sequence(700),
    "mlp": lambda: nn.Sequential(nn.Flatten(), nn.LazyLinear(20), nn.ReLU(), nn.Linear(20, CLASSES, bias=False)),
    "fixed norm": lambda: nn.Sequential(
        nn.InstanceNorm2d(4), nn.Conv2d(4, 6, 3), nn.GroupNorm(3, 6, affine=False), nn.Flatten(), nn.LazyLinear(CLASSES)
    ),
}
