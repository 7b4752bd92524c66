"""Learning rates that depend on the number of updates only: CSGD, ASGD and AUDP.

Source: MAPA, arXiv 1912.07902: the rate of mini-batch SGD (CSGD), of asynchronous SGD under bounded staleness
    (ASGD), and Theorem 2 (AUDP). All three read 1 / rate_t = floor + slope * sqrt(t + shift):

    algorithm   floor            slope                      shift   clipping, noise
    csgd        L                sigma / (R_x sqrt(b))      1       none
    asgd        L (tau + 1)^2    sigma / (R_x sqrt(b))      1       none
    audp        L (tau + 1)^a    sqrt(Delta_b + 1) / r      0       fixed C, the edges' own noise

Symbols: t -> update (from 1), L -> smoothness, tau -> staleness, sigma -> gradient_std, R_x and r -> radius,
    a -> exponent, b -> batch_size, Delta_b -> variance, C -> clip_norm.
Deviations: r is 1 in the paper (it sets R_x = 1 without saying so); where a constant is not known the settings
    name the fallback. See `docs/algorithms/audp.md`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from cloud.controller import Ask, Continue, Setting, check_control, check_ranges
from cloud.stages import sensitivity_of, variance_of
from common.errors import LocalProtocolError
from common.section import Positive, Section
from common.tensors import Flat

UNKNOWN_SMOOTHNESS = 10.0
UNKNOWN_BOUND = 10.0


class PlainSettings(Section):
    """What the cloud reads for CSGD and ASGD."""

    smoothness: Positive | None = Field(default=None, description="none: the model's public bound, or 10")
    gradient_std: Positive | None = Field(default=None, description="none: the model's gradient bound, or 10")
    radius: Positive = Field(default=30.0, description="distance to the best parameters: 30 suits unit-norm images")


class NoisySettings(Section):
    """What the cloud reads for AUDP."""

    smoothness: Positive | None = Field(default=None, description="none: the model's public bound, or 10")
    gradient_std: Positive | None = Field(default=None, description="none: the clip norm, which bounds it")
    radius: Positive = Field(default=1.0, description="1 is the paper's; 30 suits unit-norm image features")
    exponent: Literal[1, 2] = Field(default=1, description="of (staleness + 1) in the rate's first term")


class DecayingRate:
    """Rates 1 / (floor + slope * sqrt(t + shift)) at update t = 1, 2, ...; one stage, one clip norm, no probes."""

    stage = 1
    STATE: ClassVar[tuple[str, ...]] = ("_update",)

    def __init__(self, floor: float, slope: float, shift: int, clip_norm: float | None, sensitivity: float) -> None:
        """Takes the constants of the rate.

        Raises:
            ConfigError: the first rate or the clip norm is of no use.
        """
        self.clip_norm = clip_norm
        self._floor = floor
        self._slope = slope
        self._shift = shift
        self._sensitivity = sensitivity
        self._update = 1
        check_control(clip_norm, self.rate())

    def begin(self, flat: Flat) -> Ask | None:
        """Nothing to ask: the rates are known beforehand."""
        return None

    def rate(self) -> float:
        """The learning rate of the next update."""
        return 1.0 / (self._floor + self._slope * math.sqrt(self._update + self._shift))

    def applied(self, flat: Flat) -> Ask | None:
        """Counts the update."""
        self._update += 1
        return None

    def answered(self, loss: float, share: float, noise_std: float) -> Ask | Continue:
        """Refuses an answer to a question that was never asked.

        Raises:
            LocalProtocolError: always.
        """
        raise LocalProtocolError(f"probe answer {loss!r}: this controller asks no probes")

    def diverged(self) -> Flat | None:
        """Nothing to go back to: only probes tell which parameters were good."""
        return None

    def describe(self) -> Mapping[str, float]:
        """The numbers in force; without clipping the clip norm and the sensitivity are left out."""
        row = {"learning_rate": self.rate()}
        if self.clip_norm is not None:
            row |= {"clip_norm": self.clip_norm, "sensitivity": self._sensitivity}
        return row


def build_csgd(setting: Setting, settings: PlainSettings) -> DecayingRate:
    """The controller of CSGD: one edge holds all data, so no update is stale.

    Raises:
        ConfigError: constants from which no useful rate follows; so do the two below.
    """
    return _plain(setting, settings, staleness=0.0)


def build_asgd(setting: Setting, settings: PlainSettings) -> DecayingRate:
    """The controller of ASGD: the rate's first term grows with the square of the staleness."""
    return _plain(setting, settings, staleness=setting.staleness)


def _plain(setting: Setting, settings: PlainSettings, staleness: float) -> DecayingRate:
    smoothness = settings.smoothness or setting.smoothness or UNKNOWN_SMOOTHNESS
    gradient_std = settings.gradient_std or setting.lipschitz or UNKNOWN_BOUND
    _check(smoothness, gradient_std, settings.radius)
    slope = gradient_std / (settings.radius * math.sqrt(setting.batch_size * setting.averaged))
    return DecayingRate(smoothness * (staleness + 1.0) ** 2, slope, 1, None, 0.0)


def build_audp(setting: Setting, settings: NoisySettings) -> DecayingRate:
    """The controller of AUDP: a fixed clip norm, and a rate that counts the noise in."""
    clip_norm = setting.clip_norm or setting.lipschitz or UNKNOWN_BOUND
    smoothness = settings.smoothness or setting.smoothness or UNKNOWN_SMOOTHNESS
    gradient_std = settings.gradient_std or clip_norm
    _check(smoothness, gradient_std, settings.radius)
    if setting.rigour == "rigorous":
        gradient_std = min(gradient_std, clip_norm)
    variance = variance_of(clip_norm, gradient_std, setting.batch_size, setting.kappa, setting.averaged)
    floor = smoothness * (setting.staleness + 1.0) ** settings.exponent
    slope = math.sqrt(variance + 1.0) / settings.radius
    return DecayingRate(floor, slope, 0, clip_norm, sensitivity_of(clip_norm, setting.batch_size))


def _check(smoothness: float, gradient_std: float, radius: float) -> None:
    constants = {"smoothness": smoothness, "gradient_std": gradient_std, "radius": radius}
    check_ranges("algorithm.cloud", {name: (value, 1e-20, 1e20) for name, value in constants.items()})
