"""Binary logistic regression on one row of weights: d = features + 1.

Source: the MAPA paper's logistic regression in its two-way form. Symbols: z -> score, y -> label (0 or 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from common.errors import ConfigError, Fault
from common.models.linear import LinearModel
from common.models.loss import Scores
from common.models.spec import Labels


@dataclass(frozen=True)
class LogLoss:
    """log(1 + exp(z)) - y z; its first derivative lies in (-1, 1), its second in (0, 1/4]."""

    lipschitz: float = 1.0
    smoothness: float = 0.25

    def outputs(self, classes: int) -> int:
        """One score decides between two labels.

        Raises:
            ConfigError: the data set has another number of classes.
        """
        if classes != 2:
            raise ConfigError(
                Fault("model.name", "logistic", f"a data set of 2 classes, not {classes} (data.classes: halves)")
            )
        return 1

    def gap(self, classes: int) -> float:
        """The logarithm of 2."""
        return math.log(classes)

    def losses(self, scores: Scores, labels: Labels) -> NDArray[np.float64]:
        """[batch] the loss of each record."""
        score = scores[:, 0]
        # written for the score's sign at the true label, because log(1 + exp(z)) - z cancels for large z
        result: NDArray[np.float64] = np.logaddexp(0.0, np.where(labels > 0, -score, score))
        return result

    def residuals(self, scores: Scores, labels: Labels) -> NDArray[np.float64]:
        """[batch, 1] probability of label 1, less the label."""
        result: NDArray[np.float64] = 1.0 / (1.0 + np.exp(-scores)) - labels[:, None]
        return result

    def predictions(self, scores: Scores) -> NDArray[np.int64]:
        """[batch] 1 where the score is positive."""
        return (scores[:, 0] > 0).astype(np.int64)


def build(shape: tuple[int, ...], classes: int) -> LinearModel:
    """Binary logistic regression on unit features."""
    return LinearModel(LogLoss(), shape, classes)
