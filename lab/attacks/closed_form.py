"""Inverts the gradient of a linear model in closed form: the weight gradient over the bias gradient is the record.

Source: MAPA (arXiv 1912.07902), Fig. 4; Phong et al. 2018, section 3. The gradient of one record is the outer product
of its residual r [outputs] and its unit features (x / |x|, 0.3) / sqrt(1.09), so that every row is a multiple of the
record, and the row's last entry, the bias gradient, says of which sign.

Under noise one row is a poor witness. The best estimate of an outer product in white noise is the leading pair of
singular vectors, which weighs all rows by what they hold; of a gradient without noise it is each row.

What the features do not hold cannot come back: the brightness |x|. The brightest pixel is taken to be white.
A sum over more than one record is a mix of outer products, and what comes back is a mix of the records.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.attacks.similarity import Picture


def invert(gradient: NDArray[Any], shape: tuple[int, ...]) -> tuple[Picture, int | None]:
    """The record behind a gradient, and its label.

    Args:
        gradient: [outputs, features + 1], the last column that of the bias.
        shape: of the picture, whose pixels are not negative.

    Returns:
        The picture, its brightest pixel 1, and the label; black and None where the gradient is zero.
    """
    left, strengths, right = np.linalg.svd(np.asarray(gradient, dtype=np.float64), full_matrices=False)
    if strengths[0] == 0:
        return np.zeros(shape), None
    # features and bias are positive, so their sum knows the sign, and better than the bias alone under noise
    sign = 1.0 if right[0].sum() >= 0 else -1.0
    return _white(sign * right[0, :-1]).reshape(shape), _label(sign * left[:, 0])


def _white(features: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scaled so that the brightest is 1; nothing is darker than black."""
    brightest = features.max(initial=0.0)
    return np.clip(features / brightest, 0.0, 1.0) if brightest > 0 else np.zeros(features.shape)


def _label(residual: NDArray[np.float64]) -> int:
    """Only the true label pulls its score up: the residual is negative there."""
    return int(residual[0] < 0) if residual.size == 1 else int(residual.argmin())
