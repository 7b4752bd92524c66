"""MAPA with private looks at the loss: finds the learning rate's scale and goes back when it was too large.

Source: the staging of MAPA, arXiv 1912.07902; the loop around it is this project's, `docs/algorithms/mapa.md`.
    Everything it sees is a released probe answer, so its decisions are post-processing and going back is free.

Symbols: C -> clip_norm, dS -> sensitivity, theta -> clip_factor, T -> updates, B -> cap, l -> loss.

One run:
    begin     probe(x1, C/4); while enough of the per-sample gradient norms are below C/4: C <- C/4, probe again
    segment   updates at multiplier * (rate of the stage formulas), then probe(x, theta * C):
                worse than the best?  look at the best once more; still worse: go on from the best
                otherwise             keep it if it is better than the best
                enough norms <= theta * C: C <- theta * C;  the search sets multiplier and length of the next segment
    spent     no probe left: the search goes on without
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from cloud.controller import LARGEST_RATE, SMALLEST_CLIP, SMALLEST_RATE, Ask, Continue, check_control
from cloud.search import Search, Verdict
from cloud.stages import Ground, Stage, sensitivity_of
from common.errors import LocalProtocolError
from common.tensors import Flat

FORWARD = 4.0
"""Factor by which the clip norm falls before the first update while gradients lie far below it."""
FORWARD_PROBES = 8
OVERFLOW = 10.0
"""Factor by which the last segment's rate falls when its parameters overflow."""


@dataclass(frozen=True)
class Judgement:
    """What the loop makes of a probe.

    Attributes:
        clip_factor: the clip norm falls by this factor from one stage to the next,
        gate: if at least this share of the per-sample gradient norms lies below the new one.
        margin: standard deviations of the noise that count as noise.
        visible: differences of the loss, over `gap`, that count as none.
        cap: losses of single records count up to this.
        cooldown: share of the run over which the rates fall to zero.
        probes: how many may be asked.
    """

    clip_factor: float
    gate: float
    margin: float
    visible: float
    cap: float
    cooldown: float
    probes: int


@dataclass
class Kept:
    """Parameters, the mean of the losses seen there, and the path that led there."""

    flat: Flat
    loss: float
    count: int
    path: float

    def look_again(self, loss: float) -> None:
        """Counts another look at the same parameters in."""
        self.loss = (self.loss * self.count + loss) / (self.count + 1)
        self.count += 1


@dataclass
class Trial:
    """The parameters after a segment, and what their probe showed; judged once the best got its second look."""

    flat: Flat
    loss: float = math.inf
    share: float = 0.0
    is_judged: bool = False


