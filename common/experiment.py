"""The experiment file: what both halves must agree on, as pydantic models.

Each half's own settings (`algorithm.cloud`, `algorithm.edge`) stay plain mappings here; the class `Settings`
beside the code that reads them validates them. `load` reads a file, applies overrides and raises one
`ConfigError` that lists every fault.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, FiniteFloat, ValidationError

from common.errors import ConfigError, Fault
from common.events import Adjacency, Mechanism, Sampling, Strength
from common.fleet import Fleet
from common.section import Positive, Section, Slug

SMALLEST_CLIP, LARGEST_CLIP = 1e-20, 1e20
"""Bounds on a clip norm: beyond, float32 cannot carry the noise."""

ClipNorm = Annotated[FiniteFloat, Field(ge=SMALLEST_CLIP, le=LARGEST_CLIP)]


class Partition(Section):
    """How the training records are dealt out to the edges."""

    kind: Literal["iid", "dirichlet", "shards", "writer", "own"] = "iid"
    alpha: Positive = Field(default=0.5, description="dirichlet: concentration; small is more skewed")
    minimum: int = Field(default=1, ge=1, description="dirichlet: fewest records of an edge")
    shards_per_edge: int = Field(default=2, ge=1, description="shards: label-sorted pieces of each edge")


class Data(Section):
    """The data set, its root folder and its partition over the edges."""

    name: str
    root: str | None = Field(default=None, description="folder of the data set, or the .npz file")
    download: bool = False
    classes: Literal["all", "halves"] = Field(default="all", description="halves: lower against upper half")
    edges: int = Field(default=5, ge=1, le=100_000)
    partition: Partition = Partition()


class ModelChoice(Section):
    """The model, sized by the data set; `l2` is the weight of (l2/2)*|x|^2, outside the sensitivity."""

    name: str
    l2: FiniteFloat = Field(default=1e-4, ge=0)


class Algorithm(Section):
    """The algorithm and what both halves read of it."""

    name: str
    rigour: Literal["rigorous", "paper"] = "rigorous"
    mode: Literal["async", "sync"] = "async"
    batch_size: int = Field(default=12, ge=1, description="records of one edge step (expected, if Poisson)")
    cloud: dict[str, Any] = Field(default_factory=dict)
    edge: dict[str, Any] = Field(default_factory=dict)


class EdgePrivacy(Section):
    """What one edge declares for itself; an absent field falls back to the experiment's."""

    noise_multiplier: Strength | None = None
    epsilon: Strength | None = None
    target_epsilon: Strength | None = None
    max_epsilon: Strength | None = None
    max_releases: int | None = Field(default=None, ge=1)


class Privacy(Section):
    """The mechanism every edge applies before anything leaves it."""

    mechanism: Mechanism = "gaussian"
    noise_multiplier: Strength | None = Field(
        default=None, description="gaussian: noise std of the averaged gradient over clip_norm/batch_size"
    )
    epsilon: Strength | None = Field(default=None, description="spherical-laplace: epsilon of one release")
    clip_norm: ClipNorm | None = Field(
        default=None, description="first bound on a per-sample gradient; none: the model's own, or 10"
    )
    dp_delta: FiniteFloat = Field(default=1e-5, ge=0, lt=1)
    adjacency: Adjacency | None = Field(default=None, description="none: as the mechanism is stated")
    sampling: Sampling = "poisson"
    randomness: Literal["secure", "reproducible"] = Field(
        default="secure", description="reproducible: noise from the seed, which anyone who has it can subtract"
    )
    target_epsilon: Strength | None = Field(
        default=None, description="total of max_releases, from which the noise follows; nobody gives the noise then"
    )
    max_epsilon: Strength | None = Field(default=None, description="budget of the edge's ledger; none: no limit")
    max_releases: int | None = Field(default=None, ge=1, description="budget of the edge's ledger, in releases")
    noise_multiplier_floor: Strength | None = None
    clip_norm_ceiling: ClipNorm | None = None
    per_edge: dict[Slug, EdgePrivacy] = Field(default_factory=dict)


class Stop(Section):
    """The run ends at the first of these."""

    updates: int | None = Field(default=None, ge=1)
    seconds: Positive | None = None


class Evaluation(Section):
    """How often the cloud looks at the public test set (0: only at the end)."""

    every: int = Field(default=500, ge=0, description="updates")
    gradient: bool = Field(default=False, description="the norm of the gradient on the test set as well")


