"""The cloud as a program: builds it, runs it on the broker, and writes down the result.

Files in the run folder: experiment.yaml (resolved), run.json, summary.json, cloud/records.jsonl,
cloud/model.safetensors.
"""

from __future__ import annotations

import json
import logging
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import yaml

from cloud.build import build, check
from cloud.summary import summarise
from common.errors import RecordError
from common.identity import Identity
from common.mqtt import Shell
from common.node import CLOUD
from common.program import Attended, Call, make_folder, parse, serve, touch
from common.records import Recorder, read
from common.wire import save

LOG = logging.getLogger(__name__)
PACKAGES = ("mapa-testbed", "numpy", "torch", "torchvision", "pydantic", "paho-mqtt", "dp-accounting")


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Runs the cloud until its run is over; the exit code of the process.

    Raises:
        ConfigError, DataError: nothing was started.
        RecordError: results cannot be written.
    """
    call = parse(CLOUD, arguments, environment)
    touch(call.alive)
    check(call.experiment)
    identity = Identity.fresh(call.run, CLOUD)
    cloud = build(call.experiment, identity.boot)
    folder = make_folder(call.out / "cloud")
    _set_aside(folder / "records.jsonl")
    _write(call.out / "experiment.yaml", yaml.safe_dump(call.experiment.model_dump(mode="json"), sort_keys=False))
    _write(call.out / "run.json", json.dumps(_about(call, identity), indent=2) + "\n")
    recorder = Recorder(folder / "records.jsonl", call.run, CLOUD)
    shell = Shell(Attended(cloud.node, call.alive), identity, call.broker, recorder, cloud.evaluate, cloud.layout)
    try:
        code = serve(shell)
    finally:
        recorder.close()
        _finish(call, folder, save(cloud.node.tensors))
    return code


def _finish(call: Call, folder: Path, model: bytes) -> None:
    """Writes what came out, also of a run that was broken off."""
    _write(folder / "model.safetensors", model)
    summary = summarise(call.experiment, read(folder / "records.jsonl"))
    _write(call.out / "summary.json", json.dumps(summary, indent=2) + "\n")
    LOG.info(
        "summary state=%s updates=%s seconds=%s test_accuracy=%s",
        *(summary[key] for key in ("state", "updates", "seconds", "test_accuracy")),
    )


def _about(call: Call, identity: Identity) -> dict[str, Any]:
    """What it takes to make the run again."""
    return {
        "run": call.run,
        "experiment": call.experiment.name,
        "digest": call.experiment.digest(),
        "seed": call.experiment.seed,
        "start": datetime.now(UTC).isoformat(timespec="seconds"),
        "boot": identity.boot,
        "broker": str(call.broker),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "versions": {name: _version(name) for name in PACKAGES},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _set_aside(records: Path) -> None:
    """Records that are here already are another run's of the same id: they stay, under another name."""
    number = 1
    while (kept := records.with_suffix(f".{number}.jsonl")).exists():
        number += 1
    try:
        if records.exists():
            records.rename(kept)
            LOG.warning("records of an earlier run of this id: moved to %s", kept)
    except OSError as error:
        raise RecordError(f"records: {records}: {error.strerror}: expected to rename it") from error


def _write(path: Path, content: str | bytes) -> None:
    """Writes a file as a whole: whoever reads it sees the old content or the new."""
    part = path.with_name(path.name + ".part")
    try:
        part.write_bytes(content if isinstance(content, bytes) else content.encode())
        part.replace(path)
    except OSError as error:
        raise RecordError(f"file: {path}: {error.strerror}: expected room and the right to write it") from error
