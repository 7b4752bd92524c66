"""The CNN's circuit, written out: convolutions as matrix products over patches, without autograd.

The patches that a per-record weight gradient needs anyway also make the forward pass, a pool comes before the bias
and the ReLU (neither changes which pixel is largest) so that these work on a quarter of the pixels, and nothing is
recorded. That makes a private step about twice as fast as the same network on a `Tape`, whose results it equals.

Symbols, layer by layer: patches [batch, taps, pixels] lie under the kernel; a weight gradient of one record is
the product of the output gradient [channels, pixels] and the transposed patches.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from common.models.circuit import Slopes
from common.models.layers import Formed, Gradients, Products
from common.models.pooling import Pool

KERNEL = 5
CHANNELS = 10


@dataclass(frozen=True)
class Traces:
    """What the backward pass needs of the forward pass."""

    patches1: Tensor
    pool1: Pool
    hidden1: Tensor
    patches2: Tensor
    pool2: Pool
    hidden2: Tensor
    scores: Tensor


class FiveLayers:
    """A `Circuit`: conv 5x5, pool 2, ReLU, conv 5x5, pool 2, ReLU, linear."""

    def __init__(self, shape: tuple[int, int, int], classes: int) -> None:
        """Sized by pictures of `shape` (channels, height, width), each side at least 16."""
        self.shape = shape
        self.classes = classes
        channels, *sides = shape
        self._convolved1 = tuple(side - KERNEL + 1 for side in sides)
        self._pooled1 = tuple(side // 2 for side in self._convolved1)
        self._convolved2 = tuple(side - KERNEL + 1 for side in self._pooled1)
        pixels = math.prod(side // 2 for side in self._convolved2)
        self.parameters: Mapping[str, tuple[int, ...]] = {
            "conv1.weight": (CHANNELS, channels, KERNEL, KERNEL),
            "conv1.bias": (CHANNELS,),
            "conv2.weight": (CHANNELS, CHANNELS, KERNEL, KERNEL),
            "conv2.bias": (CHANNELS,),
            "full.weight": (classes, CHANNELS * pixels),
            "full.bias": (classes,),
        }
        self._memory: Mapping[str, Tensor] = {}

    def bind(self, memory: Mapping[str, Tensor]) -> None:
        """Reads its parameters from `memory`."""
        self._memory = memory

    def scores(self, inputs: Tensor) -> Tensor:
        """[batch, classes]."""
        with torch.inference_mode():
            return self._forward(inputs).scores

    def totals(self, inputs: Tensor, slopes: Slopes) -> Mapping[str, Tensor]:
        """The per-record gradients, summed: they are small, so this is no dearer than another backward pass."""
        ones = inputs.new_ones(len(inputs))
        return {name: gradients.total(ones) for name, gradients in self.gradients(inputs, slopes).items()}

    @torch.inference_mode()
    def gradients(self, inputs: Tensor, slopes: Slopes) -> Mapping[str, Gradients]:
        """Each parameter's per-record gradients."""
        traces = self._forward(inputs)
        left = slopes(traces.scores)
        hidden2 = (left @ self._memory["full.weight"]).view_as(traces.hidden2) * (traces.hidden2 > 0)
        convolved2 = traces.pool2.spread(hidden2)
        hidden1 = functional.conv_transpose2d(convolved2, self._memory["conv2.weight"]) * (traces.hidden1 > 0)
        convolved1 = traces.pool1.spread(hidden1)
        weights2 = torch.bmm(convolved2.flatten(2), traces.patches2)
        weights1 = torch.bmm(convolved1.flatten(2), traces.patches1.transpose(1, 2))
        return {
            "conv1.weight": Formed(weights1.flatten(1)),
            "conv1.bias": Formed(hidden1.sum((2, 3))),
            "conv2.weight": Formed(weights2.flatten(1), _channels_first),
            "conv2.bias": Formed(hidden2.sum((2, 3))),
            "full.weight": Products(left, traces.hidden2.flatten(1)),
            "full.bias": Formed(left),
        }

    def _forward(self, inputs: Tensor) -> Traces:
        memory, batch = self._memory, len(inputs)
        patches1 = _patches(inputs, self._convolved1)
        weight1 = memory["conv1.weight"].view(1, CHANNELS, -1).expand(batch, -1, -1)
        pool1 = Pool(torch.bmm(weight1, patches1).view(batch, CHANNELS, *self._convolved1))
        hidden1 = (pool1.top + memory["conv1.bias"][:, None, None]).relu_()
        patches2 = _channels_last_patches(hidden1, self._convolved2)
        weight2 = memory["conv2.weight"].permute(0, 2, 3, 1).reshape(1, CHANNELS, -1).expand(batch, -1, -1)
        pool2 = Pool(torch.bmm(weight2, patches2.transpose(1, 2)).view(batch, CHANNELS, *self._convolved2))
        hidden2 = (pool2.top + memory["conv2.bias"][:, None, None]).relu_()
        scores = torch.addmm(memory["full.bias"], hidden2.flatten(1), memory["full.weight"].t())
        return Traces(patches1, pool1, hidden1, patches2, pool2, hidden2, scores)


def _patches(pictures: Tensor, size: tuple[int, ...]) -> Tensor:
    """[batch, taps (channel, row, column), pixels] by one strided copy of runs as long as an output row."""
    batch, channels = pictures.shape[:2]
    step, channel, down, right = pictures.stride()
    shape = (batch, channels, KERNEL, KERNEL, *size)
    return pictures.as_strided(shape, (step, channel, down, right, down, right)).reshape(batch, -1, math.prod(size))


def _channels_last_patches(pictures: Tensor, size: tuple[int, ...]) -> Tensor:
    """[batch, pixels, taps (row, column, channel)]: with more channels, runs of a kernel row are the longer ones."""
    turned = pictures.permute(0, 2, 3, 1).contiguous()
    batch, channels = pictures.shape[:2]
    step, down, right, channel = turned.stride()
    shape = (batch, *size, KERNEL, KERNEL * channels)
    return turned.as_strided(shape, (step, down, right, down, channel)).reshape(batch, math.prod(size), -1)


def _channels_first(total: Tensor) -> Tensor:
    return total.view(CHANNELS, KERNEL, KERNEL, CHANNELS).permute(0, 3, 1, 2).flatten()
