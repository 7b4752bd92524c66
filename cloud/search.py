"""How the closed loop looks for the scale of the learning rate, one segment of updates after the other.

A `Search` owns the multiplier on the rate that the stage formulas give, and cuts the run into segments; after each
the loop tells it what the probe of the loss showed. Two of them:

`Secant` (default). The noise carries the parameters a distance of about reach = rate * sqrt(updates * Delta_b) over
the run, so a good reach is the distance to good parameters. The losses themselves tell that distance: if the
rates so far add up to `path` and the loss fell by `drop`, the slope is about sqrt(drop / path), and the straight line
down to no loss has the length first_loss * sqrt(path / drop). That, times a constant, is the reach wanted; with noise
in `drop` it is an interval, and the multiplier moves only as far as the interval demands.

`Doubling`. Grows the multiplier from 1 until the loss gets worse, then halves it whenever it does. It needs no
more than an ordering of the losses, spends much of the run at rates that are too small, and takes an unlucky probe
for a sign of divergence more easily.

Symbols: m -> multiplier, T -> updates, theta -> clip_factor, Delta_b -> variance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol

from pydantic import Field, FiniteFloat

from cloud.stages import even_lengths, stage_lengths
from common.section import Positive, Section


@dataclass(frozen=True)
class Verdict:
    """What the probe after a segment showed.

    Attributes:
        is_worse: the loss is above the best one, noise allowed for; the loop goes back to the best parameters.
        is_best_first: the best parameters are (still) the first ones of the run.
        first_loss: the loss at the first parameters.
        drop: first loss minus the loss now.
        noise: what the noise may have done to `drop`, either way.
        path: sum of the learning rates since the first parameters.
        reach: distance that the noise carries the parameters over the whole run at the segment's rate.
    """

    is_worse: bool
    is_best_first: bool
    first_loss: float
    drop: float
    noise: float
    path: float
    reach: float


class Search(Protocol):
    """The multiplier and the segment in force."""

    @property
    def multiplier(self) -> float:
        """Of the learning rate that the stage formulas give."""
        ...

    @property
    def length(self) -> int:
        """Updates of this segment."""
        ...

    @property
    def horizon(self) -> int:
        """Updates for which the stage formulas are to find a rate."""
        ...

    @property
    def is_last(self) -> bool:
        """Whether no segment follows."""
        ...

    def advance(self, verdict: Verdict | None) -> None:
        """Goes on to the next segment; None: no probe was left to ask."""
        ...


class SecantSettings(Section):
    """What the cloud reads for `Secant`."""

    kind: Literal["secant"] = "secant"
    segments: int = Field(default=16, ge=2, le=1000, description="equal parts of the run, a probe after each")
    start: Positive = Field(default=20.0, description="first multiplier: unit-norm images want 15 to 30")
    reach: Positive = Field(default=3.0, description="wanted reach over the secant's distance")
    jump: float = Field(default=8.0, gt=1, description="largest change of the multiplier at once")
    shrink: float = Field(default=4.0, gt=1, description="divide the multiplier by this after a diverging start")
    cooldown: FiniteFloat = Field(default=0.4, ge=0, le=1, description="share of the run over which rates fall to 0")


class DoublingSettings(Section):
    """What the cloud reads for `Doubling`."""

    kind: Literal["doubling"] = "doubling"
    explore: float = Field(default=0.4, gt=0, lt=1, description="share of the run spent looking for a multiplier")
    trials: int = Field(default=8, ge=1, le=1000, description="segments of that share")
    grow: float = Field(default=2.0, gt=1, description="multiply by this after a segment that was not worse")
    shrink: float = Field(default=4.0, gt=1, description="divide by this after one that was")
    stages: int = Field(default=6, ge=1, le=50, description="segments of the rest, each twice as long as the last")
    decay: float = Field(default=0.84, gt=0, le=1, description="multiply by this after each of those")
    cooldown: FiniteFloat = Field(default=0.0, ge=0, le=1, description="share of the run over which rates fall to 0")


SearchSettings = Annotated[SecantSettings | DoublingSettings, Field(discriminator="kind")]


class Secant:
    """Equal segments; the multiplier follows the distance that the losses suggest."""

    STATE = ("multiplier", "_index", "_ceiling")

    def __init__(self, settings: SecantSettings, updates: int) -> None:
        self.multiplier = settings.start
        self.horizon = updates
        self._settings = settings
        self._lengths = even_lengths(updates, settings.segments)
        self._index = 0
        self._ceiling = math.inf

    @property
    def length(self) -> int:
        """Updates of this segment."""
        return self._lengths[self._index]

    @property
    def is_last(self) -> bool:
        """Whether no segment follows."""
        return self._index == len(self._lengths) - 1

    def advance(self, verdict: Verdict | None) -> None:
        """Moves the multiplier into the interval that the verdict allows."""
        self._index += 1
        if verdict is not None:
            wanted = self._wanted(verdict) / verdict.reach
            self.multiplier *= min(self._settings.jump, max(1.0 / self._settings.jump, wanted))

    def _wanted(self, verdict: Verdict) -> float:
        """The reach in the interval that is nearest to the present one."""
        shrink = self._settings.shrink if verdict.is_best_first else math.sqrt(self._settings.shrink)
        most, least = verdict.drop + verdict.noise, verdict.drop - verdict.noise
        if verdict.is_worse or most <= 0:  # the second: it rose for certain, if too little to go back
            self._ceiling = min(self._ceiling, verdict.reach / shrink)
            return self._ceiling
        line = self._settings.reach * max(verdict.first_loss, 0.0) * math.sqrt(verdict.path)
        if least > 0:
            self._ceiling = min(self._ceiling, line / math.sqrt(least))
        return min(self._ceiling, max(verdict.reach, line / math.sqrt(most)))


class Doubling:
    """Trials of equal length from multiplier 1 upwards, then stages of lengths 1 : 2 : 4 ... downwards."""

    STATE = ("multiplier", "_trials", "_done", "_lengths", "_index")

    def __init__(self, settings: DoublingSettings, updates: int) -> None:
        self.multiplier = 1.0
        self._settings = settings
        self._updates = updates
        self._trial = max(1, int(settings.explore * updates) // settings.trials)
        self._trials = 0
        self._done = 0
        self._lengths: tuple[int, ...] | None = None
        self._index = 0

    @property
    def length(self) -> int:
        """Updates of this segment."""
        return self._trial if self._lengths is None else self._lengths[self._index]

    @property
    def horizon(self) -> int:
        """The whole run while exploring, then the stage itself."""
        return self._updates if self._lengths is None else self.length

    @property
    def is_last(self) -> bool:
        """Whether no segment follows."""
        if self._lengths is None:
            return self._done + self._trial >= self._updates
        return self._index == len(self._lengths) - 1

    def advance(self, verdict: Verdict | None) -> None:
        """One trial or stage further."""
        if self._lengths is None:
            self._done += self._trial
            self._explore(verdict)
        else:
            if verdict is not None and verdict.is_worse:
                self.multiplier /= 2.0
            self.multiplier *= self._settings.decay
            self._index += 1

    def _explore(self, verdict: Verdict | None) -> None:
        """The first trial that is worse than one after the start ends the exploration; so do spent probes."""
        settings = self._settings
        self._trials += 1
        is_over = self._trials == settings.trials
        if verdict is None:
            self.multiplier /= settings.grow
            is_over = True
        elif verdict.is_worse:
            self.multiplier /= settings.shrink
            is_over = is_over or not verdict.is_best_first
        elif not is_over:
            self.multiplier *= settings.grow
        if is_over:
            self._lengths = stage_lengths(self._updates - self._done, settings.stages)


def build_search(settings: SecantSettings | DoublingSettings, updates: int) -> Search:
    """The search that these settings describe, for a run of `updates`."""
    return Secant(settings, updates) if isinstance(settings, SecantSettings) else Doubling(settings, updates)
