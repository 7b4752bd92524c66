"""The CNN's circuit, written out: convolutions as matrix products, without autograd.

What a per-record weight gradient needs anyway also makes the forward pass, a pool comes before the bias and the ReLU
(neither changes which pixel is largest) so that these work on a quarter of the pixels, and nothing is recorded. That
makes a private step about twice as fast as the same network on a `Tape`, whose results it equals.

Both convolutions give the four pixels that a pool compares in four planes (see `pooling`). The first looks at windows
of 6 x 6 pixels, one for each square of the pool: the four places of a kernel in a window are four kernels of 6 x 6
with zeros, and a third of the memory does. The second has more channels, where plain patches cost no more.

Symbols, layer by layer: windows [batch, taps, squares] and patches [batch, pixels, taps] lie under the kernels; a
weight gradient of one record is the product of the output gradient [channels, pixels] and the (transposed) patches.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from common.models.blocks import product
from common.models.circuit import Slopes
from common.models.layers import Formed, Gradients, Products
from common.models.pooling import Pool

KERNEL = 5
CHANNELS = 10
WINDOW = KERNEL + 1


@dataclass(frozen=True)
class Traces:
    """What the backward pass needs of the forward pass."""

    windows1: Tensor
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
        channels, height, width = shape
        # squares of either pool; of odd sides, only those of the first that the second looks at
        self._squares2 = ((height // 2 - WINDOW) // 2, (width // 2 - WINDOW) // 2)
        self._squares1 = (2 * self._squares2[0] + KERNEL - 1, 2 * self._squares2[1] + KERNEL - 1)
        self.parameters: Mapping[str, tuple[int, ...]] = {
            "conv1.bias": (CHANNELS,),
            "conv1.weight": (CHANNELS, channels, KERNEL, KERNEL),
            "conv2.bias": (CHANNELS,),
            "conv2.weight": (CHANNELS, CHANNELS, KERNEL, KERNEL),
            "full.bias": (classes,),
            "full.weight": (classes, CHANNELS * math.prod(self._squares2)),
        }
        self._memory: Mapping[str, Tensor] = {}
        sizes = {name: math.prod(shape) for name, shape in self.parameters.items()}
        self._forms_full = sizes["full.weight"] <= sizes["conv2.weight"]
        self._order = _order(sizes if self._forms_full else {**sizes, "full.weight": 0})
        kernels1 = torch.zeros(CHANNELS, 2, 2, channels, WINDOW, WINDOW)
        self._windows_of1 = kernels1.shape
        self._placed1, self._kernels1 = _placed(kernels1), kernels1.view(1, 4 * CHANNELS, -1)

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
        """The per-record gradients of all parameters as one row, without the full layer's weight if that is large."""
        traces, batch = self._forward(inputs), len(inputs)
        left = slopes(traces.scores)
        pulled = product(left.numpy(), self._memory["full.weight"].numpy())
        hidden2 = torch.from_numpy(pulled).view_as(traces.hidden2).mul_(traces.hidden2.sign())
        convolved2 = _pictures(traces.pool2.spread(hidden2))
        # a convolution with the kernels turned round is the transposed one, and torch is faster at it
        turned2 = self._memory["conv2.weight"].flip(2, 3).transpose(0, 1).contiguous()
        hidden1 = functional.conv2d(convolved2, turned2, padding=KERNEL - 1).flatten(2).mul_(traces.hidden1.sign())
        planes1 = traces.pool1.spread(hidden1)
        weights2 = torch.bmm(convolved2.flatten(2), traces.patches2)
        weights1 = torch.bmm(planes1.view(batch, 4 * CHANNELS, -1), traces.windows1.transpose(1, 2))
        upper1, lower1 = _placed(weights1.view(batch, *self._windows_of1)).unbind(2)
        left1, right1 = (upper1 + lower1).unbind(2)
        parts = [hidden1.sum(2), (left1 + right1).flatten(1), hidden2.sum((2, 3)), weights2.flatten(1), left]
        entered, found = traces.hidden2.flatten(1), dict[str, Gradients]()
        if self._forms_full:
            parts.append(torch.bmm(left[:, :, None], entered[:, None]).flatten(1))
        else:
            found["full.weight"] = Products(left, entered)
        found["conv1.bias"] = Formed(torch.cat(parts, dim=1), self._channels_first)
        return found

    def _forward(self, inputs: Tensor) -> Traces:
        memory, batch = self._memory, len(inputs)
        self._placed1.copy_(memory["conv1.weight"][:, None, None])
        windows1 = _windows(inputs, self._squares1)
        pool1 = Pool(torch.bmm(self._kernels1.expand(batch, -1, -1), windows1).view(batch, CHANNELS, 2, 2, -1))
        hidden1 = (pool1.top + memory["conv1.bias"][:, None]).relu_()
        patches2 = _patches(hidden1.view(batch, CHANNELS, *self._squares1), self._squares2)
        kernels2 = memory["conv2.weight"].permute(0, 2, 3, 1).reshape(1, CHANNELS, -1).expand(batch, -1, -1)
        pool2 = Pool(_planes(torch.bmm(kernels2, patches2.transpose(1, 2)), self._squares2))
        hidden2 = (pool2.top + memory["conv2.bias"][:, None, None]).relu_()
        scores = torch.from_numpy(product(hidden2.flatten(1).numpy(), memory["full.weight"].numpy().T))
        scores += memory["full.bias"]
        return Traces(windows1, pool1, hidden1, patches2, pool2, hidden2, scores)

    def _channels_first(self, total: Tensor) -> Tensor:
        """A row in the order of the parameters."""
        return total.index_select(0, self._order)


