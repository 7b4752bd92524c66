"""Ratios of modified Bessel functions of the second kind, K_(n+1)(x) / K_n(x), at any order, without overflow.

K_n(x) is the integral of exp(-x cosh(u)) cosh(n u) over u >= 0 (DLMF 10.32.9), here by the trapezoidal rule, which
converges exponentially for such functions. Both integrals use the same points, around the peak of the smaller one.

Symbols: n -> order, x -> argument.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

_POINTS = 4001
_DEPTH = 50  # the integrand is followed to exp(-50) of its peak


def ratio(order: float, argument: float) -> float:
    """K_(order+1)(argument) / K_order(argument) for order >= 0 and argument > 0, to 1e-14 of itself."""

    def log_term(u: NDArray[np.float64] | float) -> NDArray[np.float64]:
        # cosh(u) - 1 = 2 sinh(u/2)^2, without the large constant; log cosh(n u) without overflow
        growth = np.logaddexp(order * u, -order * u) - math.log(2)
        return np.asarray(growth - 2 * argument * np.sinh(u / 2) ** 2)

    peak = math.asinh(order / argument)
    floor = float(log_term(peak)) - _DEPTH
    low = high = 1 / math.sqrt(math.hypot(order, argument) + 1)
    while float(log_term(peak + high)) + high > floor:  # `high` more for the larger integral
        high *= 1.3
    while low < peak and float(log_term(peak - low)) > floor:
        low *= 1.3
    u = np.linspace(max(peak - low, 0.0), peak + high, _POINTS)
    logs = log_term(u)
    terms = np.exp(logs - logs.max())
    terms[0] /= 2  # an even function, cut at 0; elsewhere there is nothing at the end
    with_next = np.cosh(u) + np.sinh(u) * np.tanh(order * u)  # cosh((n+1) u) / cosh(n u)
    return float((terms @ with_next) / terms.sum())
