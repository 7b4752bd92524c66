"""From counted events to an epsilon at dp_delta.

Unit: one record of one edge. `steps` says what each event means; events of different adjacency are never added up.
Only what is proved is claimed: mechanism "none" has no privacy, the literal readings ("paper") and batches drawn with
replacement have no established one.

| method | all releases together | also tried, and taken where it is less |
|---|---|---|
| pld | one privacy loss distribution (`composition`), the least there is | pure sum + Gaussian releases by PLD; basic |
| rdp | one Renyi curve, orders of dp-accounting: a looser cross-check | pure sum + Gaussian releases by RDP |
| quick | one Renyi curve at integer orders: no library, and microseconds once a kind of step was seen | the same |

Pure sum: at dp_delta 0, and wherever there are pure releases only, the sum of their epsilons holds.
Under replace_one with sampling RDP is refused (`RdpAccountant(REPLACE_ONE)` takes std/C for std/sensitivity and
reports too little, so that relation is never handed to it; releases without sampling go in as add_remove at half the
multiplier); "quick" has its own bound there.

Symbols: z -> noise_multiplier.
Source: Koskela et al. 2020, Doroshenko et al. 2022 (PLD); Mironov 2017, Canonne, Kamath and Steinke 2020 (RDP).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from common.errors import UnsupportedEvent
from common.events import Adjacency, Event
from common.privacy.composition import joint_epsilon
from common.privacy.divergences import quick_epsilon, rdp_epsilon
from common.privacy.steps import Step, step_of
from common.privacy.theorems import advanced, basic, pure_epsilon

__all__ = ["SMALLEST_DELTA", "Compositions", "Method", "Total", "compositions", "pure_epsilon", "total"]

Method = Literal["pld", "rdp", "quick"]
Counts = Mapping[Event, int]

SMALLEST_DELTA = 1e-10
"""Below it rounding errors show in a composed privacy loss distribution."""

_HARDLY_PRIVATE = 100.0  # epsilon from which the grid may be too coarse for its steps, and Renyi's bound below it

_UNITS: Mapping[Adjacency, str] = {"add_remove": "one record added or removed", "replace_one": "one record replaced"}
_METHODS: Mapping[Method, tuple[str, Callable[[Mapping[Step, int], float], float]]] = {
    "pld": ("PLD", joint_epsilon),
    "rdp": ("RDP", rdp_epsilon),
    "quick": ("RDP at integer orders", quick_epsilon),
}


@dataclass(frozen=True)
class Total:
    """What an edge's releases cost one of its records; `epsilon` None if nothing is claimed, and `note` says why."""

    epsilon: float | None
    dp_delta: float
    note: str


@dataclass(frozen=True)
class Compositions:
    """The same releases by four ways of adding up, all at one dp_delta; None where a way does not apply."""

    epsilon_pld: float | None
    epsilon_rdp: float | None
    epsilon_basic: float | None
    epsilon_advanced: float | None


def total(events: Counts, dp_delta: float, method: Method = "pld") -> Total:
    """The cost of all `events` together, to one record: the least that the method proves.

    Args:
        events: how often each event happened.
        dp_delta: the delta at which epsilon is stated, in [0, 1).
        method: how releases compose.

    Raises:
        UnsupportedEvent: events of different adjacency, or one that no accountant takes; "rdp" for sampled batches
            under replace_one; a dp_delta at which Gaussian noise promises nothing (0) or the accountant cannot tell
            (below 1e-10).
    """
    return _total(frozenset(events.items()), dp_delta, method)


@lru_cache(maxsize=1024)  # edges with as many releases of the same kinds ask the same
def _total(events: frozenset[tuple[Event, int]], dp_delta: float, method: Method) -> Total:
    happened, doubt = _checked(dict(events), dp_delta)
    if doubt:
        return Total(None, dp_delta, doubt)
    if not happened:
        return Total(0.0, dp_delta, "nothing released")
    found = {name: value for name, value in _claims(happened, dp_delta, method).items() if math.isfinite(value)}
    if not found:
        return Total(None, dp_delta, "dp: not established: epsilon is beyond what can be computed")
    way = min(found, key=lambda name: found[name])
    is_bounded = way in {name for name, _ in _METHODS.values()} and any(map(_counts_as_fixed, happened))
    note = f"{_UNITS[next(iter(happened)).adjacency]}; {way}"
    return Total(found[way], dp_delta, f"{note}, Poisson batches counted as of fixed size" if is_bounded else note)


