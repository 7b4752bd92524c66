"""The noise that an event promises, and its second moment.

Symbols: kappa -> E|noise|^2 / dS^2 with dS = 2C/b, C -> clip_norm, b -> batch_size, d -> dimension.
Source: design of the stage controllers; MAPA (arXiv 1912.07902) has kappa = 2/eps^2, the case d = 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from common.errors import UnsupportedEvent
from common.events import Event, Mechanism
from common.privacy.gaussian import Gaussian
from common.privacy.laplace import ExponentialRadius, SphericalLaplace


class Noise(Protocol):
    """A law of noise vectors, up to a scale."""

    def scale(self, unit: float) -> float:
        """The scale, where one record added or removed moves the released vector by at most `unit` (l2)."""
        ...

    def draw(self, dimension: int, scale: float, rng: np.random.Generator) -> NDArray[np.float64]:
        """A noise vector [dimension]."""
        ...

    def second_moment(self, dimension: int, scale: float) -> float:
        """Expected squared norm."""
        ...

    def longest(self, dimension: int, scale: float, nats: float) -> float:
        """Norm that a draw exceeds with probability at most exp(-nats)."""
        ...


def _gaussian(event: Event) -> Noise:
    if event.noise_multiplier is None:
        raise UnsupportedEvent(f"noise_multiplier of {event!r}: expected a value, for Gaussian noise")
    return Gaussian(event.noise_multiplier)


def _spherical(event: Event) -> Noise:
    if event.epsilon is None:
        raise UnsupportedEvent(f"epsilon of {event!r}: expected a value, for spherical Laplace noise")
    return SphericalLaplace(event.epsilon)


def _literal(event: Event) -> Noise:
    return _gaussian(event) if event.epsilon is None else ExponentialRadius(event.epsilon)


MECHANISMS: Mapping[Mechanism, Callable[[Event], Noise | None]] = MappingProxyType(
    {"gaussian": _gaussian, "spherical-laplace": _spherical, "paper": _literal, "none": lambda _event: None}
)


def noise_of(event: Event) -> Noise | None:
    """The noise law of one release; None if it has none.

    Raises:
        UnsupportedEvent: the event lacks its mechanism's parameter.
    """
    return MECHANISMS[event.mechanism](event)


def kappa(event: Event, dimension: int) -> float:
    """Expected squared noise norm of a release over the squared sensitivity dS = 2C/b; 0 without noise."""
    noise = noise_of(event)
    return 0.0 if noise is None else noise.second_moment(dimension, noise.scale(0.5))
