"""Softmax (multinomial logistic) regression, and the cross-entropy that networks end in.

Source: the MAPA paper's logistic regression in its ten-way form; d = classes * (features + 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from common.models.linear import LinearModel
from common.models.loss import Scores
from common.models.spec import Labels


@dataclass(frozen=True)
class CrossEntropy:
    """log sum_j exp(z_j) - z_y.

    The residual is p - e_y with probabilities p, of norm at most sqrt(2); the Hessian diag(p) - p p^T has no
    eigenvalue above 1/2.
    """

    lipschitz: float = math.sqrt(2.0)
    smoothness: float = 0.5

    def outputs(self, classes: int) -> int:
        """One score for each label."""
        return classes

    def gap(self, classes: int) -> float:
        """The logarithm of `classes`."""
        return math.log(classes)

    def losses(self, scores: Scores, labels: Labels) -> NDArray[np.float64]:
        """[batch] the loss of each record."""
        top = scores.max(axis=1)
        picked = scores[np.arange(len(labels)), labels]
        sums: NDArray[np.float64] = np.log(np.exp(scores - top[:, None]).sum(axis=1))
        sums += top - picked
        return sums

    def residuals(self, scores: Scores, labels: Labels) -> NDArray[np.float64]:
        """[batch, classes] probabilities, less one at the label."""
        result: NDArray[np.float64] = np.exp(scores - scores.max(axis=1, keepdims=True))
        result /= result.sum(axis=1, keepdims=True)
        result[np.arange(len(labels)), labels] -= 1.0
        return result

    def predictions(self, scores: Scores) -> NDArray[np.int64]:
        """[batch] the first label with the highest score."""
        best: NDArray[np.int64] = scores.argmax(axis=1)
        return best


def build(shape: tuple[int, ...], classes: int) -> LinearModel:
    """Softmax regression on unit features."""
    return LinearModel(CrossEntropy(), shape, classes)
