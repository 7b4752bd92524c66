"""Puts the cloud together from an experiment: the only place of this half that assembles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import ValidationError

from cloud.admission import PARAMETERS, Admission, Form
from cloud.algorithms import find
from cloud.algorithms.asynchronous import AsynchronousCloud
from cloud.barrier import Barrier, Line
from cloud.charter import Charter, Settings
from cloud.controller import Controller, Setting
from cloud.parameters import Parameters
from cloud.progress import Progress
from cloud.reach import Reach
from cloud.roster import Roster
from cloud.training import Training
from common import data
from common.doorman import Guests
from common.errors import ConfigError, Fault
from common.evaluation import evaluate, gradient_norm
from common.experiment import Experiment, edge_ids, faults_of
from common.models import build_model
from common.models.spec import ModelSpec
from common.node import Effect
from common.privacy.declaration import adjacency_of
from common.privacy.noise import kappa
from common.section import Section
from common.seeds import stream
from common.tensors import Layout, Tensors

PROBES = 24
"""Probes an edge has set noise aside for if `algorithm.edge.probes` says nothing else."""

AMPLE = 10.0
"""Noise so many times as strong as what is declared is still taken: an edge may choose its own, and probes add some."""


@dataclass(frozen=True)
class Cloud:
    """A node and what its shell has to know: the layout of tensors, how to score parameters, whom it expects."""

    node: AsynchronousCloud
    layout: Layout
    evaluate: Callable[[Tensors], Mapping[str, float]]
    guests: Guests


@dataclass(frozen=True)
class _Control:
    """The controller of an experiment."""

    experiment: Experiment
    model: ModelSpec
    own: Section

    def numbers(self, roster: Roster) -> Mapping[str, object]:
        """What is known of the edges that are there, and of the model."""
        seats = roster.online()
        noise = max(kappa(seat.event, self.model.layout.size) for seat in seats)
        smallest = min(seat.samples for seat in seats)
        return asdict(_setting(self.experiment, self.model, noise, smallest, len(seats)))

    def make(self, numbers: Mapping[str, Any]) -> Controller:
        """The controller of the algorithm that the experiment names."""
        return find(self.experiment).build(Setting(**numbers), self.own)


def build(experiment: Experiment, boot: str, lineage: str | None = None) -> Cloud:
    """The cloud of this experiment, run by process `boot`; `lineage`: that which began the run, if it was another.

    Raises:
        ConfigError: the experiment is wrong.
        DataError: the data set is missing.
    """
    settings, own = _settings(experiment)
    model = _model(experiment)
    outbox: list[Effect] = []
    cap = settings.staleness_cap if settings.staleness_cap is not None else 4 * experiment.data.edges
    is_synchronous = experiment.algorithm.mode == "sync"
    training = Training(
        Parameters(model.init(stream(experiment.seed, "model"))),
        Progress(experiment.stop, experiment.evaluation),
        Barrier() if is_synchronous else Line(),
        outbox,
        staleness_cap=0 if is_synchronous else cap,
        patience=settings.patience,
    )

    admission = _admission(experiment, settings, model.layout.size)
    charter = Charter(admission, boot, settings.quorum or experiment.data.edges, lineage or boot)
    node = AsynchronousCloud(charter, settings, training, _Control(experiment, model, own), outbox)
    return Cloud(node, model.layout, _scorer(experiment, model), Guests(admission.edges, settings.manners))


def first_clip_norm(experiment: Experiment) -> float | None:
    """The bound on a per-sample gradient that edges are asked for first; None if nothing is clipped.

    Raises:
        ConfigError, DataError: as `check`.
    """
    _, own = _settings(experiment)
    setting = _setting(experiment, _model(experiment), 1.0, experiment.algorithm.batch_size, experiment.data.edges)
    return find(experiment).build(setting, own).clip_norm


def check(experiment: Experiment) -> None:
    """Validates the experiment as this half reads it.

    Raises:
        ConfigError: with one fault for each thing that is wrong.
        DataError: the data set is missing.
    """
    faults = list(_faults(experiment))
    if faults:
        raise ConfigError(faults)


def _faults(experiment: Experiment) -> Iterator[Fault]:
    edges, stop = experiment.data.edges, experiment.stop
    if stop.updates is None and stop.seconds is None:
        yield Fault("stop", None, "updates or seconds: a run has to end")
    try:
        algorithm = find(experiment)
        settings, own = _settings(experiment)
    except ConfigError as error:
        yield from error.faults
        return
    if algorithm.most_edges is not None and edges > algorithm.most_edges:
        expected = f"{algorithm.most_edges}: {experiment.algorithm.name} has all the data in one place"
        yield Fault("data.edges", edges, expected)
    if settings.quorum is not None and settings.quorum > edges:
        yield Fault("algorithm.cloud.quorum", settings.quorum, f"at most {edges}, the experiment's edges")
    try:
        model = _model(experiment)
        algorithm.build(_setting(experiment, model, 1.0, experiment.algorithm.batch_size, edges), own)
    except ConfigError as error:
        yield from error.faults


def _settings(experiment: Experiment) -> tuple[Settings, Section]:
    """What the node and what the controller read of `algorithm.cloud`; a key that neither knows is refused."""
    kind = find(experiment).settings
    content = experiment.algorithm.cloud
    shared = {key: value for key, value in content.items() if key in Settings.model_fields}
    own = {key: value for key, value in content.items() if key not in shared}
    faults: list[Fault] = []
    sections: list[Section] = []
    for section, part in ((Settings, shared), (kind, own)):
        try:
            sections.append(section.model_validate(part))
        except ValidationError as error:
            faults.extend(faults_of(error, "algorithm.cloud"))
    if faults:
        raise ConfigError(faults)
    first, second = sections
    assert isinstance(first, Settings)
    return first, second


def _model(experiment: Experiment) -> ModelSpec:
    spec = data.describe(experiment.data)
    return build_model(experiment.model, spec.shape, spec.classes)


def _admission(experiment: Experiment, settings: Settings, dimension: int) -> Admission:
    """What this experiment prescribes to every edge."""
    privacy, is_paper = experiment.privacy, experiment.algorithm.rigour == "paper"
    is_private, adjacency = privacy.mechanism != "none", adjacency_of(privacy)
    training = Form(
        mechanism="paper" if is_paper and is_private else privacy.mechanism,
        parameter=PARAMETERS.get(privacy.mechanism),
        samplings=(privacy.sampling,),
        adjacency=adjacency,
        dimension=dimension,
    )
    probing = Form(
        mechanism="gaussian" if is_private else "none",
        parameter="noise_multiplier" if is_private else None,
        samplings=("all", "poisson"),
        adjacency=adjacency,
        dimension=2,
    )
    batch_size = None if privacy.sampling == "all" else experiment.algorithm.batch_size
    reach = Reach(batch_size, experiment.model.l2, settings.longest_update)
    edges, noisiest = frozenset(edge_ids(experiment.data.edges)), _noisiest(experiment, settings)
    return Admission(experiment.digest(), edges, training, probing, reach, noisiest)


def _noisiest(experiment: Experiment, settings: Settings) -> Mapping[str, float]:
    """The strongest noise that is taken: as set, else ten times the strongest that the experiment declares, if any."""
    name = PARAMETERS.get(experiment.privacy.mechanism)
    if name is None:
        return {}
    if settings.noisiest is not None:
        return {name: settings.noisiest}
    declared = [getattr(each, name) for each in (experiment.privacy, *experiment.privacy.per_edge.values())]
    known = [value for value in declared if value is not None]
    if not known:
        return {}
    return {name: AMPLE * max(known) if name == "noise_multiplier" else min(known) / AMPLE}


def _setting(experiment: Experiment, model: ModelSpec, noise: float, smallest: int, online: int) -> Setting:
    """The public numbers a controller works from.

    `noise` is kappa of the edge with the strongest noise (the paper has MAPA use the smallest epsilon of all edges:
    that is the largest kappa), `smallest` the records of the smallest shard, `online` the edges that are there.
    """
    algorithm, edges, l2 = experiment.algorithm, experiment.data.edges, experiment.model.l2
    is_synchronous = algorithm.mode == "sync"
    staleness = edges if algorithm.rigour == "paper" else edges - 1
    is_clipped = experiment.privacy.mechanism != "none"
    probes = algorithm.edge.get("probes")  # the edges' setting, and theirs to find fault with
    return Setting(
        updates=experiment.stop.updates,
        edges=edges,
        batch_size=smallest if experiment.privacy.sampling == "all" else algorithm.batch_size,
        dimension=model.layout.size,
        kappa=noise,
        staleness=0 if is_synchronous else staleness,
        smoothness=None if model.smoothness is None else model.smoothness + l2,
        gap=model.gap,
        clip_norm=(experiment.privacy.clip_norm or model.lipschitz) if is_clipped else None,
        lipschitz=model.lipschitz,
        rigour=algorithm.rigour,
        averaged=online if is_synchronous else 1,
        probes=probes if isinstance(probes, int) else PROBES,
    )


def _scorer(experiment: Experiment, model: ModelSpec) -> Callable[[Tensors], Mapping[str, float]]:
    test = data.load_test(experiment.data)
    inputs = model.prepare(test.inputs, test.scale)

    def score(tensors: Tensors) -> Mapping[str, float]:
        result = evaluate(model, tensors.flat, inputs, test.labels)
        scores = {"accuracy": result.accuracy, "loss": result.loss}
        if experiment.evaluation.gradient:
            scores["gradient_norm"] = gradient_norm(model, tensors.flat, inputs, test.labels)
        return scores

    return score
