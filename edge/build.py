"""Puts an edge together from an experiment: the only place of this half that assembles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from common import data
from common.errors import ConfigError, Fault
from common.experiment import Experiment, edge_ids, faults_of
from common.messages import Hello
from common.models import build_model
from common.models.spec import ModelSpec
from common.privacy.calibration import Ask, fresh
from common.privacy.ledger import Budget, Ledger, Store
from common.privacy.plan import PrivacyPlan
from common.secrecy import secret_stream
from common.seeds import stream
from common.tensors import Layout
from edge.algorithms import find
from edge.algorithms.asynchronous import AsynchronousEdge, Kept, Settings
from edge.learner import Learner, Probes, Randomness, Shard
from edge.owner import Owner
from edge.plans import Holder, holders, plans_for

Keeper = Callable[[Layout], Kept]
"""Makes what keeps answers, of tensors of this layout."""
Opener = Callable[[Owner], Store]
"""Opens what remembers the releases of these records."""


MOST_TRIED = 8
"""Edges whose noise is calibrated to check a target; of more, the smallest and the largest, and those with declarations
of their own: what lies between is met if these are."""


@dataclass(frozen=True)
class Edge:
    """A node and what its shell has to know: the layout of tensors; doubts, for the log.

    `work`: records that it goes through for a message of each kind, the expected number under random sampling.
    """

    node: AsynchronousEdge
    layout: Layout
    cautions: tuple[str, ...]
    work: Mapping[str, float]


@dataclass(frozen=True)
class Holding:
    """What an edge has before it has a ledger and randomness: its records, and what it does to let them out."""

    settings: Settings
    model: ModelSpec
    shard: Shard
    plan: PrivacyPlan
    probes: Probes | None
    owner: Owner | None = None


def build(
    experiment: Experiment,
    edge: str,
    boot: str,
    opener: Opener | None = None,
    *,
    ask: Ask = fresh,
    keeper: Keeper | None = None,
) -> Edge:
    """The edge of this id, run by process `boot`; `ask` remembers what was calibrated.

    Its ledger goes on from what `opener` finds and is kept there; without one, it is new and forgotten. So is its last
    answer, with `keeper`.

    No process may repeat the noise of another, because two releases with the same noise, at different parameters,
    give their difference away un-noised. Secure streams have keys of their own; reproducible ones are named by the
    boot id, with which what a process drew can be drawn again.

    Raises:
        ConfigError: the experiment is wrong, or has no edge of this id.
        DataError: the data set is missing, or has no records for this edge.
        LedgerError: the ledger cannot be relied on.
    """
    own = hold(experiment, edge, ask)
    assert own.owner is not None  # which only `build_all` leaves out
    store = opener(own.owner) if opener is not None else None
    return _assemble(experiment, own, edge, boot, store, kept=None if keeper is None else keeper(own.model.layout))


def build_all(experiment: Experiment, boots: Mapping[str, str], ask: Ask = fresh) -> Iterator[tuple[str, Edge]]:
    """All edges for one process, in order, with `boots` by id: they share one copy of the records and keep no ledgers.

    Raises:
        ConfigError, DataError: as `build`.
    """
    settings, model = _settings(experiment), _model(experiment)
    records, sizes = data.load_apart(experiment.data, experiment.seed)
    inputs = model.prepare(records.inputs, records.scale)
    plans: dict[tuple[str, int], tuple[PrivacyPlan, Probes | None]] = {}
    start = 0
    for edge, size in sizes.items():
        shard = Shard(inputs[start : start + size], records.labels[start : start + size])
        start += size
        alike = (edge if edge in experiment.privacy.per_edge else "", size)  # same declaration, as many records
        if alike not in plans:
            plans[alike] = plans_for(experiment, settings, Holder(edge, size), model.layout.size, ask)
        yield edge, _assemble(experiment, Holding(settings, model, shard, *plans[alike]), edge, boots[edge], None)


def _assemble(
    experiment: Experiment, own: Holding, edge: str, boot: str, store: Store | None, *, kept: Kept | None = None
) -> Edge:
    learner = Learner(
        own.model,
        own.shard,
        own.plan,
        Ledger(_budget(experiment, edge), store),
        _randomness(experiment, edge, boot),
        probes=own.probes,
        l2=experiment.model.l2,
    )
    hello = Hello(digest=experiment.digest(), boot=boot, samples=len(own.shard), event=own.plan.event)
    node = AsynchronousEdge(hello, learner, own.settings, experiment.privacy.dp_delta, kept)
    work = {"model": float(own.plan.batch_size)}
    if own.probes is not None:
        work["probe"] = own.probes.plan.expected
    return Edge(node, own.model.layout, own.plan.cautions, work)


def hold(experiment: Experiment, edge: str, ask: Ask = fresh) -> Holding:
    """The records of this edge and its plans for them; raises as `build`."""
    settings = _settings(experiment)
    shards = edge_ids(experiment.data.edges)
    if edge not in shards:
        expected = f"{shards[0]} to {shards[-1]}: the experiment deals its data to {len(shards)} edges"
        raise ConfigError(Fault("edge id", edge, expected))
    model, records = _model(experiment), data.load_shard(experiment.data, experiment.seed, edge)
    shard = Shard(model.prepare(records.inputs, records.scale), records.labels)
    plan, probes = plans_for(experiment, settings, Holder(edge, len(shard)), model.layout.size, ask)
    owner = Owner.of(edge, experiment.data.name, records.inputs, records.labels)
    return Holding(settings, model, shard, plan, probes, owner)


def check(experiment: Experiment, ask: Ask = fresh) -> tuple[str, ...]:
    """Doubts about the experiment as this half reads it, which do not stop it. `ask` remembers what was calibrated.

    Raises:
        ConfigError: with one fault for each thing that is wrong.
        DataError: the data set is missing, or leaves an edge without records.
    """
    faults: dict[str, Fault] = {}
    cautions: list[str] = []
    for fault in _faults(experiment, cautions, ask):
        faults.setdefault(fault.path, fault)  # what is wrong for every edge is said once
    if faults:
        raise ConfigError(faults.values())
    return tuple(dict.fromkeys(cautions))


def _faults(experiment: Experiment, cautions: list[str], ask: Ask) -> Iterator[Fault]:
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
    found = list(holders(experiment))
    tried = found if len(found) <= MOST_TRIED else [found[0], found[-1]]
    for holder in found:
        is_tried = holder in tried or holder.edge in experiment.privacy.per_edge
        try:
            plan, _ = plans_for(experiment, settings, holder, model.layout.size, ask if is_tried else _assume)
        except ConfigError as error:
            yield from error.faults
        else:
            cautions.extend(plan.cautions)


def _assume(_question: Mapping[str, object], _compute: Callable[[], object], /) -> float:
    """Some noise, in place of that which a target calls for: what else is wrong does not depend on it."""
    return 1.0


def _settings(experiment: Experiment) -> Settings:
    try:
        return Settings.model_validate(experiment.algorithm.edge)
    except ValidationError as error:
        raise ConfigError(faults_of(error, "algorithm.edge")) from error


def _model(experiment: Experiment) -> ModelSpec:
    spec = data.describe(experiment.data)
    return build_model(experiment.model, spec.shape, spec.classes)


def _budget(experiment: Experiment, edge: str) -> Budget:
    declared = experiment.privacy_of(edge)
    return Budget(declared.max_releases, declared.max_epsilon, experiment.privacy.dp_delta)


def _randomness(experiment: Experiment, edge: str, boot: str) -> Randomness:
    """The streams of this process, and of no other: not of this edge's next one, nor of a run with the same seed."""
    if experiment.privacy.randomness == "secure":
        return Randomness(sampling=secret_stream(), noise=secret_stream(), simulated=False)
    return Randomness(
        sampling=stream(experiment.seed, edge, "sampling", boot),
        noise=stream(experiment.seed, edge, "noise", boot),
    )
