"""Renyi divergences at the integer orders: a bound on epsilon that takes microseconds and no library.

Never below what the accountant finds, and a few percent above its RDP unless the best order is below 2 (little
noise, large epsilon). Good for planning and for a number on the way; what a run claims comes from the accountant.

Symbols: a -> order, q -> rate, z -> noise_multiplier.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

ORDERS = np.arange(2, 129)
Curve = NDArray[np.float64]
"""[orders] a divergence at each of `ORDERS`; curves of independent releases add up."""


@lru_cache(maxsize=4096)
def curve(rate: float, noise_multiplier: float) -> Curve:
    """Renyi divergence of one Poisson-sampled Gaussian release, for a record added or removed.

    log(sum_k C(a, k) (1-q)^(a-k) q^k exp(k(k-1)/(2 z^2))) / (a-1), Mironov, Talwar and Zhang 2019. Without the
    exponentials the sum is 1; so it is 1 + sum_(k>1) of the terms with exp(..) - 1, all positive: small ones count.
    """
    if rate >= 1:
        return ORDERS / (2 * noise_multiplier**2)
    top = int(ORDERS[-1])
    log_factorial = np.array([math.lgamma(k + 1) for k in range(top + 1)])
    order, k = ORDERS[:, np.newaxis], np.arange(top + 1)[np.newaxis, :]
    rest, power = np.maximum(order - k, 0), np.maximum(k * (k - 1), 1) / (2 * noise_multiplier**2)
    terms = (
        log_factorial[order] - log_factorial[k] - log_factorial[rest]
        + rest * math.log1p(-rate) + k * math.log(rate) + power + np.log(-np.expm1(-power))
    )  # fmt: skip
    terms = np.where((k > 1) & (k <= order), terms, -np.inf)
    return np.asarray(np.logaddexp(0.0, np.logaddexp.reduce(terms, axis=1)) / (ORDERS - 1))


def epsilon_of(total: Curve, dp_delta: float) -> float:
    """The epsilon at dp_delta of releases whose curves add up to `total`.

    Canonne, Kamath and Steinke 2020, Proposition 12.
    """
    loss = total + np.log1p(-1 / ORDERS) - np.log(dp_delta * ORDERS) / (ORDERS - 1)
    return float(max(0.0, loss.min()))
