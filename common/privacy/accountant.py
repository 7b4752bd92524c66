"""From counted events to an epsilon at dp_delta, by Google's dp-accounting (imported only when asked).

Unit: one record of one edge. What the events mean, whatever the accountant:

| event | add_remove | replace_one |
|---|---|---|
| gaussian, all (or poisson, q = 1) | Gaussian of multiplier z | Gaussian of multiplier z/2 |
| gaussian, poisson | Poisson-sampled Gaussian (q, z), both directions | the same pair with both records in; PLD only |
| gaussian, fixed | refused: the batch size would not be fixed | multiplier z/2, no amplification claimed |
| spherical-laplace, all (or q = 1) | pure eps/2 | pure eps |
| spherical-laplace, poisson | ln(1 + q(e^(eps/2) - 1)) | ln(1 + q(e^eps - 1)) |
| spherical-laplace, fixed | refused | ln(1 + q(e^eps - 1)) |
| any, replacement; paper | not established | not established |

The total is the sum of the pure epsilons (at delta 0) plus the epsilon of all Gaussian releases at dp_delta.
Events of different adjacency are never added up.

Two habits of the library are kept away from. Its `RdpAccountant(REPLACE_ONE)` takes std/C for std/sensitivity and
reports too little, so replace_one is never handed to it: releases without sampling go in with half the multiplier
under add_remove, those with sampling are refused. Its PLD grid defaults to 1e-4, far too coarse for a step with a
loss of q/z below that and far too fine for one above 10: the grid here follows the step.

Symbols: z -> noise_multiplier (std over the sensitivity to one record added or removed), q -> sampling_rate,
eps -> epsilon.
Source: Koskela et al. 2020, Doroshenko et al. 2022 (PLD); Mironov 2017 (RDP); Balle et al. 2018 (sampling).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from common.errors import UnsupportedEvent
from common.events import Adjacency, Event, Mechanism
from common.privacy.renyi import ORDERS, curve, epsilon_of

Method = Literal["pld", "rdp", "quick"]
Counts = Mapping[Event, int]

SMALLEST_DELTA = 1e-10
"""Below it the PLD's own truncation of tails shows in the result."""

_CELLS_PER_STEP = 20  # grid cells in one step's usual loss q/z: the result is then at most 3e-4 of itself too high
_MOST_CELLS = 100_000  # in one step's largest loss: memory and seconds; only rates below 1e-4 feel it (0.5 % too high)


@dataclass(frozen=True)
class Total:
    """What an edge's releases cost one of its records; `epsilon` None if nothing is claimed, and `note` says why."""

    epsilon: float | None
    dp_delta: float
    note: str


@dataclass(frozen=True)
class _Sampled:
    """Poisson-sampled Gaussian releases of one kind."""

    noise_multiplier: float
    rate: float
    count: int

    def finest(self) -> float:
        """A grid well below the usual loss of one step, q/z."""
        return self.rate / self.noise_multiplier / _CELLS_PER_STEP

    def coarsest(self) -> float:
        """A grid that cuts the largest loss of one step into _MOST_CELLS."""
        loss = _largest_loss(1 / self.noise_multiplier)
        amplified = math.log1p(self.rate * math.expm1(loss)) if loss < 500 else loss + math.log(self.rate)
        return amplified / _MOST_CELLS


def total(events: Counts, dp_delta: float, method: Method = "pld") -> Total:
    """The cost of all `events` together, to one record.

    Args:
        events: how often each event happened.
        dp_delta: the delta at which epsilon is stated, in [0, 1).
        method: how Gaussian releases compose; "rdp" is a looser cross-check, "quick" a still looser
            bound that takes microseconds and loads no library.

    Raises:
        UnsupportedEvent: events of different adjacency, or one that the table above refuses; a dp_delta at which
            Gaussian noise promises nothing (0) or the accountant cannot tell (below 1e-10).
    """
    if not 0 <= dp_delta < 1:
        raise UnsupportedEvent(f"dp_delta: {dp_delta!r}: expected in [0, 1)")
    happened = {event: count for event, count in events.items() if count > 0}
    if not happened:
        return Total(0.0, dp_delta, "nothing released")
    doubts = sorted({doubt for doubt in map(_doubt, happened) if doubt})
    if doubts:
        return Total(None, dp_delta, "no privacy" if "no privacy" in doubts else "; ".join(doubts))
    adjacency = _one_adjacency(happened)
    epsilon = 0.0
    for mechanism, account in _ACCOUNTS.items():
        chosen = {event: count for event, count in happened.items() if event.mechanism == mechanism}
        epsilon += account(chosen, dp_delta, method) if chosen else 0.0
    if not math.isfinite(epsilon):
        return Total(None, dp_delta, "dp: not established: epsilon is beyond what can be computed")
    return Total(epsilon, dp_delta, _note(happened, adjacency, method))


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


def _one_adjacency(events: Counts) -> Adjacency:
    adjacencies = sorted({event.adjacency for event in events})
    if len(adjacencies) > 1:
        raise UnsupportedEvent(f"adjacency: {' and '.join(adjacencies)} in one ledger: expected one of them only")
    for event in events:
        if event.sampling == "fixed" and event.adjacency == "add_remove":
            raise UnsupportedEvent("fixed-size batches under add_remove: expected replace_one")
    return adjacencies[0]


