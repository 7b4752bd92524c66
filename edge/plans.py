"""What an edge plans to release: its noise, from what the experiment declares or from a target for the total."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from common import data
from common.errors import ConfigError, Fault
from common.experiment import Experiment
from common.privacy.calibration import Ask, fresh
from common.privacy.plan import PrivacyPlan, plan_for
from common.privacy.target import Work, plan_to_target
from edge.algorithms import find
from edge.algorithms.asynchronous import Settings
from edge.learner import Probes


@dataclass(frozen=True)
class Holder:
    """An edge as far as its plans are concerned: its id and how many records it holds."""

    edge: str
    records: int


def plans_for(
    experiment: Experiment, settings: Settings, holder: Holder, dimension: int, ask: Ask = fresh
) -> tuple[PrivacyPlan, Probes | None]:
    """The plan of training and that of probes, if the cloud's controller asks any.

    Args:
        experiment: what is declared.
        settings: of this edge.
        holder: the edge.
        dimension: parameters of the model.
        ask: remembers what was calibrated to a target.

    Raises:
        ConfigError: with one fault for each thing that is wrong with the declaration, or a target that no noise meets.
    """
    edge, probes = holder.edge, probes_of(experiment, settings)
    if experiment.privacy_of(edge).target_epsilon is not None:
        work = Work(updates_of(experiment, edge), probes, settings.probe_share, settings.probe_records)
        training, answers = plan_to_target(experiment, edge, holder.records, dimension, work, ask=ask)
        return training, None if answers is None else Probes(answers, probes)
    plan = plan_for(experiment, edge, holder.records, dimension)
    if probes == 0:
        return plan, None
    steps = updates_of(experiment, edge)
    training, probing = plan.with_probes(steps, probes, settings.probe_share, settings.probe_records)
    return training, Probes(probing, probes)


def probes_of(experiment: Experiment, settings: Settings) -> int:
    """How many probes the edge has to be ready for."""
    return settings.probes if find(experiment).asks_probes(experiment) else 0


def updates_of(experiment: Experiment, edge: str) -> int:
    """How many updates this edge has to be ready for.

    With a target, as many as its budget allows releases (if no probe is asked, all of them are updates). Else the whole
    run's when synchronous, its part of them when not, and never more than the budget.

    Raises:
        ConfigError: neither the end of the run nor a budget tells.
    """
    declared, updates = experiment.privacy_of(edge), experiment.stop.updates
    budget = declared.max_releases
    if budget is not None and (updates is None or declared.target_epsilon is not None):
        return budget
    if updates is None:
        noise = "the noise of probes" if declared.target_epsilon is None else "the noise for privacy.target_epsilon"
        raise ConfigError(
            Fault("stop.updates", None, f"a number (or privacy.max_releases), from which {noise} follows")
        )
    share = updates if experiment.algorithm.mode == "sync" else math.ceil(updates / experiment.data.edges)
    return share if budget is None else min(share, budget)


def holders(experiment: Experiment) -> Iterator[Holder]:
    """One edge of each different size, the smallest first, and every edge with a declaration of its own.

    Of those whose records are on this host, if every edge has its own.

    Raises:
        ConfigError, DataError: the data cannot be dealt.
    """
    sizes = data.sizes(experiment.data, experiment.seed)
    seen: set[int] = set()
    for edge, size in sorted(sizes.items(), key=lambda pair: (pair[1], pair[0])):
        if size not in seen or edge in experiment.privacy.per_edge:
            seen.add(size)
            yield Holder(edge, size)