def _order(sizes: Mapping[str, int]) -> Tensor:
    """Where each parameter of a row is, whose second kernels come as `_patches` has their taps."""
    places = torch.arange(sum(sizes.values()))
    start = sizes["conv1.bias"] + sizes["conv1.weight"] + sizes["conv2.bias"]
    kernels2 = places[start : start + sizes["conv2.weight"]].view(CHANNELS, KERNEL**2, CHANNELS)
    kernels2.copy_(kernels2.transpose(1, 2).reshape(kernels2.shape))
    return places


def _placed(windows: Tensor) -> Tensor:
    """[..., 2 (row), 2 (column), channels, 5, 5]: the kernel's part of `windows` [..., 2, 2, channels, 6, 6].

    Where the kernel stands in a window, its row and column, is the place along the two axes before.
    """
    *outer, lower, right, channel, down, step = windows.stride()
    shape = (*windows.shape[:-2], KERNEL, KERNEL)
    return windows.as_strided(shape, (*outer, lower + down, right + step, channel, down, step))


def _planes(pixels: Tensor, squares: tuple[int, int]) -> Tensor:
    """[batch, channels, 2, 2, height / 2, width / 2], a view of pictures [batch, channels, height * width]."""
    height, width = squares
    return pixels.view(*pixels.shape[:2], height, 2, width, 2).permute(0, 1, 3, 5, 2, 4)


def _pictures(planes: Tensor) -> Tensor:
    """[batch, channels, height, width]: the other way."""
    batch, channels, _, _, height, width = planes.shape
    return planes.permute(0, 1, 4, 2, 5, 3).reshape(batch, channels, 2 * height, 2 * width)


def _windows(pictures: Tensor, squares: tuple[int, int]) -> Tensor:
    """[batch, taps (channel, row, column), squares]: the 6 x 6 pixels that the kernels of one square look at."""
    batch, channels = pictures.shape[:2]
    step, channel, down, right = pictures.stride()
    shape = (batch, channels, WINDOW, WINDOW, *squares)
    view = pictures.as_strided(shape, (step, channel, down, right, 2 * down, 2 * right))
    return view.reshape(batch, channels * WINDOW**2, math.prod(squares))


def _patches(pictures: Tensor, squares: tuple[int, int]) -> Tensor:
    """[batch, pixels, taps (row, column, channel)].

    One strided copy of runs as long as a kernel's row of all channels.
    """
    turned = pictures.permute(0, 2, 3, 1).contiguous()
    batch, channels = pictures.shape[:2]
    step, down, right, channel = turned.stride()
    shape = (batch, 2 * squares[0], 2 * squares[1], KERNEL, KERNEL * channels)
    view = turned.as_strided(shape, (step, down, right, down, channel))
    return view.reshape(batch, 4 * math.prod(squares), channels * KERNEL**2)
