"""A network as a model: parameters in one flat buffer, per-record gradients from its circuit, clipped and summed.

Symbols: C -> clip_norm, d -> layout.size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from common.models.circuit import Circuit, Slopes
from common.models.clipping import UNDERFLOW, clip_factors
from common.models.images import batch_values, framed
from common.models.layers import Gradients
from common.models.loss import Scores
from common.models.softmax import CrossEntropy
from common.models.spec import Inputs, Labels, Sum
from common.tensors import Flat, Layout, Tensors

_ROWS = 64  # records of one pass: with more, the temporary arrays outgrow the caches and the step gets slower


class Network:
    """A `ModelSpec` that ends in softmax and cross-entropy.

    Not for two threads at once: each call copies the parameters into the one buffer that the circuit reads.
    """

    def __init__(self, circuit: Circuit, shape: tuple[int, ...] | None = None) -> None:
        """Binds the circuit to a buffer of its own.

        Args:
            circuit: the computation.
            shape: of one raw record, which is framed with zeros up to the circuit's; none: the circuit's.
        """
        self.shape = shape or circuit.shape
        self.classes = circuit.classes
        self.lipschitz: float | None = None
        self.smoothness: float | None = None
        self._loss = CrossEntropy()
        self.gap = self._loss.gap(circuit.classes)
        self.layout = Layout.of(circuit.parameters)
        self._circuit = circuit
        self._buffer = self.layout.zeros()
        memory = torch.from_numpy(self._buffer)
        self._starts = dict(zip(dict(self.layout.shapes), self.layout.offsets, strict=True))
        circuit.bind(
            {name: memory[self._starts[name] :][: math.prod(shape)].view(shape) for name, shape in self.layout.shapes}
        )

    def init(self, rng: np.random.Generator) -> Tensors:
        """He's normal values for matrices and kernels, ones for scales, zeros for biases."""
        arrays = {}
        for name, shape in self.layout.shapes:
            if len(shape) > 1:
                deviation = math.sqrt(2.0 / math.prod(shape[1:]))
                arrays[name] = (rng.standard_normal(shape) * deviation).astype(np.float32)
            else:
                arrays[name] = np.full(shape, float(name.endswith("weight")), dtype=np.float32)
        return Tensors.of(arrays)

    def prepare(self, inputs: NDArray[np.generic], scale: float) -> Inputs:
        """[n, *circuit.shape] uint8 (when bytes of scale 255) or float32, see `images`."""
        return framed(inputs, scale, self.shape, self._circuit.shape)

    def clipped_sum(self, flat: Flat, inputs: Inputs, labels: Labels, clip_norm: float) -> Sum:
        """[d] the sum of the clipped gradients; see `ModelSpec`."""
        clip_factors(np.zeros(0), clip_norm)  # a bad bound is refused even if the batch is empty
        total = np.zeros(self.layout.size)
        np.copyto(self._buffer, flat)
        for rows in _parts(labels):
            self._add_clipped(total, batch_values(inputs[rows]), labels[rows], clip_norm)
        return total

    def gradient_sum(self, flat: Flat, inputs: Inputs, labels: Labels) -> Flat:
        """[d] the sum of the gradients."""
        total = self.layout.zeros()
        np.copyto(self._buffer, flat)
        for rows in _parts(labels):
            sums = self._circuit.totals(torch.from_numpy(batch_values(inputs[rows])), self._slopes(labels[rows]))
            self._add(total, sums)
        return total

    def losses(self, flat: Flat, inputs: Inputs, labels: Labels) -> NDArray[np.float64]:
        """[batch] the loss of each record."""
        with np.errstate(all="ignore"):
            return self._loss.losses(self._scores(flat, inputs), labels)

    def norms(self, flat: Flat, inputs: Inputs, labels: Labels) -> NDArray[np.float64]:
        """[batch] the gradient norm of each record."""
        result = np.empty(len(labels))
        np.copyto(self._buffer, flat)
        for rows in _parts(labels):
            result[rows] = np.sqrt(self._squares(self._gradients(batch_values(inputs[rows]), labels[rows])))
        return result

    def predict(self, flat: Flat, inputs: Inputs) -> NDArray[np.int64]:
        """[batch] the label with the best score."""
        return self._loss.predictions(self._scores(flat, inputs))

    def assess(self, flat: Flat, inputs: Inputs, labels: Labels) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Losses and predictions from one forward pass."""
        scores = self._scores(flat, inputs)
        with np.errstate(all="ignore"):
            return self._loss.losses(scores, labels), self._loss.predictions(scores)

    def _add_clipped(self, total: Sum, values: NDArray[np.float32], labels: Labels, clip_norm: float) -> None:
        found = self._gradients(values, labels)
        squares = self._squares(found)
        finite = np.isfinite(squares)
        if finite.all():
            factors = torch.from_numpy(clip_factors(squares, clip_norm))
            self._add(total, {name: gradients.total(factors) for name, gradients in found.items()})
        elif finite.any():
            # once more without them: a factor of 0 would not do, since 0 * NaN is not 0
            self._add_clipped(total, values[finite], labels[finite], clip_norm)

    def _add(self, total: Flat | Sum, sums: Mapping[str, Tensor]) -> None:
        """Adds what a circuit found, each from the place of its parameter on."""
        added = 0
        for name, values in sums.items():
            place = slice(self._starts[name], self._starts[name] + values.numel())
            total[place] += values.numpy().ravel()
            added += values.numel()
        assert added == total.size, f"gradients of {added} parameters: expected {total.size}"

    def _gradients(self, values: NDArray[np.float32], labels: Labels) -> Mapping[str, Gradients]:
        return self._circuit.gradients(torch.from_numpy(values), self._slopes(labels))

    def _squares(self, found: Mapping[str, Gradients]) -> NDArray[np.float64]:
        """[batch] the squared norm of each record's whole gradient."""
        first, *others = (gradients.squares().numpy() for gradients in found.values())
        squares = first.astype(np.float64) + self.layout.size * UNDERFLOW
        for part in others:
            squares += part
        return squares

    def _slopes(self, labels: Labels) -> Slopes:
        def slopes(scores: Tensor) -> Tensor:
            with np.errstate(all="ignore"):
                residuals = self._loss.residuals(scores.numpy().astype(np.float64), labels)
            return torch.from_numpy(residuals.astype(np.float32))

        return slopes

    def _scores(self, flat: Flat, inputs: Inputs) -> Scores:
        np.copyto(self._buffer, flat)
        result = np.empty((len(inputs), self.classes))
        for rows in _parts(inputs):
            result[rows] = self._circuit.scores(torch.from_numpy(batch_values(inputs[rows]))).numpy()
        return result


def _parts(rows: NDArray[np.generic]) -> Iterator[slice]:
    return (slice(start, start + _ROWS) for start in range(0, len(rows), _ROWS))
