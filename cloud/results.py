"""What a run leaves behind: experiment.yaml (resolved), run.json, cloud/model.safetensors, summary.json."""

from __future__ import annotations

import json
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import yaml

from cloud.summary import summarise
from common.errors import RecordError
from common.experiment import Experiment
from common.records import read
from common.tensors import Tensors
from common.wire import save

PACKAGES = ("mapa-testbed", "numpy", "torch", "torchvision", "pydantic", "paho-mqtt", "dp-accounting", "randomgen")


def write_beginning(out: Path, experiment: Experiment, run: str, boot: str, broker: str) -> None:
    """What it takes to make the run again; `broker`: where, or by what, messages are carried.

    Raises:
        RecordError: a file cannot be written.
    """
    about = {
        "run": run,
        "experiment": experiment.name,
        "digest": experiment.digest(),
        "seed": experiment.seed,
        "start": datetime.now(UTC).isoformat(timespec="seconds"),
        "boot": boot,
        "broker": broker,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "versions": {name: _version(name) for name in PACKAGES},
    }
    write(out / "experiment.yaml", yaml.safe_dump(experiment.model_dump(mode="json"), sort_keys=False))
    write(out / "run.json", json.dumps(about, indent=2) + "\n")


def write_end(out: Path, experiment: Experiment, tensors: Tensors) -> dict[str, Any]:
    """What came out, also of a run that was broken off; gives the summary of the cloud's records.

    Raises:
        RecordError: a file cannot be read or written.
    """
    write(out / "cloud" / "model.safetensors", save(tensors))
    summary = summarise(experiment, read(out / "cloud" / "records.jsonl"))
    write(out / "summary.json", json.dumps(summary, indent=2) + "\n")
    return summary


def write(path: Path, content: str | bytes) -> None:
    """Writes a file as a whole: whoever reads it sees the old content or the new.

    Raises:
        RecordError: no room, or no right to write it.
    """
    part = path.with_name(path.name + ".part")
    try:
        part.write_bytes(content if isinstance(content, bytes) else content.encode())
        part.replace(path)
    except OSError as error:
        raise RecordError(f"file: {path}: {error.strerror}: expected room and the right to write it") from error


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
