"""What every model offers, as a protocol; arrays are NumPy, parameters one flat float32 vector.

Symbols: d -> layout.size, G -> lipschitz, L -> smoothness, C -> clip_norm, f(x1) - f* -> gap.
The l2 regulariser is in none of these functions: it does not depend on the data, so it needs no noise.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from common.tensors import Flat, Layout, Tensors

Inputs = NDArray[np.float32 | np.uint8]
Labels = NDArray[np.int64]
Sum = NDArray[np.float64]


class ModelSpec(Protocol):
    """A model: what it is called on the wire, and what it computes from parameters and records.

    `inputs` are rows of what `prepare` returned. No function writes to an array it is given.
    """

    @property
    def layout(self) -> Layout:
        """Names and shapes of the parameters."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one raw record, as `prepare` takes it."""

    @property
    def classes(self) -> int:
        """Number of labels."""

    @property
    def lipschitz(self) -> float | None:
        """A public bound on the norm of one record's gradient, or None where there is none."""

    @property
    def smoothness(self) -> float | None:
        """A public bound on how fast the gradient of the mean loss changes, or None where there is none."""

    @property
    def gap(self) -> float:
        """The loss at equal scores: about how far the first parameters are above the best ones."""

    def init(self, rng: np.random.Generator) -> Tensors:
        """The first parameters; the same generator state gives the same numbers."""

    def prepare(self, inputs: NDArray[np.generic], scale: float) -> Inputs:
        """Once per shard: raw records [n, *shape], whose values divided by `scale` are the features.

        Raises:
            DataError: records of another shape, or a scale that is not positive.
        """

    def clipped_sum(self, flat: Flat, inputs: Inputs, labels: Labels, clip_norm: float) -> Sum:
        """[d] the sum of the records' gradients, each scaled down to an l2 norm of at most `clip_norm`.

        A record whose gradient, or its norm, is not finite counts as the zero vector and leaves the others as
        they are; an empty batch gives zeros. The gradients are added in float64, each through at most as many
        roundings as there are records (`lattice.rounding_apart` counts on that).

        Raises:
            SensitivityError: `clip_norm` is not finite and positive.
        """

    def gradient_sum(self, flat: Flat, inputs: Inputs, labels: Labels) -> Flat:
        """[d] the sum of the records' gradients as they are: no bound, no privacy."""

    def losses(self, flat: Flat, inputs: Inputs, labels: Labels) -> NDArray[np.float64]:
        """[batch] the loss of each record."""

    def norms(self, flat: Flat, inputs: Inputs, labels: Labels) -> NDArray[np.float64]:
        """[batch] the l2 norm of each record's gradient, never below the true one."""

    def predict(self, flat: Flat, inputs: Inputs) -> NDArray[np.int64]:
        """[batch] the likeliest label of each record."""

    def assess(self, flat: Flat, inputs: Inputs, labels: Labels) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """`losses` and `predict` for the price of one."""