class Broker(Section):
    """Where the broker is; the command line and the environment may say otherwise."""

    host: str | None = None
    port: int | None = Field(default=None, ge=1, le=65535)


class Experiment(Section):
    """One whole experiment."""

    name: Slug
    seed: int = Field(default=1, ge=0, lt=2**63)
    data: Data
    model: ModelChoice
    algorithm: Algorithm
    privacy: Privacy = Privacy()
    stop: Stop
    evaluation: Evaluation = Evaluation()
    broker: Broker = Broker()
    fleet: Fleet = Fleet()
    transcript: bool = Field(default=False, description="the cloud keeps all that it hears, for mapa replay")

    def digest(self) -> str:
        """SHA-256 over what both halves must agree on.

        Left out: where broker and data are on a host, its machines, and what each edge may choose for itself.
        """
        shared = self.model_dump(mode="json", exclude={"broker", "fleet", "transcript"})
        for key in ("root", "download"):
            del shared["data"][key]
        for key in ("noise_multiplier_floor", "clip_norm_ceiling", "randomness", "per_edge", *EdgePrivacy.model_fields):
            del shared["privacy"][key]
        return hashlib.sha256(json.dumps(shared, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    def privacy_of(self, edge: str) -> EdgePrivacy:
        """What `edge` declares: its own entry, completed by the experiment's.

        An edge that names its noise means this and not a target of the experiment's, and the other way round. A target
        is also the budget, unless one is given.
        """
        own = self.privacy.per_edge.get(edge, EdgePrivacy())
        declared = {name: getattr(own, name) or getattr(self.privacy, name) for name in EdgePrivacy.model_fields}
        if own.noise_multiplier is not None or own.epsilon is not None:
            declared["target_epsilon"] = own.target_epsilon
        elif own.target_epsilon is not None:
            declared["noise_multiplier"] = declared["epsilon"] = None
        declared["max_epsilon"] = declared["max_epsilon"] or declared["target_epsilon"]
        return EdgePrivacy(**declared)


def edge_ids(count: int) -> tuple[str, ...]:
    """The ids of `count` edges: edge-0001, edge-0002, ... (their order is the order of the shards)."""
    return tuple(f"edge-{index:04d}" for index in range(1, count + 1))


def faults_of(error: ValidationError, prefix: str = "") -> list[Fault]:
    """One `Fault` for each thing pydantic found wrong."""
    faults = []
    for item in error.errors():
        path = ".".join([part for part in (prefix, *map(str, item["loc"])) if part]) or "experiment"
        if item["type"] == "extra_forbidden":
            faults.append(Fault(path, item["input"], "no such key"))
        elif item["type"] == "missing":
            faults.append(Fault(path, None, "a value (required key is missing)"))
        else:
            text = item["msg"][:1].lower() + item["msg"][1:]
            faults.append(Fault(path, item["input"], text.removeprefix("input should be ")))
    return faults


def load(path: Path, overrides: Iterable[str] = ()) -> Experiment:
    """Reads an experiment file and applies `key.path=value` overrides (values are YAML)."""
    return overridden(read_yaml(path), overrides)


def read_yaml(path: Path) -> dict[str, Any]:
    """The content of a YAML file with a mapping at its top."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(Fault(str(path), str(error), "a readable YAML file")) from error
    if not isinstance(content, dict):
        raise ConfigError(Fault(str(path), type(content).__name__, "a mapping at the top level"))
    return content


def overridden(content: Mapping[str, Any], overrides: Iterable[str] = ()) -> Experiment:
    """The experiment of this content after the overrides; `content` stays as it is."""
    changed = copy.deepcopy(dict(content))
    for override in overrides:
        _apply(changed, override)
    return parse(changed)


def parse(content: Mapping[str, Any]) -> Experiment:
    """Validates the content of an experiment file."""
    try:
        return Experiment.model_validate(dict(content))
    except ValidationError as error:
        raise ConfigError(faults_of(error)) from error


def _apply(content: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    parts = key.split(".")
    if not equals or not all(parts):
        raise ConfigError(Fault("--set", override, "key.path=value"))
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(Fault(f"--set {key}", text, "a YAML value")) from error
    node = content
    for part in parts[:-1]:
        child = node.get(part)
        if child is None:
            child = node[part] = {}
        if not isinstance(child, dict):
            raise ConfigError(Fault(f"--set {key}", part, "a section, not a value"))
        node = child
    node[parts[-1]] = value
