"""What an edge declares about its privacy: which adjacency it means, what is wrong with it, what is doubtful."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from common.errors import Fault
from common.events import Adjacency
from common.experiment import EdgePrivacy, Experiment, Privacy
from common.privacy.accountant import SMALLEST_DELTA

PARAMETERS: Mapping[str, str | None] = MappingProxyType(
    {"gaussian": "noise_multiplier", "spherical-laplace": "epsilon", "none": None}
)
"""What sets the noise of each mechanism that an experiment may name."""


def adjacency_of(privacy: Privacy) -> Adjacency:
    """The stated adjacency, or the one the mechanism is stated for.

    Spherical Laplace replaces a record inside a known batch, and so does every batch of fixed size, from which
    no record can be missing. All else adds or removes one, with the divisor and the rate held fixed.
    """
    if privacy.adjacency is not None:
        return privacy.adjacency
    if privacy.mechanism == "spherical-laplace" or privacy.sampling in ("fixed", "replacement"):
        return "replace_one"
    return "add_remove"


def find_faults(experiment: Experiment, edge: str, records: int) -> Iterator[Fault]:
    """Everything wrong with what `edge`, which holds `records` records, is asked to do."""
    privacy = experiment.privacy
    if privacy.mechanism not in PARAMETERS:
        expected = "gaussian, spherical-laplace or none (algorithm.rigour: paper makes the literal readings)"
        yield Fault("privacy.mechanism", privacy.mechanism, expected)
        return
    yield from _parameters(experiment, edge)
    yield from _limits(privacy, experiment.privacy_of(edge), edge)
    batch_size = experiment.algorithm.batch_size
    if privacy.sampling != "all" and batch_size > records:
        yield Fault("algorithm.batch_size", batch_size, f"at most {records}, the records of {edge}")
    if privacy.adjacency == "add_remove" and privacy.sampling in ("fixed", "replacement"):
        expected = f"replace_one with privacy.sampling {privacy.sampling}: no record can be missing from a full batch"
        yield Fault("privacy.adjacency", "add_remove", expected)
    if privacy.mechanism == "gaussian" and privacy.dp_delta < SMALLEST_DELTA:
        yield Fault("privacy.dp_delta", privacy.dp_delta, f"at least {SMALLEST_DELTA} with Gaussian noise")


def find_clip_faults(privacy: Privacy, clip_norm: float) -> Iterator[Fault]:
    """What is wrong with `clip_norm`, the bound that a run really begins with: edges would refuse to work with it."""
    ceiling = privacy.clip_norm_ceiling
    if privacy.mechanism != "none" and ceiling is not None and clip_norm > ceiling:
        yield Fault("privacy.clip_norm_ceiling", ceiling, f"at least the first clip norm of the run, {clip_norm:g}")


def find_probe_faults(privacy: Privacy) -> Iterator[Fault]:
    """What is wrong where edges answer probes: these carry Gaussian noise, whatever the mechanism of training."""
    if privacy.mechanism != "none" and privacy.dp_delta < SMALLEST_DELTA:
        expected = f"at least {SMALLEST_DELTA}, for probes carry Gaussian noise"
        yield Fault("privacy.dp_delta", privacy.dp_delta, expected)


def path_of(experiment: Experiment, edge: str, name: str) -> str:
    """Where the experiment file says this of the edge."""
    own = getattr(experiment.privacy.per_edge.get(edge, EdgePrivacy()), name)
    return f"privacy.{name}" if own is None else f"privacy.per_edge.{edge}.{name}"


def cautions_of(experiment: Experiment, edge: str, records: int, dimension: int) -> tuple[str, ...]:
    """Doubts about the declaration that do not stop a run; for the log."""
    privacy, cautions = experiment.privacy, []
    if privacy.mechanism != "none" and privacy.dp_delta >= 1 / records:
        text = f"expected below 1/{records}, for {edge} has {records} records and may publish one of them whole"
        cautions.append(f"privacy.dp_delta: {privacy.dp_delta}: {text}")
    if experiment.algorithm.rigour == "paper" and privacy.mechanism == "spherical-laplace":
        factor = dimension * (dimension + 1) / 2
        text = f"noise energy {factor:g} times below that of the stated density; dp: not established"
        cautions.append(f"algorithm.rigour: paper: {text}")
    return tuple(cautions)


def _parameters(experiment: Experiment, edge: str) -> Iterator[Fault]:
    """The mechanism's own parameter must be there, or a target it follows from, and no other's."""
    mechanism = experiment.privacy.mechanism
    needed, declared = PARAMETERS[mechanism], experiment.privacy_of(edge)
    for name in ("noise_multiplier", "epsilon"):
        value, path = getattr(declared, name), path_of(experiment, edge, name)
        if name == needed and value is None and declared.target_epsilon is None:
            yield Fault(path, None, f"a positive number, for mechanism {mechanism} (or privacy.target_epsilon)")
        if name != needed and value is not None:
            yield Fault(path, value, f"nothing, for mechanism {mechanism}")
    yield from _target(experiment, edge, declared)


def _target(experiment: Experiment, edge: str, declared: EdgePrivacy) -> Iterator[Fault]:
    """A target says what the noise would say otherwise, and needs a mechanism whose cost is known."""
    target, mechanism = declared.target_epsilon, experiment.privacy.mechanism
    if target is None:
        return
    path, needed = path_of(experiment, edge, "target_epsilon"), PARAMETERS[mechanism]
    if needed is None:
        yield Fault(path, target, f"nothing, for mechanism {mechanism}")
        return
    if experiment.algorithm.rigour == "paper":
        yield Fault(path, target, "nothing, for algorithm.rigour paper, of which no total is known")
    if getattr(declared, needed) is not None:
        yield Fault(path, target, f"nothing beside {needed} {getattr(declared, needed)}: the noise or its total")
    if declared.max_epsilon is not None and declared.max_epsilon < target:
        text = f"at least {target}, the target_epsilon, or {edge} stops before its max_releases"
        yield Fault(path_of(experiment, edge, "max_epsilon"), declared.max_epsilon, text)


def _limits(privacy: Privacy, own: EdgePrivacy, edge: str) -> Iterator[Fault]:
    floor, ceiling = privacy.noise_multiplier_floor, privacy.clip_norm_ceiling
    if floor is not None:
        if privacy.mechanism != "gaussian":
            yield Fault("privacy.noise_multiplier_floor", floor, f"nothing, for mechanism {privacy.mechanism}")
        elif own.noise_multiplier is not None and own.noise_multiplier < floor:
            yield Fault("privacy.noise_multiplier", own.noise_multiplier, f"at least the floor of {edge}, {floor}")
    if ceiling is not None and privacy.clip_norm is not None and privacy.clip_norm > ceiling:
        yield Fault("privacy.clip_norm", privacy.clip_norm, f"at most the ceiling of {edge}, {ceiling}")
