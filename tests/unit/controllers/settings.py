"""A setting to change, and a driver for controllers that are told what to see."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from cloud.controller import Ask, Continue, Controller, Setting

PUBLIC = Setting(
    updates=1000,
    edges=5,
    batch_size=12,
    dimension=650,
    kappa=650 / 4,
    staleness=4,
    smoothness=0.5,
    gap=math.log(10),
    clip_norm=1.0,
)


def setting(**changes: Any) -> Setting:
    """Softmax on digits, Gaussian noise of multiplier 1, with these changes."""
    return replace(PUBLIC, **changes)


class Script:
    """Plays a run in which the parameters after update t are [t, t, t] and the probe answers are given."""

    def __init__(self, controller: Controller, answers: Iterable[tuple[float, float]], noise_std: float = 0.05) -> None:
        self.controller = controller
        self.asked: list[Ask] = []
        self.rollbacks: list[tuple[int, int]] = []
        self.segments: list[tuple[float, float, float, float]] = []
        self.update = 0
        self._answers: Iterator[tuple[float, float]] = iter(answers)
        self._noise_std = noise_std
        self.settle(controller.begin(np.zeros(3, np.float32)))

    def settle(self, ask: Ask | None) -> None:
        """Answers until updates may flow again, and notes what is in force then."""
        if ask is None:
            return
        reply: Ask | Continue = ask
        while isinstance(reply, Ask):
            self.asked.append(reply)
            loss, share = next(self._answers)
            reply = self.controller.answered(loss, share, self._noise_std)
        if reply.flat is not None:
            self.rollbacks.append((self.update, int(reply.flat[0])))
        row = self.controller.describe()
        self.segments.append((row["clip_norm"], row["multiplier"], row["length"], self.controller.rate()))

    def go(self, updates: int) -> None:
        """Applies so many updates."""
        for _ in range(updates):
            self.update += 1
            self.settle(self.controller.applied(np.full(3, self.update, np.float32)))
