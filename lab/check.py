"""Validates an experiment against both halves before anything starts: data, model, privacy, algorithm.

Each half says what is wrong with the file as it reads it; both are heard, and what both find is said once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cloud.build import check as check_cloud
from cloud.build import first_clip_norm
from common.data import DataSpec, deal, describe, load_train
from common.errors import ConfigError, DataError, Fault
from common.experiment import Experiment, edge_ids, load
from common.models import build_model
from common.privacy.declaration import find_clip_faults, find_probe_faults
from edge.algorithms import find
from edge.build import check as check_edge


@dataclass(frozen=True)
class Checked:
    """An experiment in order. `shards`: records of each edge; `cautions`: doubts that do not stop a run."""

    experiment: Experiment
    parameters: int
    shards: tuple[int, ...]
    spec: DataSpec
    cautions: tuple[str, ...]

    def text(self) -> str:
        """The experiment in a few lines."""
        experiment, shards = self.experiment, self.shards
        algorithm, privacy = experiment.algorithm, experiment.privacy
        smallest, largest = min(shards), max(shards)
        spread = f"{smallest:,}" if smallest == largest else f"{smallest:,} to {largest:,}"
        shape = "x".join(map(str, self.spec.shape))
        noise = {
            "gaussian": f"gaussian, noise multiplier {privacy.noise_multiplier}, delta {privacy.dp_delta:g}",
            "spherical-laplace": f"spherical-laplace, epsilon {privacy.epsilon} per release",
            "none": "none",
        }
        lines = (
            f"{experiment.name}: in order",
            f"  algorithm  {algorithm.name} ({algorithm.mode}, {algorithm.rigour}), batches of {algorithm.batch_size}",
            f"  model      {experiment.model.name}, {self.parameters:,} parameters",
            f"  data       {experiment.data.name}, {sum(shards):,} records of {shape}, {self.spec.classes} classes",
            f"  edges      {len(shards)}, each with {spread} records ({experiment.data.partition.kind})",
            f"  privacy    {noise.get(privacy.mechanism, privacy.mechanism)}",
            f"  digest     {experiment.digest()}",
        )
        return "\n".join(lines)


def check(path: Path, overrides: Sequence[str] = ()) -> Checked:
    """Reads and validates an experiment file.

    Raises:
        ConfigError: with one fault for each thing that is wrong.
        DataError: the data set is missing or damaged.
    """
    return check_experiment(load(path, overrides))


def check_experiment(experiment: Experiment) -> Checked:
    """Validates an experiment; raises as `check` does."""
    faults = [
        Fault(f"privacy.per_edge.{edge}", edge, f"an edge of the experiment, which has {experiment.data.edges}")
        for edge in experiment.privacy.per_edge
        if edge not in edge_ids(experiment.data.edges)
    ]
    cautions: tuple[str, ...] = ()
    missing: DataError | None = None
    for half in (_cloud_cautions, check_edge, _agreement):
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
    shards = deal(load_train(experiment.data), experiment.data, experiment.seed)
    parameters = build_model(experiment.model, spec.shape, spec.classes).layout.size
    return Checked(experiment, parameters, tuple(map(len, shards)), spec, cautions)


def _cloud_cautions(experiment: Experiment) -> tuple[str, ...]:
    check_cloud(experiment)
    return ()


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