def _note(events: Counts, adjacency: Adjacency, method: Method) -> str:
    unit = {"add_remove": "one record added or removed", "replace_one": "one record replaced"}[adjacency]
    gaussian = {"pld": "PLD", "rdp": "RDP", "quick": "RDP at integer orders"}[method]
    ways = {"gaussian": f"Gaussian by {gaussian}", "spherical-laplace": "pure sum"}
    used = sorted({ways[event.mechanism] for event in events})
    return f"{unit}; {' + '.join(used)}"


def _pure(events: Counts, _dp_delta: float, _method: Method) -> float:
    return math.fsum(count * pure_epsilon(event) for event, count in events.items())


def pure_epsilon(event: Event) -> float:
    """Pure epsilon of one spherical-Laplace release under the event's adjacency and sampling."""
    if event.epsilon is None:
        raise UnsupportedEvent(f"epsilon of {event!r}: expected a value")
    base = event.epsilon if event.adjacency == "replace_one" else event.epsilon / 2
    rate = 1.0 if event.sampling == "all" else event.sampling_rate
    if base > 500:  # exp would overflow; the same expression with e^base taken out
        return base + math.log(rate + (1 - rate) * math.exp(-base))
    return math.log1p(rate * math.expm1(base))


def _gaussian(events: Counts, dp_delta: float, method: Method) -> float:
    if dp_delta < SMALLEST_DELTA:
        raise UnsupportedEvent(f"dp_delta: {dp_delta!r} with Gaussian noise: expected at least {SMALLEST_DELTA}")
    precision = 0.0  # sum of 1/multiplier^2: releases without sampling are together one Gaussian release
    sampled: list[_Sampled] = []
    replace = False
    for event, count in events.items():
        if event.noise_multiplier is None:
            raise UnsupportedEvent(f"noise_multiplier of {event!r}: expected a value")
        replace = event.adjacency == "replace_one"
        if event.sampling == "poisson" and event.sampling_rate < 1:
            sampled.append(_Sampled(event.noise_multiplier, event.sampling_rate, count))
        else:
            precision += count * ((2 if replace else 1) / event.noise_multiplier) ** 2
    if method == "rdp":
        return _rdp(precision, sampled, replace, dp_delta)
    if method == "quick":
        return _quick(precision, sampled, replace, dp_delta)
    return _pld(precision, sampled, replace, dp_delta)


def _largest_loss(shift: float) -> float:
    """The loss of a normal shifted by `shift` of its deviations, ten deviations out (probability 1e-23)."""
    return 10 * shift + shift**2 / 2


def _pld(precision: float, sampled: list[_Sampled], replace: bool, dp_delta: float) -> float:
    import dp_accounting  # noqa: PLC0415  # seconds and 100 MB that a run without a question does not pay
    from dp_accounting.pld import privacy_loss_distribution as pld  # noqa: PLC0415

    if not sampled:
        return float(dp_accounting.get_epsilon_gaussian(1 / math.sqrt(precision), dp_delta))
    relation = dp_accounting.NeighboringRelation
    coarsest = max(_largest_loss(math.sqrt(precision)) / _MOST_CELLS, *(line.coarsest() for line in sampled))
    interval = max(coarsest, min(line.finest() for line in sampled))
    loss: Any = pld.identity(interval)
    for line in sampled:
        one = pld.from_gaussian_mechanism(
            line.noise_multiplier,
            value_discretization_interval=interval,
            sampling_prob=line.rate,
            neighboring_relation=relation.REPLACE_ONE if replace else relation.ADD_OR_REMOVE_ONE,
        )
        loss = loss.compose(one.self_compose(line.count))
    if precision > 0:
        loss = loss.compose(
            pld.from_gaussian_mechanism(1 / math.sqrt(precision), value_discretization_interval=interval)
        )
    return float(loss.get_epsilon_for_delta(dp_delta))


def _quick(precision: float, sampled: list[_Sampled], replace: bool, dp_delta: float) -> float:
    if sampled and replace:
        raise UnsupportedEvent("Poisson-sampled Gaussian releases under replace_one in a hurry: expected method pld")
    curves = [line.count * curve(line.rate, line.noise_multiplier) for line in sampled]
    return epsilon_of(sum(curves, start=ORDERS * precision / 2), dp_delta)


def _rdp(precision: float, sampled: list[_Sampled], replace: bool, dp_delta: float) -> float:
    import dp_accounting  # noqa: PLC0415
    from dp_accounting import rdp  # noqa: PLC0415

    if sampled and replace:
        raise UnsupportedEvent("Poisson-sampled Gaussian releases under replace_one by RDP: expected method pld")
    accountant = rdp.RdpAccountant()
    for line in sampled:
        gaussian = dp_accounting.GaussianDpEvent(line.noise_multiplier)
        accountant.compose(dp_accounting.PoissonSampledDpEvent(line.rate, gaussian), line.count)
    if precision > 0:
        accountant.compose(dp_accounting.GaussianDpEvent(1 / math.sqrt(precision)))
    return float(accountant.get_epsilon(dp_delta))


_ACCOUNTS: Mapping[Mechanism, Callable[[Counts, float, Method], float]] = MappingProxyType(
    {"gaussian": _gaussian, "spherical-laplace": _pure}
)
