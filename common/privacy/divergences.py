"""The Renyi divergence D of one step at any order, from the law of its loss; no library, milliseconds, remembered.

With p' against p, loss L = log p'/p under p', and r = 1 - q + q exp(L):

    no sampling     E' exp((a-1) L)
    poisson         the larger of E r^a (the record removed) and E r^(1-a) (added), E under p: weight exp(-L)
    fixed size      E exp((a-1) L) of the pair that dominates (`dots.replaced`): domination carries over, as a Renyi
                    divergence is a sum of hockey-stick divergences with positive weights

each a logarithm over a - 1. A pure step is never above its epsilon, a Gaussian one never above its unsampled a s^2/2.

Symbols: a -> order, q -> rate, s -> shift.
Source: Mironov 2017; Mironov, Talwar and Zhang 2019; van Erven and Harremoes 2014 (convexity).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from common.privacy.dots import amplified
from common.privacy.losses import GaussianLoss, Numbers, SwappedGaussianLoss
from common.privacy.renyi import ORDERS, curve, epsilon_of
from common.privacy.steps import Step

Counts = Mapping[Step, int]

KNOTS = (1.1, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0, 128.0, 256.0, 512.0, 1024.0)
"""Orders at which the curve is worked out; what lies between is bounded by chords."""

_NO_SAMPLING = 8.0  # shift of a Gaussian step from which a law that holds every order would be too wide


def rdp_epsilon(steps: Counts, dp_delta: float) -> float:
    """Epsilon of all `steps` together, on the orders of dp-accounting, which has the curves of the Gaussian ones."""
    import dp_accounting  # noqa: PLC0415  # a second and 100 MB that a run without a question does not pay
    from dp_accounting import rdp  # noqa: PLC0415

    accountant = rdp.RdpAccountant()
    whole = np.zeros(len(accountant.orders))
    for step, count in steps.items():
        if isinstance(step.loss, GaussianLoss):
            gaussian = dp_accounting.GaussianDpEvent(1 / step.loss.shift)
            accountant.compose(dp_accounting.PoissonSampledDpEvent(step.rate, gaussian), count)
        else:
            whole += count * chords(step, accountant.orders)
    return float(rdp.compute_epsilon(accountant.orders, accountant.rdp + whole, dp_delta)[0])


def quick_epsilon(steps: Counts, dp_delta: float) -> float:
    """Epsilon of all `steps` together, on integer orders."""
    whole = np.zeros(ORDERS.size)
    for step, count in steps.items():
        if isinstance(step.loss, GaussianLoss) and step.thinning == "poisson":
            whole += count * curve(step.rate, 1 / step.loss.shift)
        else:
            whole += count * divergences(step, tuple(ORDERS.tolist()))
    return epsilon_of(whole, dp_delta)


@lru_cache(maxsize=256)
def divergences(step: Step, orders: tuple[float, ...]) -> Numbers:
    """[orders] the divergence of one `step` at each of `orders`, all above 1; or a bound on it."""
    order = np.array(orders)
    if isinstance(step.loss, SwappedGaussianLoss):
        return divergences(Step(GaussianLoss(step.loss.shift), "fixed", step.loss.sampling_rate), orders)
    if isinstance(step.loss, GaussianLoss):
        unsampled = order * step.loss.shift**2 / 2
        if step.thinning == "none" or step.loss.shift > _NO_SAMPLING:
            return unsampled
        return np.minimum(unsampled, _from_law(step, order))
    whole = np.minimum(step.loss.shift, order * step.loss.shift**2 / 2)  # of any pure mechanism (Bun and Steinke 2016)
    return np.minimum(whole, _from_law(step, order))


def chords(step: Step, orders: Numbers) -> Numbers:
    """[orders] a bound on the divergence at each of `orders`, 1024 at most: exact at `KNOTS`.

    (a-1) D is convex in a and 0 at a = 1, so it lies below its chords.
    """
    knots = np.array((1.0, *KNOTS))
    values = np.concatenate([[0.0], (knots[1:] - 1) * divergences(step, KNOTS)])
    return np.asarray(np.interp(orders, knots, values) / (orders - 1))


def _from_law(step: Step, orders: Numbers) -> Numbers:
    losses, logs = step.loss.law(tilt=float(orders.max()) - 1).points()
    kept = logs > -np.inf
    losses, logs = losses[kept], logs[kept]
    if step.thinning == "none":
        found = [_log_mean(logs, (order - 1) * losses) for order in orders]
    elif step.thinning == "poisson":
        ratio, under = amplified(losses, step.rate), logs - losses
        found = [max(_log_mean(under, order * ratio), _log_mean(under, (1 - order) * ratio)) for order in orders]
    else:
        logs, losses = logs[losses > 0], losses[losses > 0]
        ratio, mirrored = amplified(losses, step.rate), logs - losses
        middle = math.log(max(1e-300, 1 - math.fsum(np.exp(mirrored + ratio)) - math.fsum(np.exp(mirrored))))
        weights = np.concatenate([mirrored + ratio, mirrored, [middle]])
        points = np.concatenate([ratio, -ratio, [0.0]])
        found = [_log_mean(weights, (order - 1) * points) for order in orders]
    return np.maximum(found, 0.0) / (orders - 1)


def _log_mean(log_weights: Numbers, exponents: Numbers) -> float:
    values = log_weights + exponents
    top = float(values.max())
    return top + math.log(float(np.exp(values - top).sum()))
