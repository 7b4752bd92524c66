"""The run folder: where a run's files lie, and how to read one that is finished, running or broken off."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from cloud.summary import summarise
from common.errors import ConfigError, Fault, FederationError, RecordError
from common.experiment import parse
from common.records import read
from lab.history import History
from lab.verdict import is_sound


@dataclass(frozen=True)
class RunFolder:
    """Names of the files in the folder of one run.

    experiment.yaml (resolved), launch.json (how it was started), run.json (run id, digest, versions, seeds),
    summary.json, audit.json (if audited),
    cloud/{records.jsonl, output.log, model.safetensors}, edges/<id>/{records.jsonl, output.log}.
    """

    path: Path

    @property
    def experiment(self) -> Path:
        """The resolved experiment file."""
        return self.path / "experiment.yaml"

    @property
    def launch(self) -> Path:
        """How `mapa launch` started it: run id, broker, ledgers."""
        return self.path / "launch.json"

    @property
    def about(self) -> Path:
        """Run id, digest, versions, seeds, start."""
        return self.path / "run.json"

    @property
    def summary(self) -> Path:
        """The result in one page of JSON."""
        return self.path / "summary.json"

    @property
    def audit(self) -> Path:
        """What an audit of one of its edges found, if there was one."""
        return self.path / "audit.json"

    @property
    def records(self) -> Path:
        """The cloud's records."""
        return self.path / "cloud" / "records.jsonl"

    @property
    def transcript(self) -> Path:
        """Everything the cloud heard, if the experiment asked for it."""
        return self.path / "cloud" / "transcript.bin"

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

    def begin(self) -> None:
        """Makes the cloud's folder, by which one of several processes that found this folder empty has it.

        Raises:
            ConfigError: another process has it.
            RecordError: it cannot be written.
        """
        try:
            self.records.parent.mkdir()
        except FileExistsError as error:
            raise ConfigError(Fault("--out", str(self.path), "a folder in which no other run has begun")) from error
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

    def rows(self) -> Iterator[object]:
        """The same as records; what is whole JSON may still be no sound row."""
        for line in self.lines():
            try:
                yield json.loads(line)
            except ValueError:  # torn by a crash of the writer, which then began a new line
                continue


@dataclass(frozen=True)
class Run:
    """One run as read from its folder.

    `summary`: that of the folder if `is_summed_up`, else the one its records give so far; empty where neither can be
    told, like `about` where its file is missing. `warnings`: what was damaged and therefore passed over.
    """

    path: Path
    settings: Mapping[str, Any]
    about: Mapping[str, Any]
    summary: Mapping[str, Any]
    is_summed_up: bool
    history: History
    warnings: tuple[str, ...] = ()
    audit: Mapping[str, Any] = field(default_factory=dict)


def read_run(path: Path) -> Run:
    """Reads a run folder.

    Raises:
        ConfigError: the folder is not one of a run, or its experiment file cannot be read.
        RecordError: the records cannot be read.
    """
    folder = RunFolder(path)
    if not folder.experiment.is_file() and not folder.records.is_file():
        raise ConfigError(Fault("DIR", str(path), "a run folder, with experiment.yaml and cloud/records.jsonl"))
    try:
        settings = _mapping(folder.experiment, yaml.safe_load)
    except ValueError as error:
        raise ConfigError(Fault(str(folder.experiment), str(error), "a readable file")) from error
    warnings: list[str] = []
    about = _optional(folder.about, warnings)
    summary = _optional(folder.summary, warnings, _is_summary)
    audit = _optional(folder.audit, warnings, is_sound)
    history, damaged = History(), Counter[str]()
    rows = _sound_rows(folder, history, damaged)
    content = summary or _summed_up(settings, rows, warnings)
    deque(rows, maxlen=0)  # folds what nobody has asked for yet
    if damaged.total():
        warnings.append(f"{folder.records}: {damaged.total()} damaged rows: passed over")
    return Run(path, settings, about, content, bool(summary), history, tuple(warnings), audit)


def _sound_rows(folder: RunFolder, history: History, damaged: Counter[str]) -> Iterator[dict[str, Any]]:
    """The cloud's rows as they are folded into `history`; those that cannot be are counted in `damaged`."""
    for row in read(folder.records) if folder.records.is_file() else ():
        if history.add(row):
            yield row
        else:
            damaged["rows"] += 1


def _summed_up(settings: Mapping[str, Any], rows: Iterable[dict[str, Any]], warnings: list[str]) -> Mapping[str, Any]:
    """The summary of the records alone, by the same rules as the cloud's."""
    try:
        return summarise(parse(settings), rows)
    except (FederationError, AttributeError, KeyError, TypeError, ValueError) as error:
        warnings.append(f"records: {error!r}: no summary can be made of them")
        return {}


def _mapping(path: Path, decode: Callable[[str], object]) -> Mapping[str, Any]:
    """The content of a file; empty if it is missing, as in a run that is still going on.

    Raises:
        ValueError: it is damaged, or holds something else.
    """
    try:
        content = decode(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, yaml.YAMLError) as error:
        raise ValueError(str(error)) from error
    if not isinstance(content, dict):
        raise ValueError(f"{type(content).__name__}: expected a mapping")  # noqa: TRY004 - one error for all damage
    return content


def _optional(
    path: Path, warnings: list[str], is_sound: Callable[[Mapping[str, Any]], bool] = bool
) -> Mapping[str, Any]:
    """The content of a JSON file; empty, with a warning, if it is damaged."""
    try:
        content = _mapping(path, json.loads)
    except ValueError as error:
        warnings.append(f"{path}: {error}: taken for missing")
        return {}
    if path.exists() and not is_sound(content):
        warnings.append(f"{path}: empty or incomplete: taken for missing")
        return {}
    return content


def _is_summary(content: Mapping[str, Any]) -> bool:
    """Whether a summary has the parts, of the types, that every summary has."""
    edges, privacy = content.get("edges"), content.get("privacy")
    return (
        isinstance(edges, list)
        and all(isinstance(edge, dict) and isinstance(edge.get("id"), str) for edge in edges)
        and isinstance(privacy, dict)
    )
