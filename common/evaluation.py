"""How good parameters are on a held-out set: accuracy, mean loss, and how long the gradient is there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from common.errors import DataError
from common.models.spec import Inputs, Labels, ModelSpec
from common.tensors import Flat


@dataclass(frozen=True)
class Score:
    """`accuracy`: share of records labelled right. `loss`: mean; not finite if the model has diverged."""

    accuracy: float
    loss: float


def gradient_norm(model: ModelSpec, flat: Flat, inputs: Inputs, labels: Labels, batch: int = 1024) -> float:
    """The l2 norm of the mean gradient over the records, without the regulariser; arguments as of `evaluate`."""
    total = np.zeros(model.layout.size)
    for start in range(0, len(labels), batch):
        rows = slice(start, start + batch)
        total += model.gradient_sum(flat, inputs[rows], labels[rows])
    return float(np.linalg.norm(total)) / len(labels)


def evaluate(model: ModelSpec, flat: Flat, inputs: Inputs, labels: Labels, batch: int = 1024) -> Score:
    """Scores parameters on records as `model.prepare` gave them, without the regulariser.

    Args:
        model: the model.
        flat: [d] its parameters.
        inputs: [n, ...] prepared records.
        labels: [n].
        batch: records looked at together; bounds the memory, not the result.

    Raises:
        DataError: there are no records, or not as many labels.
    """
    if len(labels) == 0 or len(inputs) != len(labels):
        raise DataError(
            f"test set: {len(inputs)} records, {len(labels)} labels: expected as many of each, at least one"
        )
    right, loss = 0, 0.0
    for start in range(0, len(labels), batch):
        rows = slice(start, start + batch)
        losses, predictions = model.assess(flat, inputs[rows], labels[rows])
        right += int((predictions == labels[rows]).sum())
        loss += float(losses.sum())
    return Score(accuracy=right / len(labels), loss=loss / len(labels))
