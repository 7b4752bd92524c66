"""Many trials against two neighbouring edges: an event is chosen on one half of them and counted on the other half.

A trial is one release, or several, of an edge with fresh randomness; its evidence is their sum. The event is "this kind
of evidence is at least (or at most) so much". It is fixed before the trials that count begin, so the bound needs no
correction for the choice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from common.seeds import stream
from edge.build import Holding
from edge.learner import Learner, Randomness
from lab.attacks.bounds import epsilon_at_least
from lab.attacks.canary import Case
from lab.attacks.evidence import DECIMALS, KINDS, Evidence
from lab.attacks.wiretap import Wiretap, shipped

Scores = NDArray[np.float64]
"""[trials, kinds] the evidence of each trial."""
Progress = Callable[[int], None]
"""Told of so many more releases seen."""
Build = Callable[[Holding, Randomness, float], Learner]

Count = int | NDArray[np.int64]

SIDES = ("present", "absent")
_THRESHOLDS = 400
_TELL_EVERY = 200  # releases


@dataclass(frozen=True)
class Measured:
    """A lower bound on epsilon, and the counts behind it.

    Attributes:
        epsilon: the bound.
        event: what was counted, in words.
        hits: trials in which it happened on the edge where it is likelier.
        others: the same on the other edge.
        trials: that counted, on each of the two.
    """

    epsilon: float
    event: str
    hits: int
    others: int
    trials: int


@dataclass(frozen=True)
class Terms:
    """What an audit's number is about: releases of one trial, and confidence and dp_delta of the bound."""

    steps: int = 1
    confidence: float = 0.999
    dp_delta: float = 1e-5


@dataclass(frozen=True)
class Event:
    """Something that an attacker may see: one kind of evidence beyond a threshold."""

    kind: int
    threshold: float
    is_high: bool

    def count(self, scores: Scores) -> int:
        """In how many trials it happened."""
        column = scores[:, self.kind]
        return int((column >= self.threshold if self.is_high else column <= self.threshold).sum())

    def __str__(self) -> str:
        return f"{KINDS[self.kind]} evidence of at {'least' if self.is_high else 'most'} {self.threshold:.6g}"


@dataclass(frozen=True)
class Duel:
    """An attacker against an edge.

    Attributes:
        case: the edge with the canary, the one without, and what either is sent.
        evidence: what the attacker makes of a release.
        terms: of the number that is asked for.
        build: what makes an edge's learner; another one than the shipped one is a control.
    """

    case: Case
    evidence: Evidence
    terms: Terms = Terms()
    build: Build = shipped

    def measure(self, trials: int, seed: int, progress: Progress = lambda _more: None) -> Measured:
        """The lower bound on epsilon after `trials` on each edge (of an odd number one is left out)."""
        half = trials // 2
        event = self.choose(*(self._gather("choose", side, half, seed, progress) for side in SIDES))
        present, absent = (event.count(self._gather("count", side, half, seed, progress)) for side in SIDES)
        hits, others = (present, absent) if event.is_high else (absent, present)
        return Measured(float(self._bound(hits, others, half)), str(event), hits, others, half)

    def choose(self, present: Scores, absent: Scores) -> Event:
        """The event that bounds epsilon best on these trials."""
        best, chosen = -1.0, Event(0, 0.0, True)
        for kind in range(present.shape[1]):
            ours, theirs = np.sort(present[:, kind]), np.sort(absent[:, kind])
            thresholds = np.quantile(np.concatenate([ours, theirs]), np.linspace(0, 1, _THRESHOLDS), method="nearest")
            for is_high in (True, False):
                likely, other = (ours, theirs) if is_high else (theirs, ours)
                hits, others = (_beyond(scores, thresholds, is_high) for scores in (likely, other))
                bounds = self._bound(hits, others, len(present))
                place = int(bounds.argmax())
                if bounds[place] > best:
                    best, chosen = float(bounds[place]), Event(kind, float(thresholds[place]), is_high)
        return chosen

    def _bound(self, hits: Count, others: Count, trials: int) -> NDArray[np.float64]:
        terms = self.terms
        return epsilon_at_least(hits, others, trials, confidence=terms.confidence, dp_delta=terms.dp_delta)

    def _gather(self, part: str, side: str, trials: int, seed: int, progress: Progress) -> Scores:
        own: Holding = getattr(self.case, side)
        sampling, noise = (stream(seed, "audit", part, side, purpose) for purpose in ("sampling", "noise"))
        learner = self.build(own, Randomness(sampling=sampling, noise=noise), self.case.l2)
        tap = Wiretap(learner, own, self.case.flat, self.case.clip_norm)
        scores, steps = np.zeros((trials, len(KINDS))), self.terms.steps
        for place, release in enumerate(tap.releases(trials * steps), start=1):
            scores[(place - 1) // steps] += self.evidence.of_release(release)
            if place % _TELL_EVERY == 0:
                progress(_TELL_EVERY)
        return np.round(scores, DECIMALS)


def _beyond(ordered: NDArray[np.float64], thresholds: NDArray[np.float64], is_high: bool) -> NDArray[np.int64]:
    """[thresholds] how many of `ordered` are at least (or at most) each threshold."""
    if is_high:
        return len(ordered) - np.searchsorted(ordered, thresholds, side="left")
    return np.searchsorted(ordered, thresholds, side="right")
