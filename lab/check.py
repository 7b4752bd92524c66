"""Validates an experiment against both halves before anything starts: data, model, privacy, algorithm.

Each half says what is wrong with the file as it reads it; both are heard, and what both find is said once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cloud.build import check as check_cloud
from cloud.build import first_clip_norm
from common.data import DataSpec, absent, cautions_of, describe, sizes
from common.errors import ConfigError, DataError, Fault
from common.experiment import Experiment, Privacy, edge_ids, load
from common.models import build_model
from common.privacy.calibration import Ask, fresh
from common.privacy.declaration import find_clip_faults, find_probe_faults
from edge.algorithms import find
from edge.build import check as check_edge
from lab.forecast import Forecast

NOISE = {
    "secure": "secret: by keys of the operating system that nobody keeps",
    "reproducible": "simulated DP: from the seed, and whoever has that can subtract it (privacy.randomness)",
}


@dataclass(frozen=True)
class Checked:
    """An experiment in order. `shards`: records of each edge (here); `cautions`: doubts that do not stop a run."""

    experiment: Experiment
    parameters: int
    shards: tuple[int, ...]
    spec: DataSpec
    cautions: tuple[str, ...]

    def text(self, forecasts: Sequence[Forecast] = ()) -> str:
        """The experiment in a few lines, with what edges will have spent."""
        experiment, shards = self.experiment, self.shards
        algorithm, privacy = experiment.algorithm, experiment.privacy
        smallest, largest = min(shards, default=0), max(shards, default=0)
        spread = f"{smallest:,}" if smallest == largest else f"{smallest:,} to {largest:,}"
        here = f"{len(shards)} here" if len(shards) < experiment.data.edges else "each"
        shape = "x".join(map(str, self.spec.shape))
        noise = {
            "gaussian": f"gaussian, {_declared(privacy, 'noise multiplier', privacy.noise_multiplier)}",
            "spherical-laplace": f"spherical-laplace, {_declared(privacy, 'epsilon per release', privacy.epsilon)}",
            "none": "none",
        }
        lines = (
            f"{experiment.name}: in order",
            f"  algorithm  {algorithm.name} ({algorithm.mode}, {algorithm.rigour}), batches of {algorithm.batch_size}",
            f"  model      {experiment.model.name}, {self.parameters:,} parameters",
            f"  data       {experiment.data.name}, {sum(shards):,} records of {shape}, {self.spec.classes} classes",
            f"  edges      {experiment.data.edges}, {here} with {spread} records ({experiment.data.partition.kind})",
            f"  privacy    {noise.get(privacy.mechanism, privacy.mechanism)}",
            *((f"  noise      {NOISE[privacy.randomness]}",) if privacy.mechanism != "none" else ()),
            *(f"  expected   {each.text()}" for each in forecasts),
            *((f"  fleet      {fleet}",) if (fleet := experiment.fleet.describe(experiment.data.edges)) else ()),
            f"  digest     {experiment.digest()}",
        )
        return "\n".join(lines)


def check(path: Path, overrides: Sequence[str] = (), ask: Ask = fresh) -> Checked:
    """Reads and validates an experiment file. `ask` remembers noise that was calibrated to a target.

    Raises:
        ConfigError: with one fault for each thing that is wrong.
        DataError: the data set is missing or damaged.
    """
    return check_experiment(load(path, overrides), ask)


def check_experiment(experiment: Experiment, ask: Ask = fresh) -> Checked:
    """Validates an experiment; raises as `check` does."""
    faults = [
        Fault(f"privacy.per_edge.{edge}", edge, f"an edge of the experiment, which has {experiment.data.edges}")
        for edge in experiment.privacy.per_edge
        if edge not in edge_ids(experiment.data.edges)
    ]
    cautions: tuple[str, ...] = ()
    missing: DataError | None = None
    for half in (_cloud_cautions, partial(check_edge, ask=ask), _agreement, _unused_places, _data_cautions):
        try:
            cautions += half(experiment)
        except ConfigError as error:
            faults += error.faults
        except DataError as error:
            missing = missing or error
    if faults:
        raise ConfigError({fault.path: fault for fault in reversed(faults)}.values())  # both halves may find the same
    if missing is not None:  # told only if nothing is wrong with the file itself
        raise missing
    spec = describe(experiment.data)
    shards = tuple(sizes(experiment.data, experiment.seed).values())
    parameters = build_model(experiment.model, spec.shape, spec.classes).layout.size
    return Checked(experiment, parameters, shards, spec, cautions)


def _declared(privacy: Privacy, name: str, value: float | None) -> str:
    """The noise, or the total it is made for, or neither if each edge says its own."""
    if value is None and privacy.target_epsilon is not None:
        name, value = "target epsilon", privacy.target_epsilon
    return f"{name} {value if value is not None else 'of each edge'}, delta {privacy.dp_delta:g}"


def _cloud_cautions(experiment: Experiment) -> tuple[str, ...]:
    check_cloud(experiment)
    return ()


def _data_cautions(experiment: Experiment) -> tuple[str, ...]:
    """Settings that nobody reads, and files of other hosts, which only those can check."""
    missing = absent(experiment.data)
    elsewhere = f"data.root: not on this host: {missing}: who needs them will look when it starts"
    return (*cautions_of(experiment.data), *((elsewhere,) if missing else ()))


def _unused_places(experiment: Experiment) -> tuple[str, ...]:
    places, edges = experiment.fleet.places, experiment.data.edges
    return (f"fleet.edges: places for {places} edges, of which {edges} take part",) if places > edges else ()


def _agreement(experiment: Experiment) -> tuple[str, ...]:
    """What edges would refuse of the cloud's requests, once both halves are in order by themselves."""
    faults: list[Fault] = []
    try:
        if (clip_norm := first_clip_norm(experiment)) is not None:
            faults += find_clip_faults(experiment.privacy, clip_norm)
        if find(experiment).asks_probes(experiment) and experiment.algorithm.edge.get("probes") != 0:
            faults += find_probe_faults(experiment.privacy)
    except ConfigError:  # told already
        return ()
    if faults:
        raise ConfigError(faults)
    return ()
