"""A loss on the scores of a model: the part in which the linear models differ, and the last step of a network."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from common.models.spec import Labels

Scores = NDArray[np.float64]


class Loss(Protocol):
    """Losses, their derivatives and the decision, from scores [batch, outputs] in float64.

    A score that is not finite makes the results of its own record not finite, and no other's.
    """

    @property
    def lipschitz(self) -> float:
        """Bound on the norm of one row of `residuals`."""

    @property
    def smoothness(self) -> float:
        """Bound on the change of `residuals` over the change of the scores."""

    def outputs(self, classes: int) -> int:
        """How many scores a record has."""

    def gap(self, classes: int) -> float:
        """The loss at scores of zero; no loss is below zero."""

    def losses(self, scores: Scores, labels: Labels) -> NDArray[np.float64]:
        """[batch] the loss of each record."""

    def residuals(self, scores: Scores, labels: Labels) -> NDArray[np.float64]:
        """[batch, outputs] the derivative of each record's loss by its scores."""

    def predictions(self, scores: Scores) -> NDArray[np.int64]:
        """[batch] the label with the best score."""
