"""From a total to the noise of one release: the least noise with which so many releases stay within a target.

The cost is computed by the accountant (PLD) for every noise that is tried, so what is returned was accounted for and
lies below the target, by 0.05 % to 0.2 %. That gap is wider than the accountant's own rounding: fewer releases, or
other shares of two kinds, are rounded otherwise, and must not appear to cost more than all of them.

The search. Many releases together are close to one Gaussian release whose shift is mu deviations (Dong, Roth and Su
2019; Bu et al. 2020 for sampling):

    mu = sqrt(T) s                  without sampling
    mu = q sqrt(T (e^(s^2) - 1))    with sampling at rate q

with s = k/z for Gaussian noise (k = 2 where a record is replaced) and s = a/sqrt(d) for spherical Laplace noise. That
is the first guess. From there secants in (log noise, log cost), kept inside a bracket: three or four costs in all.

Symbols: T -> releases, q -> sampling_rate, z -> noise_multiplier, a -> reach (epsilon under the adjacency), d ->
dimension, mu -> shift, x -> level, the log of 1/z or of epsilon.

| input | result |
|---|---|
| a target outside 1e-6..1e6, fewer than one release, more than a hundred million | ConfigError |
| dp_delta outside [0, 1), or below 1e-10 with Gaussian noise | ConfigError |
| a target that the strongest noise, or what comes beside, exceeds; one that the weakest does not reach | ConfigError |
| an event of which no total is known (none, paper, replacement) | ConfigError |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from common.errors import ConfigError, Fault, UnsupportedEvent
from common.events import LARGEST, SMALLEST, Event
from common.privacy.accountant import SMALLEST_DELTA, total

MOST_RELEASES = 10**8

_LEAST, _AIM, _MOST = 0.998, 0.999, 0.9995  # of the target
_CLOSE = 1e-9  # two levels so close are one
_TRIALS = 80
_SLOPES = 0.3, 50.0  # of log cost over level: between them a secant is trusted

Counts = Mapping[Event, int]


class Ask(Protocol):
    """Answers a question: from a store of earlier answers, or by computing it. Both are JSON values."""

    def __call__(self, question: Mapping[str, Any], compute: Callable[[], Any], /) -> Any:
        """The answer, the same as `compute()` would give."""
        ...


def fresh(_question: Mapping[str, Any], compute: Callable[[], Any], /) -> Any:
    """Computes every answer anew."""
    return compute()


def calibrate(
    event: Event,
    releases: int,
    target_epsilon: float,
    dp_delta: float,
    *,
    beside: Counts | None = None,
    name: str = "target_epsilon",
    ask: Ask = fresh,
) -> Event:
    """The event with the least noise of which `releases`, and what comes beside, cost at most the target.

    Args:
        event: mechanism, sampling, adjacency and dimension of a release; its own noise is ignored.
        releases: how many there will be.
        target_epsilon: what they may cost one record in total, at dp_delta.
        dp_delta: where epsilon is stated.
        beside: other releases that the target has to pay for as well.
        name: of the target, in an error.
        ask: remembers answers.

    Raises:
        ConfigError: an argument out of range, or a target that no noise meets; with one fault for each.
    """
    rest = dict(beside or {})
    _check(event, releases, target_epsilon, dp_delta, name)
    question = {
        "calibrate": _strengthless(event).model_dump(mode="json"),
        "releases": releases,
        "target_epsilon": target_epsilon,
        "dp_delta": dp_delta,
        "beside": sorted(([other.model_dump(mode="json"), count] for other, count in rest.items()), key=repr),
    }

    def compute() -> float:
        return _Search(event, releases, target_epsilon, dp_delta, rest, name).run()

    answer = ask(question, compute)
    return with_strength(event, answer if isinstance(answer, float) and SMALLEST <= answer <= LARGEST else compute())


def with_strength(event: Event, strength: float) -> Event:
    """The event with this noise: its noise multiplier, or the epsilon of one release."""
    return event.model_copy(update={_parameter(event): strength})


def strength_of(event: Event) -> float:
    """What `with_strength` sets."""
    strength = getattr(event, _parameter(event))
    assert isinstance(strength, float)
    return strength


def shift_of(event: Event, releases: int) -> float:
    """Deviations by which one record moves these releases, taken as one Gaussian release: a guess, not a bound."""
    if event.mechanism == "gaussian":
        single = (2 if event.adjacency == "replace_one" else 1) / strength_of(event)
    else:
        reach = strength_of(event) / (1 if event.adjacency == "replace_one" else 2)
        single = reach / math.sqrt(event.dimension or 1)
    if event.sampling == "all" or event.sampling_rate == 1:
        return math.sqrt(releases) * single
    if single > 20:
        return math.inf
    return event.sampling_rate * math.sqrt(releases * math.expm1(single**2))


def shift_within(target_epsilon: float, dp_delta: float) -> float:
    """The shift of a Gaussian release whose Renyi curve stays within the target: somewhat below the exact one.

    rho + 2 sqrt(rho log(1/dp_delta)) <= epsilon with rho = shift^2/2 (Bun and Steinke 2016, Proposition 1.3).
    """
    depth = -math.log(dp_delta)
    return math.sqrt(2) * target_epsilon / (math.sqrt(depth + target_epsilon) + math.sqrt(depth))


def _parameter(event: Event) -> str:
    return "noise_multiplier" if event.mechanism == "gaussian" else "epsilon"


def _strengthless(event: Event) -> Event:
    return event.model_copy(update={"noise_multiplier": None, "epsilon": None})


def _check(event: Event, releases: int, target_epsilon: float, dp_delta: float, name: str) -> None:
    faults: list[Fault] = []
    if event.mechanism not in ("gaussian", "spherical-laplace"):
        faults.append(Fault(name, target_epsilon, f"nothing, for mechanism {event.mechanism}: no total is known of it"))
    if not SMALLEST <= target_epsilon <= LARGEST:
        faults.append(Fault(name, target_epsilon, f"{SMALLEST:g} to {LARGEST:g}"))
    if not 1 <= releases <= MOST_RELEASES:
        faults.append(Fault("releases", releases, f"1 to {MOST_RELEASES:,}"))
    if not 0 <= dp_delta < 1:
        faults.append(Fault("dp_delta", dp_delta, "at least 0 and below 1"))
    elif event.mechanism == "gaussian" and dp_delta < SMALLEST_DELTA:
        faults.append(Fault("dp_delta", dp_delta, f"at least {SMALLEST_DELTA} with Gaussian noise"))
    if faults:
        raise ConfigError(faults)


@dataclass
class _Search:
    """One search. `low` and `high`: the loudest level known to be within the target, the quietest known to pass it."""

    event: Event
    releases: int
    target: float
    dp_delta: float
    beside: Counts
    name: str
    low: float | None = None
    high: float | None = None
    tried: list[tuple[float, float]] = field(default_factory=list)
    """(level, cost) in the order of trial."""

    def run(self) -> float:
        """The strength."""
        level = self._guess()
        for _ in range(_TRIALS):
            cost = self.cost(level)
            if _LEAST * self.target <= cost <= _MOST * self.target:
                return self._strength(level)
            if cost > _MOST * self.target:
                self.high = level
            else:
                self.low = level
            self.tried.append((level, cost))
            if self.low is not None and self.high is not None and self.high - self.low < _CLOSE:
                break  # costs jump over the target
            self._refuse_an_end(level, cost)
            level = self._next()
        if self.low is None:
            raise ConfigError(Fault(self.name, self.target, f"a cost found in {_TRIALS} trials: another target"))
        return self._strength(self.low)

    def cost(self, level: float) -> float:
        """Of everything at this level; infinite where it is beyond what can be computed."""
        events = {**self.beside}
        made = with_strength(self.event, self._strength(level))
        events[made] = events.get(made, 0) + self.releases
        try:
            found = total(events, self.dp_delta)
        except UnsupportedEvent as error:
            raise ConfigError(Fault(self.name, self.target, f"releases that can be accounted for: {error}")) from error
        if found.epsilon is None and "beyond" not in found.note:
            raise ConfigError(Fault(self.name, self.target, f"releases whose total is known: {found.note}"))
        return math.inf if found.epsilon is None else found.epsilon

    def _strength(self, level: float) -> float:
        x = math.exp(-level if self.event.mechanism == "gaussian" else level)
        return min(max(x, SMALLEST), LARGEST)

    def _guess(self) -> float:
        """From the Gaussian limit; for spherical Laplace noise at least what the sum of pure epsilons allows."""
        event, single = self.event, 0.0
        if self.dp_delta > 0:
            others = math.fsum(shift_of(other, count) ** 2 for other, count in self.beside.items())
            shift = math.sqrt(max(shift_within(self.target, self.dp_delta) ** 2 - others, 1e-12))
            single = shift / math.sqrt(self.releases)
            if event.sampling != "all" and event.sampling_rate < 1:
                single = math.sqrt(math.log1p((single / event.sampling_rate) ** 2))
        factor = 1 if event.adjacency == "replace_one" else 2
        if event.mechanism == "gaussian":
            strength = single * factor / 2
        else:
            rate = 1.0 if event.sampling == "all" else event.sampling_rate
            pure = math.log1p(math.expm1(min(self.target / self.releases, 500.0)) / rate)
            strength = factor * max(pure, single * math.sqrt(event.dimension or 1))
        return min(max(math.log(max(strength, SMALLEST)), math.log(SMALLEST)), math.log(LARGEST))

    def _next(self) -> float:
        """A secant to the aim if it stays inside the bracket, else the middle of it, else a step outwards."""
        low, high = self.low, self.high
        proposal = self._secant()
        if low is not None and high is not None:
            edge = 0.01 * (high - low)
            usable = proposal is not None and len(self.tried) % 4 != 3  # a bisection now and then: it always ends
            return min(max(proposal, low + edge), high - edge) if usable and proposal is not None else (low + high) / 2
        level, cost = self.tried[-1]
        if proposal is None:
            proposal = level + (1.0 if cost < self.target else -1.0)
        return min(max(proposal, math.log(SMALLEST)), math.log(LARGEST))

    def _secant(self) -> float | None:
        points = [(level, math.log(cost)) for level, cost in self.tried[-2:] if 0 < cost < math.inf]
        if not points:
            return None
        slope = 1.1
        if len(points) == 2 and points[0][0] != points[1][0]:
            slope = (points[1][1] - points[0][1]) / (points[1][0] - points[0][0])
            if not _SLOPES[0] <= slope <= _SLOPES[1]:
                return None
        level, cost = points[-1]
        return level + (math.log(_AIM * self.target) - cost) / slope

    def _refuse_an_end(self, level: float, cost: float) -> None:
        """The strongest or the weakest noise there is was tried, and is not enough or too much."""
        if cost > self.target and level <= math.log(SMALLEST):
            others = f" and {sum(self.beside.values())} others" if self.beside else ""
            text = f"at least {cost:.3g}, what {self.releases} releases{others} cost with the strongest noise"
            raise ConfigError(Fault(self.name, self.target, text))
        if cost < self.target and level >= math.log(LARGEST):
            text = f"at most {cost:.3g}, what {self.releases} releases cost with hardly any noise"
            raise ConfigError(Fault(self.name, self.target, text))
