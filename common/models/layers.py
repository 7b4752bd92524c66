"""Per-record weight gradients of one layer, from what went in and the gradient of what came out.

Source: ghost clipping (Li, Tramer, Liang and Hashimoto 2022, section 4) and book-keeping (Bu, Wang, Zha and
Karypis 2023): the norms of all records come first, then one product per layer gives the clipped sum.

Symbols: A -> entered, the layer's inputs as [records, positions, width]; B -> left, the gradients of its outputs
as [records, positions, outputs]; G_i = B_i^T A_i is record i's weight gradient.

A linear layer on plain vectors has one position: |G_i| = |a_i| |b_i|. A convolution has one position for each
output pixel, where A holds the patch under the kernel. With few positions |G_i|^2 is the sum over the product of
the two position-by-position Gram matrices; else the G_i themselves are formed and summed with their factors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from common.models.clipping import UNDERFLOW

# Gram norms are sums with cancellation; this share of the terms' size is added, so that none comes out too small.
_GRAM_SLACK = 2.0**-22


class Gradients(Protocol):
    """The gradients of one parameter, one for each record of a batch."""

    def squares(self) -> Tensor:
        """[batch] the squared norm of each; too small by rounding at most, and by `UNDERFLOW` for each value."""

    def total(self, factors: Tensor) -> Tensor:
        """[size of the parameter] the sum of the gradients, each times its factor [batch]; as precise as these."""


Rule = Callable[[nn.Module, Tensor, Tensor], dict[str, Gradients]]


@dataclass(frozen=True)
class Formed:
    """Gradients that lie in memory: `rows` [batch, size], in the order that `arrange` undoes."""

    rows: Tensor
    arrange: Callable[[Tensor], Tensor] = Tensor.flatten

    def squares(self) -> Tensor:
        """From the rows; square().sum() because vector_norm in float32 comes out too small."""
        return self.rows.square().sum(1)

    def total(self, factors: Tensor) -> Tensor:
        """One matrix-vector product."""
        return self.arrange(factors @ self.rows.to(factors.dtype))


@dataclass(frozen=True)
class Products:
    """Gradients b_i a_i^T of a matrix used at one position: `left` [batch, outputs], `entered` [batch, width]."""

    left: Tensor
    entered: Tensor

    def squares(self) -> Tensor:
        """|b|^2 |a|^2, each with what underflow may have cost: the other may be huge."""
        lefts = self.left.square().sum(1).add_(self.left.shape[1] * UNDERFLOW)
        return lefts.mul_(self.entered.square().sum(1).add_(self.entered.shape[1] * UNDERFLOW))

    def total(self, factors: Tensor) -> Tensor:
        """One matrix product."""
        return ((self.left * factors[:, None]).t() @ self.entered.to(factors.dtype)).flatten()


@dataclass(frozen=True)
class Gram:
    """Gradients B_i^T A_i of a matrix used at few positions: [batch, positions, outputs] and [.., width]."""

    left: Tensor
    entered: Tensor
    arrange: Callable[[Tensor], Tensor] = Tensor.flatten

    def squares(self) -> Tensor:
        """Sum over two positions s, t of (b_s b_t)(a_s a_t)."""
        lefts = torch.bmm(self.left, self.left.transpose(1, 2)).double()
        entries = torch.bmm(self.entered, self.entered.transpose(1, 2)).double()
        sizes = (lefts.diagonal(0, 1, 2) * entries.diagonal(0, 1, 2)).sqrt().sum(1)
        floor = UNDERFLOW * (self.left.shape[2] + self.entered.shape[2])
        exact = (lefts * entries).sum((1, 2)).clamp_min_(0.0)
        return (exact + _GRAM_SLACK * sizes.square() + floor).float()

    def total(self, factors: Tensor) -> Tensor:
        """One matrix product over records and positions."""
        scaled = (self.left * factors[:, None, None]).flatten(0, 1)
        return self.arrange(scaled.t() @ self.entered.flatten(0, 1).to(factors.dtype))


def linear(layer: nn.Module, entered: Tensor, gradient: Tensor) -> dict[str, Gradients]:
    """A matrix applied to the last axis; all axes between the first and the last are positions."""
    assert isinstance(layer, nn.Linear)
    found: dict[str, Gradients] = {}
    if gradient.dim() == 2:
        found["weight"] = Products(gradient, entered)
        sums = gradient
    else:
        left, patches = gradient.flatten(1, -2), entered.flatten(1, -2)
        found["weight"] = _matrix(left, patches, Tensor.flatten)
        sums = left.sum(1)
    if layer.bias is not None:
        found["bias"] = Formed(sums)
    return found


def convolution(layer: nn.Module, entered: Tensor, gradient: Tensor) -> dict[str, Gradients]:
    """A two-dimensional convolution with zero padding; stride, dilation and groups as the layer has them."""
    assert isinstance(layer, nn.Conv2d)
    outputs, positions = gradient.shape[1], gradient.shape[2] * gradient.shape[3]
    groups, (height, width) = layer.groups, layer.kernel_size
    inputs = layer.in_channels // groups
    patches, channels_last = _patches(layer, entered, gradient.shape[2:])
    left = gradient.permute(0, 2, 3, 1).reshape(-1, positions, outputs)

    def arrange(total: Tensor) -> Tensor:
        if channels_last:
            total = total.view(outputs, height, width, inputs).permute(0, 3, 1, 2)
        return total.flatten()

    found: dict[str, Gradients] = {}
    if groups == 1:
        found["weight"] = _matrix(left, patches, arrange)
    else:
        split = left.view(-1, positions, groups, outputs // groups).transpose(1, 2).flatten(0, 1)
        found["weight"] = Formed(torch.bmm(split.transpose(1, 2), patches).view(len(gradient), -1), arrange)
    if layer.bias is not None:
        found["bias"] = Formed(left.sum(1))
    return found


def group_norm(layer: nn.Module, entered: Tensor, gradient: Tensor) -> dict[str, Gradients]:
    """Scale and shift of each channel after normalisation within a record."""
    assert isinstance(layer, nn.GroupNorm)
    normal = functional.group_norm(entered, layer.num_groups, eps=layer.eps)
    channels = (*gradient.shape[:2], -1)
    return {
        "weight": Formed((gradient * normal).reshape(channels).sum(2)),
        "bias": Formed(gradient.reshape(channels).sum(2)),
    }


# Exact types only: a subclass may compute something else.
RULES: dict[type[nn.Module], Rule] = {nn.Linear: linear, nn.Conv2d: convolution, nn.GroupNorm: group_norm}


def _matrix(left: Tensor, entered: Tensor, arrange: Callable[[Tensor], Tensor]) -> Gradients:
    positions, outputs, width = left.shape[1], left.shape[2], entered.shape[2]
    if positions * (outputs + width) < outputs * width:
        return Gram(left, entered, arrange)
    return Formed(torch.bmm(left.transpose(1, 2), entered).flatten(1), arrange)


def _patches(layer: nn.Conv2d, entered: Tensor, size: torch.Size) -> tuple[Tensor, bool]:
    """[batch * groups, positions, patch]: what lies under the kernel at each output pixel, by one strided copy.

    The second value tells the order within a patch: row, column, channel (True) or channel, row, column. Whichever
    copies the longer runs of neighbouring memory is taken; unfold would copy the same values several times slower.
    """
    padded = _padded(layer, entered)
    batch, (rows, columns), (height, width) = len(padded), size, layer.kernel_size
    inputs = layer.in_channels // layer.groups
    step, channel, down, right = padded.stride()
    pixels = (down * layer.stride[0], right * layer.stride[1])
    taps = (down * layer.dilation[0], right * layer.dilation[1])
    if layer.groups == 1 and channel == 1 and inputs * width > columns:
        view = padded.as_strided((batch, rows, columns, height, width, inputs), (step, *pixels, *taps, channel))
        return view.reshape(batch, rows * columns, -1), True
    view = padded.as_strided(
        (batch, layer.groups, inputs, height, width, rows, columns),
        (step, channel * inputs, channel, *taps, *pixels),
    )
    return view.reshape(batch * layer.groups, -1, rows * columns).transpose(1, 2), False


def _padded(layer: nn.Conv2d, entered: Tensor) -> Tensor:
    if layer.padding == "valid":
        return entered
    if layer.padding == "same":
        # as the layer does it: the odd row or column is added below and on the right
        totals = [step * (size - 1) for step, size in zip(layer.dilation, layer.kernel_size, strict=True)]
        around = [(total // 2, total - total // 2) for total in totals]
    else:
        around = [(int(width), int(width)) for width in layer.padding]
    if not any(map(any, around)):
        return entered
    return functional.pad(entered, (*around[1], *around[0]))