class ClosedLoop:
    """Probes, judges, goes back or on; the `Search` says how fast and how far."""

    STATE: ClassVar[tuple[str, ...]] = (
        *("stage", "clip_norm", "probes", "_search", "_done", "_path", "_first", "_best", "_trial", "_asked"),
        *("_left", "_stage", "_rate"),
    )

    def __init__(self, ground: Ground, clip_norm: float, updates: int, judgement: Judgement, search: Search) -> None:
        """Enters the first segment.

        Raises:
            ConfigError: its rate or its clip norm is of no use.
        """
        self.stage = 1
        self.clip_norm = clip_norm
        self.probes = 0
        self._ground = ground
        self._updates = updates
        self._judgement = judgement
        self._search = search
        self._done = 0
        self._path = 0.0
        self._first: Kept | None = None
        self._best: Kept | None = None
        self._trial: Trial | None = None
        self._asked: Flat | None = None
        self._enter()
        check_control(clip_norm, self._stage.learning_rate)

    def begin(self, flat: Flat) -> Ask | None:
        """Asks for the first loss, and whether the clip norm may fall before the first update."""
        self._first = self._best = Kept(flat.copy(), 0.0, 0, 0.0)
        return self._ask(self._first.flat, self.clip_norm / FORWARD)

    def rate(self) -> float:
        """The segment's rate, falling to zero over the last part of the run."""
        left = max(self._updates - self._done, 1) / self._updates
        cooldown = self._judgement.cooldown
        return self._rate * min(1.0, left / cooldown) if cooldown else self._rate

    def applied(self, flat: Flat) -> Ask | None:
        """Counts the update; after the segment's last one asks for the loss, unless the run or the probes end."""
        self._count()
        if self._left > 0 or self._search.is_last:
            return None
        if self.probes >= self._judgement.probes:
            self._search.advance(None)
            self._enter()
            return None
        self._trial = Trial(flat.copy())
        return self._ask(self._trial.flat, self._judgement.clip_factor * self.clip_norm)

    def diverged(self) -> Flat | None:
        """Breaks the segment off and goes back to the best parameters at a lower rate; no probe is needed to tell."""
        self._count()
        best = self._kept()
        if not self._search.is_last:
            return self._decide(Trial(best.flat, self._judgement.cap), True, 0.0).flat
        self._path = best.path
        self._rate /= OVERFLOW
        return best.flat

    def answered(self, loss: float, share: float, noise_std: float) -> Ask | Continue:
        """Takes the answer and says from where to go on, or what else to look at.

        Raises:
            LocalProtocolError: nothing was asked, or the answer is not finite.
        """
        if self._asked is None or not math.isfinite(loss) or not math.isfinite(share):
            asked = "none" if self._asked is None else "one"
            raise LocalProtocolError(f"probe answer {loss!r}, {share!r}: {asked} was asked; expected finite ones")
        self._asked = None
        best = self._kept()
        if self._trial is None:
            best.look_again(loss)
            return self._fast_forward(best, share)
        if self._trial.is_judged:
            best.look_again(loss)
        else:
            self._trial.loss, self._trial.share = loss, share
        is_worse = self._trial.loss > best.loss + self._threshold(noise_std)
        if is_worse and not self._trial.is_judged and self.probes < self._judgement.probes:
            self._trial.is_judged = True
            return self._ask(best.flat, self.clip_norm)
        return self._decide(self._trial, is_worse, noise_std)

    def describe(self) -> Mapping[str, float]:
        """The segment as a record: the stage's numbers, and what the loop knows."""
        row = {
            "sensitivity": sensitivity_of(self.clip_norm, self._ground.batch_size),
            "clip_norm": self.clip_norm,
            "learning_rate": self.rate(),
            "damping": self._stage.damping,
            "variance": self._stage.variance,
            "length": self._search.length,
            "multiplier": self._search.multiplier,
            "reach": self._reach(),
            "probes": self.probes,
        }
        if self._best is not None and self._best.count:
            row["best_loss"] = self._best.loss
        return row

    def _count(self) -> None:
        self._path += self.rate()
        self._done += 1
        self._left -= 1

    def _fast_forward(self, first: Kept, share: float) -> Ask | Continue:
        if share >= self._judgement.gate and self.probes < min(FORWARD_PROBES, self._judgement.probes):
            self.clip_norm = max(self.clip_norm / FORWARD, SMALLEST_CLIP)
            return self._ask(first.flat, self.clip_norm / FORWARD)
        self._enter()
        return Continue()

    def _decide(self, trial: Trial, is_worse: bool, noise_std: float) -> Continue:
        best, first = self._kept(), self._first
        assert first is not None
        drop = first.loss - trial.loss
        noise = self._judgement.margin * noise_std * math.sqrt(2.0)
        verdict = Verdict(is_worse, best is first, first.loss, drop, noise, self._path, self._reach())
        if is_worse:
            self._path = best.path
        elif trial.loss < best.loss:
            self._best = Kept(trial.flat, trial.loss, 1, self._path)
        if trial.share >= self._judgement.gate:
            self.clip_norm = max(self.clip_norm * self._judgement.clip_factor, SMALLEST_CLIP)
        self._trial = None
        self._search.advance(verdict)
        self.stage += 1
        self._enter()
        return Continue(best.flat if is_worse else None)

    def _enter(self) -> None:
        """Starts the segment that the search is at."""
        self._left = self._search.length
        self._stage: Stage = self._ground.fitted(self.stage, self.clip_norm, self._search.horizon)
        self._rate = self._search.multiplier * self._stage.learning_rate
        self._rate = min(max(self._rate, SMALLEST_RATE), LARGEST_RATE)

    def _ask(self, flat: Flat, bound: float) -> Ask:
        self.probes += 1
        self._asked = flat
        return Ask(flat, self._judgement.cap, bound)

    def _threshold(self, noise_std: float) -> float:
        judgement = self._judgement
        return max(judgement.margin * noise_std * math.sqrt(2.0), judgement.visible * self._ground.gap)

    def _reach(self) -> float:
        return self._rate * math.sqrt(self._updates * self._stage.variance)

    def _kept(self) -> Kept:
        assert self._best is not None, "begin comes first"
        return self._best
