"""Maximum over squares of 2 x 2 pixels, and the way back, by comparing rows and then columns.

Several times faster on a CPU than the general pooling in the default layout. An odd last row or column is left out.
Of equal pixels the upper wins, then the left one.
"""

from __future__ import annotations

import torch
from torch import Tensor


class Pool:
    """The largest of each square of `pictures` [batch, channels, height, width], and where it was.

    The pictures' memory is given up to the pool: `spread` writes its result there.
    """

    def __init__(self, pictures: Tensor) -> None:
        """`top` is [batch, channels, height // 2, width // 2]."""
        self._pictures = pictures
        height, width = (side // 2 * 2 for side in pictures.shape[2:])
        upper, lower = pictures[:, :, 0:height:2, :width], pictures[:, :, 1:height:2, :width]
        rows = torch.maximum(upper, lower)
        left, right = rows[..., 0::2], rows[..., 1::2]
        self.top = torch.maximum(left, right)
        self._lower = lower > upper
        self._right = right > left

    def spread(self, gradient: Tensor) -> Tensor:
        """The gradient [as pictures] of what went in, from that of `top`: zero but where the largest was."""
        rows = gradient.new_empty(self._lower.shape)
        torch.mul(gradient, self._right, out=rows[..., 1::2])
        torch.sub(gradient, rows[..., 1::2], out=rows[..., 0::2])
        height, width = (2 * side for side in gradient.shape[2:])
        result = self._pictures
        result[:, :, height:].zero_()
        result[:, :, :, width:].zero_()
        upper, lower = result[:, :, 0:height:2, :width], result[:, :, 1:height:2, :width]
        torch.mul(rows, self._lower, out=lower)
        torch.sub(rows, lower, out=upper)
        return result
