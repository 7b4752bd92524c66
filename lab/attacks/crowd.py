"""Many canaries in one run: a fair coin decides for each whether it is there, and the attacker guesses the coins.

If one record changes nothing by more than (epsilon, dp_delta), then no guess about a coin is right with odds above
e^epsilon, whatever the other coins show. So a single run with m canaries says as much as m runs with one, and a whole
training can be audited, where thousands of trainings could not. Runs that are repeated only add canaries: each is in
one of them.

The attacker adds up all releases of a run and solves for the coins (ridge regression on the canaries' gradients). How
many guesses it ventures, the surest ones, is chosen on one half of the runs; the other half counts.

Source: Steinke, Nasr and Jagielski 2023, "Privacy Auditing with One (1) Training Run", theorem 5.2 and appendix D.
Symbols: m -> canaries, r -> guesses, v -> right, beta and alpha as there, delta -> dp_delta, T -> releases.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from common.privacy.noise import noise_of
from common.seeds import stream
from common.tensors import Flat
from edge.build import Holding
from edge.learner import Randomness
from lab.attacks.bounds import epsilon_of_guesses
from lab.attacks.canary import REACH
from lab.attacks.crafting import LABELS, clipped, gradient_norms, lonely, moves, replaced, undecided, vacated
from lab.attacks.evidence import DECIMALS
from lab.attacks.trials import Build, Progress, Terms
from lab.attacks.wiretap import Wiretap, shipped

MOST_CANARIES = 128
_TELL_EVERY = 200
_FRACTIONS = 24


@dataclass(frozen=True)
class Guessed:
    """A lower bound on epsilon, and the guesses behind it: `right` of `guesses`, about `canaries` coins."""

    epsilon: float
    canaries: int
    guesses: int
    right: int


@dataclass(frozen=True)
class Crowd:
    """An edge with room for canaries, and what the attacker sends it.

    Attributes:
        own: the edge; its first records make room.
        records: [m, ...] the canaries.
        flat: [dimension] the parameters.
        clip_norm: the clip bound.
        base: [dimension] the expected release, noise aside, without any canary.
        shifts: [m, dimension] how far each moves it when it is in the batch.
        counters: [m, dimension] the same of what is there instead; zeros where nothing is.
        l2: weight of the regulariser.
    """

    own: Holding
    records: NDArray[np.float32 | np.uint8]
    flat: Flat
    clip_norm: float
    base: NDArray[np.float64]
    shifts: NDArray[np.float64]
    counters: NDArray[np.float64]
    l2: float = 0.0

    @classmethod
    def gather(cls, own: Holding, most: float | None, l2: float = 0.0) -> Crowd:
        """As many canaries as there are features and half of the records; arguments as of `canary.craft`."""
        model, plan, size = own.model, own.plan, len(own.shard)
        records = lonely(model, own.shard.inputs, max(1, min(MOST_CANARIES, size // 2)))
        flat = undecided(model, records)
        norms = gradient_norms(model, flat, records)
        is_strong = norms.min(axis=0) >= norms.max() / 2
        records = records[is_strong]
        bound = min(REACH * float(norms[:, is_strong].min()), math.inf if most is None else most)
        shifts, counters = (moves(model, flat, records, label, bound) / plan.batch_size for label in LABELS)
        empty = vacated(own.shard, range(len(records)))
        return cls(
            own=own,
            records=records,
            flat=flat,
            clip_norm=bound,
            base=clipped(model, flat, empty, bound) / size + l2 * flat.astype(np.float64),
            shifts=shifts,
            counters=np.zeros_like(shifts) if plan.event.adjacency == "add_remove" else counters,
            l2=l2,
        )

    def holding(self, coins: NDArray[np.bool_]) -> Holding:
        """The edge where exactly the canaries are there whose coin says so."""
        shard = replaced(self.own.shard, self.records, np.where(coins, *LABELS).tolist())
        if self.own.plan.event.adjacency == "add_remove":
            shard = vacated(shard, np.flatnonzero(~coins).tolist())
        return replace(self.own, shard=shard)

    def leanings(self, total: NDArray[np.float64], steps: int) -> NDArray[np.float64]:
        """[m] what each coin seems to be, positive for there, from the sum of the releases of a run."""
        event = self.own.plan.event
        rate = steps * (1.0 if event.sampling == "all" else event.sampling_rate)
        ways = rate * (self.shifts - self.counters) / 2
        rest = total - steps * self.base - rate * (self.shifts + self.counters).sum(axis=0) / 2
        noise, size = noise_of(event), rest.size
        scale = 0.0 if noise is None else noise.scale(self.clip_norm / self.own.plan.batch_size)
        spread = 0.0 if noise is None else steps * noise.second_moment(size, scale) / size
        gram = ways @ ways.T
        damped = gram + max(spread, 1e-9 * float(gram.trace())) * np.eye(len(gram))
        found: NDArray[np.float64] = np.linalg.solve(damped, ways @ rest).round(DECIMALS)
        return found


@dataclass(frozen=True)
class Game:
    """Runs with a crowd, the terms of the bound (steps: releases of a run), and what makes an edge's learner."""

    crowd: Crowd
    terms: Terms
    build: Build = shipped

    def play(self, runs: int, seed: int, progress: Progress = lambda _more: None) -> Guessed:
        """The lower bound on epsilon after `runs` runs, half of which count."""
        chosen = [self._run("choose", run, seed, progress) for run in range(runs // 2)]
        counted = [self._run("count", run, seed, progress) for run in range(runs // 2)]
        fractions = np.geomspace(0.01, 1.0, _FRACTIONS)
        best = max(fractions, key=lambda fraction: self._score(chosen, fraction).epsilon)
        return self._score(counted, best)

    def _score(self, runs: list[NDArray[np.float64]], fraction: float) -> Guessed:
        """The bound if so large a share of the coins is guessed, the surest ones."""
        sure = np.concatenate(runs)
        guesses = max(1, int(fraction * len(sure)))
        surest = np.sort(sure[np.argsort(-np.abs(sure), kind="stable")[:guesses]])
        right = int((surest > 0).sum())
        terms = self.terms
        bound = epsilon_of_guesses(len(sure), guesses, right, confidence=terms.confidence, dp_delta=terms.dp_delta)
        return Guessed(bound, len(sure), guesses, right)

    def _run(self, part: str, run: int, seed: int, progress: Progress) -> NDArray[np.float64]:
        """[m] the leaning of each coin, positive if it is right."""
        names = (seed, "crowd", part, run)
        coins = stream(*names, "coins").random(len(self.crowd.records)) < 0.5
        own = self.crowd.holding(coins)
        draws = Randomness(sampling=stream(*names, "sampling"), noise=stream(*names, "noise"))
        learner = self.build(own, draws, self.crowd.l2)
        total = np.zeros(self.crowd.base.size)
        tap = Wiretap(learner, own, self.crowd.flat, self.crowd.clip_norm)
        for place, release in enumerate(tap.releases(self.terms.steps), start=1):
            total += release
            if place % _TELL_EVERY == 0:
                progress(_TELL_EVERY)
        return self.crowd.leanings(total, self.terms.steps) * np.where(coins, 1.0, -1.0)
