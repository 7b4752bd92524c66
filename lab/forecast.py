"""What edges will have spent when they have made all the releases that the experiment provides for."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from common.data import describe
from common.errors import ConfigError, UnsupportedEvent
from common.events import Event
from common.experiment import Experiment
from common.models import build_model
from common.privacy.accountant import Total, total
from common.privacy.calibration import Ask, fresh
from edge.algorithms.asynchronous import Settings
from edge.plans import Holder, holders, plans_for, probes_of, updates_of
from lab.rounding import at_most

MOST = 4
"""Different edges that are told of; of more, the smallest and the largest."""


@dataclass(frozen=True)
class Forecast:
    """One edge. `target`: the total its noise was made for, if any."""

    holder: Holder
    event: Event
    updates: int
    probes: int
    target: float | None
    total: Total

    def text(self) -> str:
        """One line."""
        event, total = self.event, self.total
        noise = f"noise multiplier {event.noise_multiplier:.4g}" if event.noise_multiplier is not None else ""
        if event.epsilon is not None:
            noise = f"epsilon {event.epsilon:.4g} per release"
        target = f" (target {self.target:g})" if self.target is not None else ""
        answers = f" and {self.probes} probes" if self.probes else ""
        cost = f"epsilon {at_most(total.epsilon, 4):.4g}{target}" if total.epsilon is not None else total.note
        edge, records = self.holder.edge, self.holder.records
        return f"{edge}, {records:,} records: {noise}, {cost} after {self.updates:,} updates{answers}"


def forecast(experiment: Experiment, ask: Ask = fresh) -> tuple[Forecast, ...]:
    """For one edge of each size, and each with a declaration of its own; none if nothing says how many updates.

    Args:
        experiment: in order.
        ask: remembers what the accountant said.

    Raises:
        ConfigError, DataError: the experiment is not in order.
    """
    if experiment.privacy.mechanism == "none":
        return ()
    found = list(holders(experiment))
    chosen = found if len(found) <= MOST else [found[0], found[-1]]
    return tuple(_forecasts(experiment, chosen, ask))


def _forecasts(experiment: Experiment, chosen: Sequence[Holder], ask: Ask) -> Iterator[Forecast]:
    settings = Settings.model_validate(experiment.algorithm.edge)
    spec = describe(experiment.data)
    dimension = build_model(experiment.model, spec.shape, spec.classes).layout.size
    probes = probes_of(experiment, settings)
    for holder in chosen:
        declared = experiment.privacy_of(holder.edge)
        try:
            updates = updates_of(experiment, holder.edge)
        except ConfigError:  # neither an end nor a budget in updates: nothing to foretell
            continue
        training, answers = plans_for(experiment, settings, holder, dimension, ask)
        events = {training.event: updates} | ({answers.plan.event: probes} if answers is not None else {})
        cost = _total(events, training.dp_delta, ask)
        yield Forecast(holder, training.event, updates, probes, declared.target_epsilon, cost)


def _total(events: dict[Event, int], dp_delta: float, ask: Ask) -> Total:
    def compute() -> dict[str, Any]:
        try:
            found = total(events, dp_delta)
        except UnsupportedEvent as error:
            found = Total(None, dp_delta, str(error))
        return {"epsilon": found.epsilon, "note": found.note}

    counted = [[event.model_dump(mode="json"), count] for event, count in events.items()]
    kept = ask({"total": counted, "dp_delta": dp_delta}, compute)
    answer = kept if _can_be_true(kept) else compute()
    return Total(answer["epsilon"], dp_delta, answer["note"])


def _can_be_true(answer: Any) -> bool:
    """Whether a kept answer is a total, as `compute` gives it."""
    if not isinstance(answer, dict) or answer.keys() != {"epsilon", "note"} or not isinstance(answer["note"], str):
        return False
    epsilon = answer["epsilon"]
    return epsilon is None or (isinstance(epsilon, float) and 0 <= epsilon < math.inf)
