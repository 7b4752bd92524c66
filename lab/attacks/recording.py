"""Recorded releases on disk: what a cloud has of its edges, and apart from it what an attack is scored by.

    recording.json                 which model, epsilon and record belongs to which file, and the public settings
    <model>-model.safetensors      the Model message that the cloud sent, as on the wire
    <model>-<epsilon>-<record>.safetensors     the Update message that the edge sent, as on the wire
    truth.npz                      the records; an attack works without it, but then nobody knows how well

Messages are safetensors files (`common.wire`), so any such library reads them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, FiniteFloat, StringConstraints, ValidationError

from common.data import Records, load_train
from common.data.archive import read_array
from common.errors import ConfigError, DataError, Fault, RecordError, WireError
from common.experiment import Experiment, faults_of
from common.section import Section
from common.seeds import stream
from lab.attacks.victim import Noise, Victim

OTHERS = 200
"""Records that have nothing to do with the attack: how alike two pictures of this data set are anyway."""
INDEX, TRUTH = "recording.json", "truth.npz"
FileName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.+-]{0,99}\.safetensors$")]


class Release(Section):
    """One recorded message. `record`: 0, 1, ...; `epsilon`: None for a plain gradient."""

    model: Literal["logistic", "softmax", "svm", "cnn"]
    epsilon: Annotated[FiniteFloat, Field(gt=0)] | None
    record: Annotated[int, Field(ge=0, le=10_000)]
    file: FileName


class Index(Section):
    """What is public about a recording."""

    data: str
    shape: tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]]
    mechanism: Noise
    l2: Annotated[FiniteFloat, Field(ge=0)]
    questions: dict[str, FileName]
    releases: Annotated[tuple[Release, ...], Field(min_length=1)]


@dataclass(frozen=True, eq=False)
class Truth:
    """What the attacker does not have.

    Attributes:
        pictures: [records, *shape] in 0..1.
        labels: [records], of all classes.
        upper: [records], label 1 of the two-way models: the upper half of the classes.
        others: [OTHERS or fewer, *shape], records that were not released.
    """

    pictures: NDArray[np.float64] = field(repr=False)
    labels: NDArray[np.int64]
    upper: NDArray[np.int64]
    others: NDArray[np.float64] = field(repr=False)


@dataclass(frozen=True)
class Plan:
    """What is to be recorded: of each model, at each epsilon (None: plain), this many records."""

    models: tuple[str, ...]
    epsilons: tuple[float | None, ...]
    noise: Noise
    records: int
    seed: int


def record(base: Experiment, plan: Plan, folder: Path) -> None:
    """Makes edges with one record each, lets them release, and writes down what came over the wire.

    Raises:
        ConfigError: a model does not fit the data, or they are no pictures.
        DataError: the data set is missing, or smaller than asked for.
        RecordError: the folder cannot be written.
    """
    base = base.model_copy(update={"seed": plan.seed})
    truth, raw, scale = _truth(base, plan)
    questions: dict[str, str] = {}
    releases: list[dict[str, Any]] = []
    for model in plan.models:
        for epsilon in plan.epsilons:
            victim = Victim(base, model, plan.noise, epsilon)
            if model not in questions:
                questions[model] = f"{model}-model.safetensors"
                _write(folder / questions[model], victim.question)
            labels = truth.upper if model == "logistic" else truth.labels
            for number in range(plan.records):
                name = f"{model}-{'none' if epsilon is None else f'{epsilon:g}'}-{number}.safetensors"
                _write(folder / name, victim.answer(raw[number], scale, int(labels[number]), number))
                releases.append({"model": model, "epsilon": epsilon, "record": number, "file": name})
    index = Index.model_validate(
        {
            "data": base.data.name,
            "shape": truth.pictures.shape[1:],
            "mechanism": plan.noise,
            "l2": base.model.l2,
            "questions": questions,
            "releases": tuple(releases),
        }
    )
    _write(folder / INDEX, (index.model_dump_json(indent=2) + "\n").encode())
    _save(folder / TRUTH, truth)


def read(folder: Path) -> tuple[Index, Truth | None]:
    """The index of a recording, and the truth where somebody kept it.

    Raises:
        ConfigError: no recording, or a damaged index.
        DataError: the truth is damaged.
    """
    path = folder / INDEX
    try:
        index = Index.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ConfigError(Fault("--recorded", str(folder), f"a folder with {INDEX}: {error}")) from error
    except ValidationError as error:
        raise ConfigError(faults_of(error, str(path))) from error
    missing = [release.model for release in index.releases if release.model not in index.questions]
    if missing:
        raise ConfigError(Fault(f"{path}: questions", sorted(index.questions), f"one for {', '.join(missing)}"))
    return index, _read_truth(folder / TRUTH, index)


def load(folder: Path, name: str) -> bytes:
    """One recorded message.

    Raises:
        WireError: there is no such file.
    """
    try:
        return (folder / name).read_bytes()
    except OSError as error:
        raise WireError(f"{folder / name}: {error}: expected a recorded message") from error


def _truth(base: Experiment, plan: Plan) -> tuple[Truth, NDArray[Any], float]:
    """The records to release, with their raw values and scale."""
    data: Records = load_train(base.data)
    if data.inputs.ndim != 4:
        shape = "x".join(map(str, data.inputs.shape[1:]))
        raise ConfigError(Fault("data.name", base.data.name, f"pictures (channels, height, width), not {shape}"))
    if plan.records + 1 > len(data):
        raise ConfigError(Fault("--records", plan.records, f"at most {len(data) - 1}, for one other is compared with"))
    chosen = stream(plan.seed, "inversion", "records").permutation(len(data))[: plan.records + OTHERS]
    raw, labels = data.inputs[chosen], data.labels[chosen]
    pictures = raw.astype(np.float64) / data.scale
    if not (pictures.min() >= 0 and pictures.max() <= 1):
        raise DataError(f"{base.data.name}: values beyond 0..{data.scale:g}: expected pictures")
    upper = (labels >= (data.classes + 1) // 2).astype(np.int64)
    own = slice(None, plan.records)
    return Truth(pictures[own], labels[own], upper[own], pictures[plan.records :]), raw[own], data.scale


def _save(path: Path, truth: Truth) -> None:
    _writing(
        path,
        lambda: np.savez_compressed(
            path, pictures=truth.pictures, labels=truth.labels, upper=truth.upper, others=truth.others
        ),
    )


def _read_truth(path: Path, index: Index) -> Truth | None:
    if not path.is_file():
        return None
    truth = Truth(*(read_array(path, name) for name in ("pictures", "labels", "upper", "others")))
    records = 1 + max(release.record for release in index.releases)
    shapes = [truth.pictures.shape, truth.others.shape[1:], truth.labels.shape, truth.upper.shape]
    if truth.pictures.shape[1:] != index.shape or len(truth.pictures) < records or not len(truth.others):
        raise DataError(f"{path}: shapes {shapes}: expected {records} pictures of {list(index.shape)} and others")
    if not (len(truth.pictures) == len(truth.labels) == len(truth.upper) and truth.others.shape[1:] == index.shape):
        raise DataError(f"{path}: shapes {shapes}: expected a label for each picture, and others of the same shape")
    return truth


def _write(path: Path, content: bytes) -> None:
    _writing(path, lambda: path.write_bytes(content))


def _writing(path: Path, write: Callable[[], object]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write()
    except OSError as error:
        raise RecordError(f"{path}: {error}: expected a folder that can be written") from error
