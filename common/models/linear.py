"""Linear models in closed form: scores are weights times unit features, the loss is a part.

Symbols: x_i -> row of inputs, r_i -> residual (derivative of the loss by the scores). The gradient of one record
is the outer product r_i x_i^T, so its norm is |r_i| |x_i| and no per-record gradient is ever formed: the residual
rows are scaled and one matrix product gives the clipped sum.

Scores come from `blocks`, so that a record's gradient does not depend on who else is in the batch.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from common.models.blocks import product
from common.models.clipping import clip_factors, row_squares
from common.models.features import unit_features
from common.models.loss import Loss, Scores
from common.models.spec import Inputs, Labels, Sum
from common.tensors import Flat, Layout, Tensors


class LinearModel:
    """A `ModelSpec` of one weight matrix [outputs, features + 1]; the last column is the bias."""

    def __init__(self, loss: Loss, shape: tuple[int, ...], classes: int) -> None:
        """Sized by the shape of a record and the number of labels; `loss` decides on the rest.

        Raises:
            ConfigError: the loss does not fit that number of classes.
        """
        self.shape = shape
        self.classes = classes
        self.lipschitz: float | None = loss.lipschitz
        self.smoothness: float | None = loss.smoothness
        self.gap = loss.gap(classes)
        self._loss = loss
        self._matrix = (loss.outputs(classes), math.prod(shape) + 1)
        self.layout = Layout.of({"weight": self._matrix})

    def init(self, rng: np.random.Generator) -> Tensors:
        """Zeros."""
        return Tensors(self.layout, self.layout.zeros())

    def prepare(self, inputs: NDArray[np.generic], scale: float) -> NDArray[np.float32]:
        """[n, features + 1] unit features, see `features`."""
        return unit_features(inputs, scale, self.shape)

    def clipped_sum(self, flat: Flat, inputs: Inputs, labels: Labels, clip_norm: float) -> Sum:
        """[d] the sum of the clipped gradients; see `ModelSpec`."""
        rows = inputs.astype(np.float32, copy=False)
        with np.errstate(all="ignore"):
            residuals = self._loss.residuals(self._scores(flat, rows), labels)
            wide = rows.astype(np.float64)
            squares = np.square(residuals).sum(axis=1) * row_squares(wide)
            residuals *= clip_factors(squares, clip_norm)[:, None]
            finite = np.isfinite(squares)
            if np.count_nonzero(finite) < len(finite):
                residuals, wide = residuals[finite], wide[finite]
            total: Sum = (residuals.T @ wide).ravel()
            return total

    def gradient_sum(self, flat: Flat, inputs: Inputs, labels: Labels) -> Flat:
        """[d] the sum of the gradients."""
        rows = inputs.astype(np.float32, copy=False)
        with np.errstate(all="ignore"):
            residuals = self._loss.residuals(self._scores(flat, rows), labels).astype(np.float32)
            return np.asarray(residuals.T @ rows, dtype=np.float32).ravel()

    def losses(self, flat: Flat, inputs: Inputs, labels: Labels) -> NDArray[np.float64]:
        """[batch] the loss of each record."""
        with np.errstate(all="ignore"):
            return self._loss.losses(self._scores(flat, inputs), labels)

    def norms(self, flat: Flat, inputs: Inputs, labels: Labels) -> NDArray[np.float64]:
        """[batch] the gradient norm of each record."""
        rows = inputs.astype(np.float32, copy=False)
        with np.errstate(all="ignore"):
            residuals = self._loss.residuals(self._scores(flat, rows), labels)
            result: NDArray[np.float64] = np.sqrt(
                np.square(residuals).sum(axis=1) * row_squares(rows.astype(np.float64))
            )
        return result

    def predict(self, flat: Flat, inputs: Inputs) -> NDArray[np.int64]:
        """[batch] the label with the best score."""
        with np.errstate(all="ignore"):
            return self._loss.predictions(self._scores(flat, inputs))

    def assess(self, flat: Flat, inputs: Inputs, labels: Labels) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Losses and predictions from one matrix product."""
        with np.errstate(all="ignore"):
            scores = self._scores(flat, inputs)
            return self._loss.losses(scores, labels), self._loss.predictions(scores)

    def _scores(self, flat: Flat, inputs: Inputs) -> Scores:
        rows = inputs.astype(np.float32, copy=False)
        return product(rows, flat.reshape(self._matrix).T).astype(np.float64)
