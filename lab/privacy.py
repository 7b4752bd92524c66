"""`mapa privacy`: what so many releases cost, by four ways of adding up, and the noise that a total calls for.

An epsilon on the command line is that of one release at the chosen neighbouring relation, in the batch that a record
is in; an `Event` states it for replacing a record, which moves an average twice as far as adding or removing one. So
add-remove doubles it on the way in and halves it on the way out.

| input | result |
|---|---|
| a number that is not finite, or out of range | ConfigError |
| the parameter of the other mechanism, or both; no dimension for spherical-laplace | ConfigError |
| batches of fixed size with add-remove; a sampling rate below 1 with sampling all | ConfigError |
| dp_delta 0 with Gaussian noise | ConfigError |
| a way of adding up that does not apply | None |
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from common.errors import ConfigError, Fault, UnsupportedEvent
from common.events import LARGEST, SMALLEST, SMALLEST_RATE, Adjacency, Event, Sampling
from common.privacy.accountant import SMALLEST_DELTA, compositions
from common.privacy.calibration import MOST_RELEASES, Ask, calibrate, fresh
from lab.rounding import at_most

CliMechanism = Literal["spherical-laplace", "gaussian"]
MECHANISMS: tuple[str, ...] = get_args(CliMechanism)
ADJACENCIES: Mapping[str, Adjacency] = {"add-remove": "add_remove", "replace-one": "replace_one"}
SAMPLINGS: tuple[Sampling, ...] = ("poisson", "fixed", "all")
MOST_PARAMETERS = 10**9

_NEIGHBOURS: Mapping[Adjacency, str] = {
    "add_remove": "one record takes part or contributes nothing (add-remove)",
    "replace_one": "one record is replaced by another (replace-one)",
}
_BATCHES: Mapping[Sampling, str] = {
    "poisson": "each record is in a batch with probability {rate:g}, secretly (poisson)",
    "fixed": "batches of fixed size, a share {rate:g} of the records (fixed)",
    "all": "every record is in every batch",
}
_WAYS: Mapping[str, tuple[str, str]] = {
    "epsilon_one_release": ("one release", "what a single message costs, by PLD"),
    "epsilon_basic": ("basic", "each message at its worst, added up"),
    "epsilon_advanced": ("advanced", "a formula that knows only that worst case (2010)"),
    "epsilon_rdp": ("RDP", "Renyi accounting: quicker, a little looser"),
    "epsilon_pld": ("PLD", "the whole law of the loss: the number to quote"),
}
_ROUNDED = 1.01  # two totals on grids of their own


@dataclass(frozen=True)
class Asked:
    """The releases that a person asks about, in the words of the command line; None: not given."""

    mechanism: str
    releases: int = 1
    sampling_rate: float = 1.0
    dp_delta: float = 1e-5
    dimension: int | None = None
    epsilon: float | None = None
    noise_multiplier: float | None = None
    adjacency: str | None = None
    sampling: Sampling | None = None

    @property
    def drawn(self) -> Sampling:
        """How batches are drawn: Poisson, unless every record is in them."""
        return self.sampling or ("all" if self.sampling_rate == 1 else "poisson")

    @property
    def neighbours(self) -> Adjacency:
        """The relation: add-remove, unless batches have a fixed size, from which no record can be missing."""
        if self.adjacency is not None:
            return ADJACENCIES[self.adjacency]
        return "replace_one" if self.drawn == "fixed" else "add_remove"


@dataclass(frozen=True)
class Answer:
    """What the releases cost: `epsilons` by the keys of the JSON object, None where a way does not apply."""

    event: Event
    releases: int
    dp_delta: float
    epsilons: Mapping[str, float | None]

    def content(self) -> Mapping[str, Any]:
        """The JSON object."""
        event = self.event
        return {
            **{key: self.epsilons[key] for key in _WAYS},  # a kept answer has an order of its own
            "mechanism": event.mechanism,
            "epsilon": _epsilon(event),
            "noise_multiplier": event.noise_multiplier,
            "dimension": event.dimension,
            "releases": self.releases,
            "sampling": event.sampling,
            "sampling_rate": event.sampling_rate,
            "adjacency": event.adjacency.replace("_", "-"),
            "dp_delta": self.dp_delta,
        }

    def text(self) -> str:
        """The table."""
        event = self.event
        noise = f"noise multiplier {event.noise_multiplier:.6g}" if event.noise_multiplier is not None else ""
        if event.epsilon is not None:
            noise = f"epsilon {_epsilon(event):.6g} in {event.dimension:,} dimensions"
        rows = [f"  {name:<12} {_found(self.epsilons[key], meaning)}" for key, (name, meaning) in _WAYS.items()]
        lines = (
            f"{event.mechanism}, {noise}, {self.releases:,} release{'s' if self.releases > 1 else ''}",
            "  unit         one record",
            f"  neighbours   {_NEIGHBOURS[event.adjacency]}",
            f"  batches      {_BATCHES[event.sampling].format(rate=event.sampling_rate)}",
            f"  delta        {self.dp_delta:g}, the chance that the statement fails outright",
            "",
            f"  {'added up by':<12} {'epsilon':>10}   meaning",
            *rows,
        )
        return "\n".join(lines)


def account(asked: Asked, ask: Ask = fresh) -> Answer:
    """What these releases cost one record. `ask` remembers answers.

    Raises:
        ConfigError: with one fault for each thing that is wrong.
    """
    faults = [*_common_faults(asked), *_noise_faults(asked)]
    if faults:
        raise ConfigError(faults)
    return _answer(_event(asked, asked.epsilon, asked.noise_multiplier), asked, ask)


def account_for_target(asked: Asked, target_epsilon: float, ask: Ask = fresh) -> Answer:
    """The least noise with which these releases stay within the target, and what they cost then.

    Raises:
        ConfigError: as `account`, or a target that no noise meets.
    """
    faults = list(_common_faults(asked))
    if not SMALLEST <= target_epsilon <= LARGEST:
        faults.append(Fault("--target-epsilon", target_epsilon, f"{SMALLEST:g} to {LARGEST:g}"))
    if faults:
        raise ConfigError(faults)
    event = _event(asked, None, None)
    event = calibrate(event, asked.releases, target_epsilon, asked.dp_delta, name="--target-epsilon", ask=ask)
    return _answer(event, asked, ask)


def _answer(event: Event, asked: Asked, ask: Ask) -> Answer:
    def compute() -> Mapping[str, float | None]:
        try:
            all_of_them, one = (compositions({event: count}, asked.dp_delta) for count in (asked.releases, 1))
        except UnsupportedEvent as error:
            raise ConfigError(
                Fault("releases", asked.releases, f"something that can be accounted for: {error}")
            ) from error
        return {
            "epsilon_pld": all_of_them.epsilon_pld,
            "epsilon_rdp": all_of_them.epsilon_rdp,
            "epsilon_basic": all_of_them.epsilon_basic,
            "epsilon_advanced": all_of_them.epsilon_advanced,
            "epsilon_one_release": one.epsilon_pld,
        }

    question = {"account": event.model_dump(mode="json"), "releases": asked.releases, "dp_delta": asked.dp_delta}
    epsilons = ask(question, compute)
    return Answer(event, asked.releases, asked.dp_delta, epsilons if _can_be_true(epsilons) else compute())


def _can_be_true(epsilons: Any) -> bool:
    """Whether these are costs as `compositions` gives them: all together cost no less than one, nor more than basic."""
    if not isinstance(epsilons, dict) or epsilons.keys() != set(_WAYS):
        return False
    if not all(value is None or (isinstance(value, float) and 0 <= value < math.inf) for value in epsilons.values()):
        return False
    together = epsilons["epsilon_pld"]
    if together is None:
        return True
    one, most = epsilons["epsilon_one_release"] or 0.0, epsilons["epsilon_basic"]
    return one <= _ROUNDED * together and (most is None or together <= most)


def _event(asked: Asked, epsilon: float | None, noise_multiplier: float | None) -> Event:
    factor = 1 if asked.neighbours == "replace_one" else 2
    return Event(
        mechanism="gaussian" if asked.mechanism == "gaussian" else "spherical-laplace",
        noise_multiplier=noise_multiplier,
        epsilon=None if epsilon is None else factor * epsilon,
        dimension=asked.dimension,
        sampling=asked.drawn,
        sampling_rate=asked.sampling_rate,
        adjacency=asked.neighbours,
    )


def _epsilon(event: Event) -> float | None:
    """As the command line states it."""
    if event.epsilon is None:
        return None
    return event.epsilon if event.adjacency == "replace_one" else event.epsilon / 2


def _common_faults(asked: Asked) -> Iterator[Fault]:
    if not 1 <= asked.releases <= MOST_RELEASES:
        yield Fault("--releases", asked.releases, f"1 to {MOST_RELEASES:,}")
    if not SMALLEST_RATE <= asked.sampling_rate <= 1:
        yield Fault("--sampling-rate", asked.sampling_rate, f"{SMALLEST_RATE:g} to 1")
    elif asked.drawn == "all" and asked.sampling_rate < 1:
        yield Fault("--sampling-rate", asked.sampling_rate, "1 with --sampling all: every record is in every batch")
    if asked.drawn == "fixed" and asked.neighbours == "add_remove":
        text = "replace-one with --sampling fixed: no record can be missing from a full batch"
        yield Fault("--adjacency", asked.adjacency, text)
    least = SMALLEST_DELTA if asked.mechanism == "gaussian" else 0.0
    if not 0 <= asked.dp_delta < 1:
        yield Fault("--delta", asked.dp_delta, "at least 0 and below 1")
    elif asked.dp_delta < least:
        yield Fault("--delta", asked.dp_delta, f"at least {least:g} with gaussian noise, which promises nothing at 0")
    if asked.dimension is None and asked.mechanism == "spherical-laplace":
        yield Fault("--dimension", None, "the number of parameters, for spherical-laplace noise")
    elif asked.dimension is not None and not 1 <= asked.dimension <= MOST_PARAMETERS:
        yield Fault("--dimension", asked.dimension, f"1 to {MOST_PARAMETERS:,}")


def _noise_faults(asked: Asked) -> Iterator[Fault]:
    """The mechanism's own parameter, in range, and not the other's."""
    is_gaussian, doubled = asked.mechanism == "gaussian", asked.neighbours == "add_remove"
    for name, value, is_own, most in (
        ("--noise-multiplier", asked.noise_multiplier, is_gaussian, LARGEST),
        ("--epsilon", asked.epsilon, not is_gaussian, LARGEST / 2 if doubled else LARGEST),
    ):
        if not is_own and value is not None:
            yield Fault(name, value, f"nothing, for mechanism {asked.mechanism}")
        elif is_own and (value is None or not SMALLEST <= value <= most):
            yield Fault(name, value, f"{SMALLEST:g} to {most:g}, for mechanism {asked.mechanism}")


def _found(epsilon: float | None, meaning: str) -> str:
    return f"{'-':>10}   does not apply here" if epsilon is None else f"{at_most(epsilon, 4):>10.4g}   {meaning}"
