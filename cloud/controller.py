"""What decides the learning rate, the clip norm and when to look at the loss: the seam to the cloud's node.

A controller is plain arithmetic. It sees public numbers (`Setting`), parameters that were made from released
updates, and released probe answers; so whatever it decides is post-processing and costs no privacy.

How a node uses one:

    ask = controller.begin(flat)
    while True:
        while ask:                                       # probe ask.flat with ask.cap and ask.bound
            reply = controller.answered(loss, share, noise_std)
            ask = reply if isinstance(reply, Ask) else None
            if a Continue with parameters came: go on from those (an older model: a rollback)
        flat -= controller.rate() * update               # clipped by the edge at the clip norm it was sent
        ask = controller.applied(flat)

`stage` counts up whenever the learning rate rule or the clip norm changes for a reason other than the passing of
updates; a node that sees it change writes `describe()` into a `stage` record.

Symbols: T -> updates, K -> edges, b -> batch_size, d -> dimension, tau -> staleness, L -> smoothness,
    f(x1) - f* -> gap, C -> clip_norm, G -> lipschitz, E|noise|^2 = kappa * sensitivity^2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

from common.errors import ConfigError, Fault
from common.tensors import Flat

SMALLEST_CLIP, LARGEST_CLIP = 1e-20, 1e20
"""Clip norms that an edge follows; beyond, float32 cannot carry its noise."""
SMALLEST_RATE, LARGEST_RATE = 1e-30, 1e30
"""Learning rates that move float32 parameters, and can be sent."""
_MOST = 1e20  # constants up to here, and down to 1 over it, keep every formula of a stage within float64


@dataclass(frozen=True)
class Setting:
    """The public numbers of one run, as controllers read them.

    Attributes:
        updates: updates the run will apply; None if only the clock ends it.
        edges: edges expected to take part.
        batch_size: records behind one update (the divisor of its average).
        dimension: length of the parameter vector.
        kappa: E|noise|^2 over sensitivity^2 with sensitivity 2 * clip_norm / batch_size; 0 without noise.
        staleness: bound on the staleness of an applied update: edges - 1 (rigorous), edges (paper), 0 (sync).
        smoothness: public bound on the loss's smoothness; None where none is known.
        gap: public bound on the first loss above the lowest, e.g. ln(classes).
        clip_norm: bound on a per-sample gradient at the start; None where nothing is clipped.
        lipschitz: public bound on a per-sample gradient norm; None where none is known.
        rigour: "paper" uses the literal constants and formulas.
        averaged: updates averaged into one step (1 when asynchronous, the cohort when synchronous).
        probes: probes that the edges' budget pays for.
    """

    updates: int | None
    edges: int
    batch_size: int
    dimension: int
    kappa: float
    staleness: float
    smoothness: float | None
    gap: float
    clip_norm: float | None
    lipschitz: float | None = None
    rigour: Literal["rigorous", "paper"] = "rigorous"
    averaged: int = 1
    probes: int = 24

    def __post_init__(self) -> None:
        """Refuses numbers no controller can work with.

        Raises:
            ConfigError: one fault for each of them.
        """
        counts, amounts = ("updates", "edges", "batch_size", "dimension", "averaged"), ("kappa", "staleness", "probes")
        scales, norms = ("smoothness", "gap"), ("clip_norm", "lipschitz")
        ranges: dict[str, tuple[float, float]] = {
            **dict.fromkeys(counts, (1, 2**53)),
            **dict.fromkeys(amounts, (0, _MOST**2)),
            **dict.fromkeys(scales, (1 / _MOST, _MOST)),
            **dict.fromkeys(norms, (SMALLEST_CLIP, LARGEST_CLIP)),
        }
        check_ranges("setting", {name: (getattr(self, name), *limits) for name, limits in ranges.items()})


def check_ranges(section: str, ranges: Mapping[str, tuple[float | None, float, float]]) -> None:
    """Raises ConfigError, with a fault for each value (None: nothing to check) outside its limits."""
    faults = [
        Fault(f"{section}.{name}", value, f"finite, from {least:g} to {most:g}")
        for name, (value, least, most) in ranges.items()
        if value is not None and not least <= value <= most
    ]
    if faults:
        raise ConfigError(faults)


def check_control(clip_norm: float | None, rate: float) -> None:
    """Raises ConfigError where a controller's first clip norm or learning rate is of no use to an edge."""
    clip = (clip_norm, SMALLEST_CLIP, LARGEST_CLIP)
    check_ranges("controller", {"clip_norm": clip, "learning_rate": (rate, SMALLEST_RATE, LARGEST_RATE)})


@dataclass(frozen=True)
class Ask:
    """A wish to know the loss at `flat` [dimension], a copy nobody else writes to.

    Attributes:
        flat: parameters to probe.
        cap: per-record losses above this count as this.
        bound: per-sample gradient norms up to this count into the answer's `share`.
    """

    flat: Flat
    cap: float
    bound: float


@dataclass(frozen=True)
class Continue:
    """Updates may flow again, from `flat` [dimension] if given (a rollback), else from where they stopped."""

    flat: Flat | None = None


class Controller(Protocol):
    """Rates, clip norms and probes of one run, as a function of public numbers and released answers.

    `STATE` names the attributes that change during a run: with their values, a controller made from the same numbers
    goes on where another one was (`cloud.state`).
    """

    STATE: ClassVar[tuple[str, ...]]

    @property
    def stage(self) -> int:
        """1 at the start; counts up at each change that deserves a `stage` record."""
        ...

    @property
    def clip_norm(self) -> float | None:
        """What edges are to clip per-sample gradients to from now on; None: not at all."""
        ...

    def begin(self, flat: Flat) -> Ask | None:
        """Called once with the first parameters [dimension], before any update."""
        ...

    def rate(self) -> float:
        """The learning rate of the next update to be applied."""
        ...

    def applied(self, flat: Flat) -> Ask | None:
        """One update was applied; `flat` [dimension] are the parameters after it. Copied if kept."""
        ...

    def answered(self, loss: float, share: float, noise_std: float) -> Ask | Continue:
        """The answer to the last `Ask`, averaged over the edges.

        Args:
            loss: noisy mean of min(loss, cap), in units of the loss (the released fraction times the cap).
            share: noisy share of per-sample gradient norms <= bound, in 0..1 but for the noise.
            noise_std: standard deviation of the noise in `loss`, in units of the loss.
        """
        ...

    def diverged(self) -> Flat | None:
        """An update was applied and the parameters overflow: from where to go on [dimension]; None: nowhere."""
        ...

    def describe(self) -> Mapping[str, float]:
        """The row of a `stage` record: sensitivity, clip_norm, learning_rate and the controller's own numbers."""
        ...
