"""MAPA without looking at the loss: stages follow each other as the counter of updates says.

Source: MAPA, arXiv 1912.07902, Algorithm 1 and Equations 13-16. The stage test counts updates and reads no data, so it
    costs no privacy.

Symbols: C -> clip_norm, dS -> sensitivity, theta -> clip_factor, T -> updates, T_s -> length, P -> damping.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from cloud.controller import SMALLEST_CLIP, Ask, Continue, check_control
from cloud.stages import Ground, Stage, sensitivity_of, stage_lengths
from common.errors import LocalProtocolError
from common.tensors import Flat


def literal_stages(ground: Ground, clip_norm: float, clip_factor: float) -> Iterator[Stage]:
    """The paper's stages, without end: P, rate and length of each; then C is multiplied by `clip_factor`."""
    number = 1
    while True:
        yield ground.literal(number, clip_norm, clip_factor)
        number += 1
        clip_norm = max(clip_norm * clip_factor, SMALLEST_CLIP)


def budgeted_stages(ground: Ground, clip_norm: float, clip_factor: float, updates: int, stages: int) -> Iterator[Stage]:
    """Stages of lengths 1 : 2 : 4 ... that fill `updates`, each with the P that fits its length."""
    for index, length in enumerate(stage_lengths(updates, stages)):
        yield ground.fitted(index + 1, max(clip_norm * clip_factor**index, SMALLEST_CLIP), length)


class OpenLoop:
    """One stage after the other; the last one goes on for as long as updates come."""

    STATE: ClassVar[tuple[str, ...]] = ("_now", "_count")

    def __init__(self, stages: Iterator[Stage], batch_size: int) -> None:
        """Enters the first stage.

        Raises:
            ConfigError: its rate or its clip norm is of no use.
        """
        self._stages = stages
        self._batch_size = batch_size
        self._now = next(stages)
        self._count = 0
        check_control(self.clip_norm, self.rate())

    @property
    def stage(self) -> int:
        """The number of the stage, from 1."""
        return self._now.number

    @property
    def clip_norm(self) -> float:
        """The clip norm of the stage."""
        return self._now.clip_norm

    def begin(self, flat: Flat) -> Ask | None:
        """Nothing to ask: the stages are known beforehand."""
        return None

    def rate(self) -> float:
        """The learning rate of the stage."""
        return self._now.learning_rate

    def applied(self, flat: Flat) -> Ask | None:
        """Counts the update; the stage's last one ends it."""
        self._count += 1
        if self._count >= self._now.length:
            self._now = next((stage for stage in self._stages if stage.number > self._now.number), self._now)
            self._count = 0
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
        """The stage as a record: sensitivity, clip_norm, learning_rate, damping, variance, length."""
        return {
            "sensitivity": sensitivity_of(self.clip_norm, self._batch_size),
            "clip_norm": self.clip_norm,
            "learning_rate": self.rate(),
            "damping": self._now.damping,
            "variance": self._now.variance,
            "length": self._now.length,
        }