def compositions(events: Counts, dp_delta: float) -> Compositions:
    """The cost of all `events` together, in four ways.

    The first two are those of `total`. Basic and advanced composition are stated at the same dp_delta as a whole, of
    which each Gaussian release gets an even share (`theorems`); there is no advanced one at dp_delta 0.

    Raises:
        UnsupportedEvent: as `total`, but for "rdp", which then is None.
    """
    happened, doubt = _checked(events, dp_delta)
    if doubt:
        return Compositions(None, None, None, None)
    if not happened:
        return Compositions(0.0, 0.0, 0.0, 0.0)
    is_refused = dp_delta == 0 or any(map(_is_swapped, happened))
    found = (
        total(happened, dp_delta).epsilon,
        None if is_refused else total(happened, dp_delta, "rdp").epsilon,
        basic(happened, dp_delta),
        advanced(happened, dp_delta) if dp_delta > 0 else None,
    )
    return Compositions(*(value if value is not None and math.isfinite(value) else None for value in found))


def _checked(events: Counts, dp_delta: float) -> tuple[dict[Event, int], str]:
    """The events that happened, and why no epsilon can be given for them (empty if one can)."""
    if not 0 <= dp_delta < 1:
        raise UnsupportedEvent(f"dp_delta: {dp_delta!r}: expected in [0, 1)")
    happened = {event: count for event, count in events.items() if count > 0}
    doubts = sorted({doubt for doubt in map(_doubt, happened) if doubt})
    if doubts:
        return happened, "no privacy" if "no privacy" in doubts else "; ".join(doubts)
    adjacencies = sorted({event.adjacency for event in happened})
    if len(adjacencies) > 1:
        raise UnsupportedEvent(f"adjacency: {' and '.join(adjacencies)} in one ledger: expected one of them only")
    if dp_delta < SMALLEST_DELTA and any(event.mechanism == "gaussian" for event in happened):
        raise UnsupportedEvent(f"dp_delta: {dp_delta!r} with Gaussian noise: expected at least {SMALLEST_DELTA}")
    for event in happened:
        step_of(event)
    return happened, ""


def _doubt(event: Event) -> str:
    """Why no epsilon can be given for this event; empty if one can."""
    if event.mechanism == "none":
        return "no privacy"
    if event.mechanism == "paper":
        radius = ", and the noise radius is exponential: its loss is unbounded" if event.epsilon is not None else ""
        return f"dp: not established: the batch average is clipped, so one record moves it by 2C, not 2C/b{radius}"
    if event.sampling == "replacement":
        return "dp: not established: a batch drawn with replacement may hold one record several times"
    return ""


def _claims(events: Counts, dp_delta: float, method: Method) -> dict[str, float]:
    """Every epsilon that holds, by what it is called."""
    if method == "rdp" and any(map(_is_swapped, events)):
        raise UnsupportedEvent("sampled batches under replace_one by RDP: expected method pld")
    pure = {event: count for event, count in events.items() if event.mechanism != "gaussian"}
    gaussian = {event: count for event, count in events.items() if event.mechanism == "gaussian"}
    name, together = _METHODS[method]
    pure_sum = math.fsum(count * pure_epsilon(event) for event, count in pure.items())
    claims = {name: together(_steps(events), dp_delta)} if dp_delta >= SMALLEST_DELTA else {}
    if not gaussian:
        claims["pure sum"] = pure_sum
    elif pure and claims[name] > pure_sum:  # else it is below that sum whatever the Gaussian releases cost
        claims[f"pure sum + Gaussian by {name}"] = pure_sum + together(_steps(gaussian), dp_delta)
    if gaussian and method == "pld":
        claims["basic composition"] = basic(events, dp_delta)
    if method == "pld" and claims.get(name, 0.0) > _HARDLY_PRIVATE:
        quick, together = _METHODS["quick"]
        claims[quick] = together(_steps(events), dp_delta)
    return claims


def _steps(events: Counts) -> Mapping[Step, int]:
    steps: Counter[Step] = Counter()
    for event, count in events.items():
        steps[step_of(event)] += count
    return steps


def _counts_as_fixed(event: Event) -> bool:
    """Whether `steps` has the bound for batches of fixed size only, and not the pair itself."""
    return event.mechanism != "gaussian" and event.sampling == "poisson" and _is_swapped(event)


def _is_swapped(event: Event) -> bool:
    """Whether a record is replaced that sampling may leave out of the batch."""
    return event.adjacency == "replace_one" and event.sampling != "all" and event.sampling_rate < 1
