"""Linear multiclass support vector machine: d = classes * (features + 1).

Source: Crammer and Singer 2001, the multiclass hinge; the MAPA paper's ten-way SVM. Symbols: z -> scores, y -> label.
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
class Hinge:
    """max(0, 1 + max_{j != y} z_j - z_y), whose residual is e_j - e_y or 0, of norm at most sqrt(2).

    The hinge has kinks, so no finite smoothness holds for it. The value given is that of its smooth upper bound
    log sum_j exp(z_j + [j != y]) - z_y, which exceeds it by at most ln(classes): as for softmax, 1/2. It is a
    start for a controller, not a guarantee. At a kink the residual belongs to the first of the equal scores, and
    to none where the loss is zero.
    """

    lipschitz: float = math.sqrt(2.0)
    smoothness: float = 0.5

    def outputs(self, classes: int) -> int:
        """One score for each label."""
        return classes

    def gap(self, classes: int) -> float:
        """1: the loss of equal scores."""
        return 1.0

    def losses(self, scores: Scores, labels: Labels) -> NDArray[np.float64]:
        """[batch] the loss of each record."""
        return self._worst(scores, labels)[1]

    def residuals(self, scores: Scores, labels: Labels) -> NDArray[np.float64]:
        """[batch, classes] one at the worst label, minus one at the true one."""
        rows = np.arange(len(labels))
        worst, losses = self._worst(scores, labels)
        result = np.zeros(scores.shape)
        # the sign is 0, 1 or not a number: a loss that is not finite must show in its own row
        active = np.sign(losses)
        result[rows, worst] += active
        result[rows, labels] -= active
        return result

    def predictions(self, scores: Scores) -> NDArray[np.int64]:
        """[batch] the first label with the highest score."""
        best: NDArray[np.int64] = scores.argmax(axis=1)
        return best

    @staticmethod
    def _worst(scores: Scores, labels: Labels) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        rows = np.arange(len(labels))
        raised = scores + 1.0
        raised[rows, labels] -= 1.0
        worst = raised.argmax(axis=1)
        # the label's own raised score, not the given one: adding and taking off 1 may round
        losses: NDArray[np.float64] = raised[rows, worst] - raised[rows, labels]
        return worst, losses


def build(shape: tuple[int, ...], classes: int) -> LinearModel:
    """A linear support vector machine on unit features."""
    return LinearModel(Hinge(), shape, classes)
