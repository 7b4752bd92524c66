"""What an event is to the accountant: a privacy loss, and how sampling thins it out.

| event | add_remove | replace_one |
|---|---|---|
| gaussian of multiplier z | shift 1/z | shift 2/z |
| spherical-laplace of epsilon, dimension d | shift epsilon/2 | shift epsilon |
| the same, dimension unknown | any mechanism of pure epsilon/2 | of pure epsilon |
| poisson, rate q < 1 | thinned in both directions | gaussian: the pair with both records in; else as fixed |
| fixed, rate q < 1 | refused: the batch size would not be fixed | thinned, advanced joint convexity |

Symbols: z -> noise_multiplier, q -> rate, d -> dimension.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from common.errors import UnsupportedEvent
from common.events import Event
from common.privacy.dots import Dots, added, connect, removed, replaced
from common.privacy.losses import GaussianLoss, LaplaceLoss, Loss, PureLoss, SphericalLoss, SwappedGaussianLoss

Thinning = Literal["none", "poisson", "fixed"]


@dataclass(frozen=True)
class Step:
    """One release: the loss if the record is in the batch, and how it gets there."""

    loss: Loss
    thinning: Thinning = "none"
    rate: float = 1.0


def step_of(event: Event) -> Step:
    """The step of an event that has a guarantee.

    Raises:
        UnsupportedEvent: the number that says how much noise there was is missing, or fixed-size batches are to be
            counted under add_remove.
    """
    is_replaced = event.adjacency == "replace_one"
    if event.sampling == "fixed" and not is_replaced:
        raise UnsupportedEvent("fixed-size batches under add_remove: expected replace_one")
    loss = _loss(event, is_replaced)
    if event.sampling == "all" or event.sampling_rate == 1:
        return Step(loss)
    if event.sampling == "poisson" and not is_replaced:
        return Step(loss, "poisson", event.sampling_rate)
    if event.sampling == "poisson" and isinstance(loss, GaussianLoss):
        return Step(SwappedGaussianLoss(loss.shift, event.sampling_rate))
    return Step(loss, "fixed", event.sampling_rate)


def _loss(event: Event, is_replaced: bool) -> Loss:
    if event.mechanism == "gaussian":
        if event.noise_multiplier is None:
            raise UnsupportedEvent(f"noise_multiplier of {event!r}: expected a value")
        return GaussianLoss((2 if is_replaced else 1) / event.noise_multiplier)
    if event.epsilon is None:
        raise UnsupportedEvent(f"epsilon of {event!r}: expected a value")
    shift = event.epsilon if is_replaced else event.epsilon / 2
    if event.dimension is None:
        return PureLoss(shift)
    return LaplaceLoss(shift) if event.dimension == 1 else SphericalLoss(event.dimension, shift)


@lru_cache(maxsize=128)
def dots_of(step: Step) -> tuple[Dots, Dots]:
    """The step's loss on dots, if the record is in the first data set and if it is in the second.

    One and the same object twice where there is no difference.
    """
    dots = connect(step.loss.law())
    if step.thinning == "none":
        return dots, dots
    if step.thinning == "poisson":
        return removed(dots, step.rate), added(dots, step.rate)
    dots = replaced(dots, step.rate)
    return dots, dots
