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

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from common.models.blocks import Matrix, product
from common.models.circuit import Slopes
from common.models.clipping import row_squares
from common.models.layers import Gradients, Products
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


@dataclass(frozen=True)
class Rows:
    """Gradients [batch, size], in float64 from the start: they are added in it, and need no other copy for that.

    `order` tells where in a row the value of each parameter is.
    """

    rows: NDArray[np.float64]
    order: NDArray[np.int64]

    def squares(self) -> Tensor:
        """Of each row by itself."""
        return torch.from_numpy(row_squares(self.rows))

    def total(self, factors: Tensor) -> Tensor:
        """One matrix-vector product."""
        return torch.from_numpy((factors.numpy() @ self.rows).take(self.order))


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

    def bind(self, memory: Mapping[str, Tensor]) -> None:
        """Reads its parameters from `memory`."""
        self._memory = memory

    @torch.inference_mode()
    @np.errstate(all="ignore")
    def scores(self, inputs: Tensor) -> Tensor:
        """[batch, classes]."""
        return self._forward(inputs).scores

    def totals(self, inputs: Tensor, slopes: Slopes) -> Mapping[str, Tensor]:
        """The per-record gradients, summed: they are small, so this is no dearer than another backward pass."""
        ones = inputs.new_ones(len(inputs))
        return {name: gradients.total(ones) for name, gradients in self.gradients(inputs, slopes).items()}

    @torch.inference_mode()
    @np.errstate(all="ignore")
    def gradients(self, inputs: Tensor, slopes: Slopes) -> Mapping[str, Gradients]:
        """The per-record gradients of all parameters as one row, without the full layer's weight if that is large."""
        traces, batch = self._forward(inputs), len(inputs)
        left = slopes(traces.scores)
        pulled = product(left.numpy(), self._memory["full.weight"].numpy())
        hidden2 = torch.from_numpy(pulled).view_as(traces.hidden2).mul_(traces.hidden2.sign())
        convolved2 = _pictures(traces.pool2.spread(hidden2))
        # a convolution with the kernels turned round is the transposed one, and torch is faster at it
        turned2 = np.ascontiguousarray(self._memory["conv2.weight"].numpy()[:, :, ::-1, ::-1].transpose(1, 0, 2, 3))
        hidden1 = functional.conv2d(convolved2, torch.from_numpy(turned2), padding=KERNEL - 1)
        hidden1 = hidden1.flatten(2).mul_(traces.hidden1.sign())
        planes1 = traces.pool1.spread(hidden1)
        weights2 = torch.bmm(convolved2.flatten(2), traces.patches2)
        weights1 = torch.bmm(planes1.view(batch, 4 * CHANNELS, -1), traces.windows1.transpose(1, 2))
        kernels1 = _taken(weights1.numpy(), self.shape[0])
        biases1, biases2, biases = hidden1.sum(2).numpy(), hidden2.sum((2, 3)).numpy(), left.numpy()
        parts = [biases1, kernels1, biases2, weights2.numpy(), biases]
        entered, found = traces.hidden2.flatten(1), dict[str, Gradients]()
        if self._forms_full:
            parts.append(biases[:, :, np.newaxis] * entered.numpy()[:, np.newaxis])
        else:
            found["full.weight"] = Products(left, entered)
        rows = np.concatenate([part.reshape(batch, -1) for part in parts], axis=1, dtype=np.float64)
        found["conv1.bias"] = Rows(rows, self._order)
        return found

    def _forward(self, inputs: Tensor) -> Traces:
        memory, batch = self._memory, len(inputs)
        windows1 = _windows(inputs, self._squares1)
        kernels1 = torch.from_numpy(_placed(memory["conv1.weight"].numpy())).expand(batch, -1, -1)
        pool1 = Pool(torch.bmm(kernels1, windows1).view(batch, CHANNELS, 2, 2, -1))
        hidden1 = (pool1.top + memory["conv1.bias"][:, None]).relu_()
        patches2 = _patches(hidden1.view(batch, CHANNELS, *self._squares1), self._squares2)
        kernels2 = memory["conv2.weight"].numpy().transpose(0, 2, 3, 1).reshape(CHANNELS, -1)
        convolved2 = kernels2 @ patches2.numpy().transpose(0, 2, 1)
        pool2 = Pool(_planes(torch.from_numpy(convolved2), self._squares2))
        hidden2 = (pool2.top + memory["conv2.bias"][:, None, None]).relu_()
        scores = torch.from_numpy(product(hidden2.flatten(1).numpy(), memory["full.weight"].numpy().T))
        scores += memory["full.bias"]
        return Traces(windows1, pool1, hidden1, patches2, pool2, hidden2, scores)


def _order(sizes: Mapping[str, int]) -> NDArray[np.int64]:
    """Where each parameter of a row is, whose second kernels come as `_patches` has their taps."""
    places = np.arange(sum(sizes.values()))
    start = sizes["conv1.bias"] + sizes["conv1.weight"] + sizes["conv2.bias"]
    kernels2 = places[start : start + sizes["conv2.weight"]].reshape(CHANNELS, KERNEL**2, CHANNELS)
    kernels2[:] = kernels2.transpose(0, 2, 1).reshape(kernels2.shape)
    return places


def _places() -> Matrix:
    """[25, 4 * 36]: ones where the taps of a kernel are in a window, for each of its places (row, column) there."""
    windows = np.zeros((KERNEL**2, 2, 2, WINDOW, WINDOW), dtype=np.float32)
    kernels = np.eye(KERNEL**2, dtype=np.float32).reshape(-1, KERNEL, KERNEL)
    for row, column in itertools.product(range(2), repeat=2):
        windows[:, row, column, row : row + KERNEL, column : column + KERNEL] = kernels
    return windows.reshape(KERNEL**2, -1)


_PLACES = _places()


def _placed(kernels: Matrix) -> Matrix:
    """[1, 4 * outputs, taps of a window] from kernels [outputs, channels, 5, 5]: each at its places in a window."""
    outputs, channels = kernels.shape[:2]
    windows = (kernels.reshape(-1, KERNEL**2) @ _PLACES).reshape(outputs, channels, 4, -1)
    return windows.transpose(0, 2, 1, 3).reshape(1, 4 * outputs, -1)


def _taken(windows: Matrix, channels: int) -> Matrix:
    """[batch, outputs * channels, 25]: the other way, from [batch, 4 * outputs, taps of a window]; the places added."""
    batch = len(windows)
    turned = windows.reshape(batch, -1, 4, channels, WINDOW**2).transpose(0, 1, 3, 2, 4)
    return turned.reshape(batch, -1, 4 * WINDOW**2) @ _PLACES.T


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
