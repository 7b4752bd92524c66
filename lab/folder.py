"""The run folder: where a run's files lie, and how to read one that is finished, running or broken off."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from common.errors import ConfigError, Fault, RecordError
from common.records import read
from lab.history import History


@dataclass(frozen=True)
class RunFolder:
    """Names of the files in the folder of one run.

    experiment.yaml (resolved), run.json (run id, digest, versions, seeds), summary.json,
    cloud/{records.jsonl, output.log, model.safetensors}, edges/<id>/{records.jsonl, output.log}.
    """

    path: Path

    @property
    def experiment(self) -> Path:
        """The resolved experiment file."""
        return self.path / "experiment.yaml"

    @property
    def about(self) -> Path:
        """Run id, digest, versions, seeds, start."""
        return self.path / "run.json"

    @property
    def summary(self) -> Path:
        """The result in one page of JSON."""
        return self.path / "summary.json"

    @property
    def records(self) -> Path:
        """The cloud's records."""
        return self.path / "cloud" / "records.jsonl"

    def node(self, name: str) -> Path:
        """The folder of one node: "cloud" or an edge id."""
        return self.path / "cloud" if name == "cloud" else self.path / "edges" / name

    def log(self, name: str) -> Path:
        """What that node's process printed."""
        return self.node(name) / "output.log"

    def create(self) -> None:
        """Makes the folder, which must be new or empty.

        Raises:
            ConfigError: it holds another run already.
            RecordError: it cannot be written.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if any(self.path.iterdir()):
                raise ConfigError(Fault("--out", str(self.path), "a new or empty folder"))
        except OSError as error:
            raise RecordError(f"run folder: {self.path}: {error}: expected a folder that can be written") from error


class Tail:
    """Reads a file as it grows, line by line; a half-written last line waits for its end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def lines(self) -> list[bytes]:
        """The lines completed since the last call; none while the file does not exist."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                block = file.read()
        except FileNotFoundError:
            return []
        whole = block[: block.rfind(b"\n") + 1]
        self._offset += len(whole)
        return whole.splitlines()

    def rows(self) -> Iterator[dict[str, Any]]:
        """The same as records."""
        for line in self.lines():
            try:
                yield json.loads(line)
            except ValueError:  # torn by a crash of the writer, which then began a new line
                continue


@dataclass(frozen=True)
class Run:
    """One run as read from its folder. `summary` and `about` are empty where the files are missing."""

    path: Path
    settings: Mapping[str, Any]
    about: Mapping[str, Any]
    summary: Mapping[str, Any]
    history: History


def read_run(path: Path) -> Run:
    """Reads a run folder.

    Raises:
        ConfigError: the folder is not one of a run.
    """
    folder = RunFolder(path)
    if not folder.experiment.is_file() and not folder.records.is_file():
        raise ConfigError(Fault("DIR", str(path), "a run folder, with experiment.yaml and cloud/records.jsonl"))
    history = History()
    if folder.records.is_file():
        for row in read(folder.records):
            history.add(row)
    settings = _mapping(folder.experiment, yaml.safe_load)
    return Run(path, settings, _mapping(folder.about, json.loads), _mapping(folder.summary, json.loads), history)


def _mapping(path: Path, decode: Callable[[str], object]) -> Mapping[str, Any]:
    """The content of a file; empty if it is missing, as in a run that is still going on."""
    try:
        content = decode(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(Fault(str(path), str(error), "a readable file")) from error
    return content if isinstance(content, dict) else {}
