"""Puts an edge together from an experiment: the only place of this half that assembles."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import ValidationError

from common import data
from common.data import Records
from common.errors import ConfigError, Fault
from common.experiment import Experiment, edge_ids, faults_of
from common.messages import Hello
from common.models import build_model
from common.models.spec import ModelSpec
from common.privacy.ledger import Ledger
from common.privacy.plan import PrivacyPlan, plan_for
from common.seeds import stream
from common.tensors import Layout
from edge.algorithms import find
from edge.algorithms.asynchronous import AsynchronousEdge, Past, Settings
from edge.learner import Learner, Probes, Randomness, Shard


@dataclass(frozen=True)
class Edge:
    """A node and what its shell has to know: the layout of tensors; doubts, for the log."""

    node: AsynchronousEdge
    layout: Layout
    cautions: tuple[str, ...]


def build(experiment: Experiment, edge: str, boot: str, past: Past | None = None) -> Edge:
    """The edge of this id, run by process `boot`.

    The boot id names the random streams: no process may repeat the noise of another, because two releases with the
    same noise, at different parameters, give their difference away un-noised. With the boot id from its records,
    what a process drew can be drawn again.

    Raises:
        ConfigError: the experiment is wrong, or has no edge of this id.
        DataError: the data set is missing, or has no records for this edge.
    """
    settings = _settings(experiment)
    shards = edge_ids(experiment.data.edges)
    if edge not in shards:
        expected = f"{shards[0]} to {shards[-1]}: the experiment deals its data to {len(shards)} edges"
        raise ConfigError(Fault("edge id", edge, expected))
    model, records = _model(experiment), data.load_train(experiment.data)
    own = data.deal(records, experiment.data, experiment.seed)[shards.index(edge)]
    shard = Shard(model.prepare(records.inputs[own], records.scale), records.labels[own])
    plan, probes = _plans(experiment, settings, edge, len(shard), model.layout.size)
    learner = Learner(
        model,
        shard,
        plan,
        Ledger(experiment.privacy_of(edge).max_releases),
        _randomness(experiment, edge, boot),
        probes=probes,
        l2=experiment.model.l2,
    )
    hello = Hello(digest=experiment.digest(), boot=boot, samples=len(shard), event=plan.event)
    node = AsynchronousEdge(hello, learner, settings, experiment.privacy.dp_delta, past)
    return Edge(node, model.layout, plan.cautions)


def check(experiment: Experiment) -> tuple[str, ...]:
    """Doubts about the experiment as this half reads it, which do not stop it.

    Raises:
        ConfigError: with one fault for each thing that is wrong.
        DataError: the data set is missing, or leaves an edge without records.
    """
    faults: dict[str, Fault] = {}
    cautions: list[str] = []
    for fault in _faults(experiment, cautions):
        faults.setdefault(fault.path, fault)  # what is wrong for every edge is said once
    if faults:
        raise ConfigError(faults.values())
    return tuple(dict.fromkeys(cautions))


def _faults(experiment: Experiment, cautions: list[str]) -> Iterator[Fault]:
    try:
        algorithm = find(experiment)
        settings = _settings(experiment)
        model = _model(experiment)
    except ConfigError as error:
        yield from error.faults
        return
    name, mechanism = experiment.algorithm.name, experiment.privacy.mechanism
    if algorithm.is_private == (mechanism == "none"):
        expected = f"a mechanism: {name} is private" if algorithm.is_private else f"none: {name} adds no noise"
        yield Fault("privacy.mechanism", mechanism, expected)
    records = data.load_train(experiment.data)
    for edge, size in _sizes(experiment, records):
        try:
            plan, _ = _plans(experiment, settings, edge, size, model.layout.size)
        except ConfigError as error:
            yield from error.faults
        else:
            cautions.extend(plan.cautions)


def _sizes(experiment: Experiment, records: Records) -> Iterator[tuple[str, int]]:
    """One edge of each different size, the smallest first, and every edge with a declaration of its own."""
    shards = data.deal(records, experiment.data, experiment.seed)
    ids = edge_ids(experiment.data.edges)
    seen: set[int] = set()
    for edge, shard in sorted(zip(ids, shards, strict=True), key=lambda pair: (pair[1].size, pair[0])):
        if shard.size not in seen or edge in experiment.privacy.per_edge:
            seen.add(shard.size)
            yield edge, shard.size


def _settings(experiment: Experiment) -> Settings:
    try:
        return Settings.model_validate(experiment.algorithm.edge)
    except ValidationError as error:
        raise ConfigError(faults_of(error, "algorithm.edge")) from error


def _model(experiment: Experiment) -> ModelSpec:
    spec = data.describe(experiment.data)
    return build_model(experiment.model, spec.shape, spec.classes)


def _plans(
    experiment: Experiment, settings: Settings, edge: str, records: int, dimension: int
) -> tuple[PrivacyPlan, Probes | None]:
    """The plan of training and that of probes, if the cloud's controller asks any."""
    plan = plan_for(experiment, edge, records, dimension)
    if not find(experiment).asks_probes(experiment) or settings.probes == 0:
        return plan, None
    steps = _steps(experiment, edge)
    training, probing = plan.with_probes(steps, settings.probes, settings.probe_share, settings.probe_records)
    return training, Probes(probing, settings.probes)


def _steps(experiment: Experiment, edge: str) -> int:
    """How many updates this edge is expected to make: the whole run's when synchronous, else its part of them."""
    updates, budget = experiment.stop.updates, experiment.privacy_of(edge).max_releases
    if updates is None and budget is None:
        expected = "a number (or privacy.max_releases), from which the noise of probes follows"
        raise ConfigError(Fault("stop.updates", None, expected))
    is_synchronous = experiment.algorithm.mode == "sync"
    own = updates if is_synchronous or updates is None else math.ceil(updates / experiment.data.edges)
    return min(value for value in (own, budget) if value is not None)


def _randomness(experiment: Experiment, edge: str, boot: str) -> Randomness:
    """The streams of this process, and of no other: not of this edge's next one, nor of a run with the same seed."""
    return Randomness(
        sampling=stream(experiment.seed, edge, "sampling", boot),
        noise=stream(experiment.seed, edge, "noise", boot),
    )
