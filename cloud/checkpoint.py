"""The folder from which a cloud that died goes on: snapshots of its state, and all that it heard since.

    cloud/checkpoint/  run.json               whose it is: run, digest of the experiment, lineage; how it ended
                       lock                   held by the process that runs here
                       000003.safetensors     the state after the events of 000002.events
                       000003.events          what the node heard since, as in `cloud.transcript`

Of snapshots there are two, so that a damaged one does not end the run; with the events since the older one. The first
events, 000000.events, begin with the start of the node. With `transcript: true` all events are in one file, which is
kept, and a snapshot tells how much of it came before.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cloud.snapshot import read_snapshot, write_snapshot
from cloud.transcript import Event, Transcript, read_transcript
from common.errors import ConfigError, Fault, RecordError
from common.experiment import Experiment
from common.program import make_folder
from common.storage import write_whole
from common.tensors import Flat, Layout

LOG = logging.getLogger(__name__)
VERSION = 1


@dataclass(frozen=True)
class About:
    """Whose checkpoint it is. `ended`: with which exit code and for what reason the run did, if it has."""

    run: str
    experiment: str
    lineage: str
    version: int = VERSION
    ended: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Found:
    """One way to go on: from a snapshot (None: from the beginning) and the files of the events since.

    `events`: each a path, and the byte at which to begin.
    """

    number: int
    content: Mapping[str, Any] | None
    arrays: Sequence[Flat]
    events: Sequence[tuple[Path, int]]

    def heard(self, layout: Layout) -> Iterator[tuple[Event, bool]]:
        """The events since the snapshot, and whether each is in the last of the files."""
        for place, (path, start) in enumerate(self.events, 1):
            for event in read_transcript(path, layout, start):
                yield event, place == len(self.events)


def digest_of(experiment: Experiment) -> str:
    """SHA-256 over all that decides what a cloud does: everything but where broker and data are."""
    content = experiment.model_dump(mode="json", exclude={"broker": True, "data": {"root", "download"}})
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


class Checkpoint:
    """The checkpoint in the folder of one cloud; the process holds its lock."""

    def __init__(self, cloud: Path, transcript: Path | None = None) -> None:
        """`cloud`: folder of the cloud's files; `transcript`: where all events are kept, if they are."""
        self.folder = make_folder(cloud / "checkpoint")
        self._transcript = transcript

    @property
    def lock(self) -> Path:
        """What the process that runs here holds."""
        return self.folder / "lock"

    @property
    def about(self) -> About | None:
        """Whose it is; None if there is none.

        Raises:
            RecordError: it cannot be read.
        """
        return read_about(self.folder)

    def begin(self, about: About) -> None:
        """Begins a new one, in place of that of a run which is over."""
        self._clear()
        self._write(about)

    def finish(self, reason: str, code: int) -> None:
        """The run is over: there is nothing to go on with any more."""
        about = self.about
        assert about is not None
        self._write(About(about.run, about.experiment, about.lineage, ended={"reason": reason, "code": code}))
        self._clear()

    def ways(self) -> Iterator[Found]:
        """The ways to go on, the best one first; what is damaged is told, and passed over."""
        for number in reversed([0, *self._numbers("safetensors")]):
            try:
                content, arrays = read_snapshot(self._path(number)) if number else (None, ())
                yield Found(number, content, arrays, self._events(number, content))
            except RecordError as error:
                LOG.warning("%s; the one before it is tried", error)

    def go_on(self, number: int, size: int) -> Transcript:
        """Writes further events after those since snapshot `number`; of the last file, `size` bytes were sound.

        Snapshots that are newer were found to be of no use, and are set aside.
        """
        for other in self._numbers("safetensors"):
            if other > number:
                path = self._path(other)
                path.replace(path.with_suffix(".damaged"))
        path = self._transcript or self._path(max([number, *self._numbers("events")]), "events")
        return Transcript(path, size=size if path.exists() else None)

    def save(self, content: Mapping[str, Any], arrays: Sequence[Flat], transcript: Transcript) -> Transcript:
        """Writes a snapshot; gives where to write events from now on."""
        before = max([0, *self._numbers("safetensors")])
        number = max([before, *self._numbers("events")]) + 1
        since = {"events": {"number": number, "size": transcript.size}}
        write_snapshot(self._path(number), {**content, **since}, arrays)
        if self._transcript is None:
            transcript.close(is_over=False)
            transcript = Transcript(self._path(number, "events"))
        for kind in ("safetensors", "events"):
            for other in self._numbers(kind):
                if other < before:
                    self._path(other, kind).unlink()
        return transcript

    def _events(self, number: int, content: Mapping[str, Any] | None) -> Sequence[tuple[Path, int]]:
        if self._transcript is not None:
            start = 0 if content is None else int(content["events"]["size"])
            size = self._transcript.stat().st_size if self._transcript.exists() else 0
            if size < start:
                raise RecordError(f"events: {self._transcript}: {size} bytes: expected at least {start}")
            return [(self._transcript, start)] if self._transcript.exists() else []
        numbers = [other for other in self._numbers("events") if other >= number]
        if numbers and numbers != list(range(number, numbers[-1] + 1)):
            raise RecordError(f"events: {self._path(number, 'events')}: missing: expected all since snapshot {number}")
        if not numbers and number == 0 and self._numbers("safetensors"):
            raise RecordError(f"events: {self._path(0, 'events')}: missing: expected all since the beginning")
        return [(self._path(other, "events"), 0) for other in numbers]

    def _numbers(self, kind: str) -> list[int]:
        return sorted(int(path.stem) for path in self.folder.glob(f"*.{kind}") if path.stem.isdigit())

    def _path(self, number: int, kind: str = "safetensors") -> Path:
        return self.folder / f"{number:06d}.{kind}"

    def _write(self, about: About) -> None:
        write_whole(self.folder / "run.json", [json.dumps(asdict(about), indent=2).encode() + b"\n"])

    def _clear(self) -> None:
        for path in self.folder.iterdir():
            if path.suffix in {".safetensors", ".events", ".part", ".damaged"}:
                path.unlink()


def read_about(folder: Path) -> About | None:
    """Whose checkpoint this folder is; None if there is none in it.

    Raises:
        RecordError: it cannot be read.
    """
    path = folder / "run.json"
    try:
        about = About(**json.loads(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise RecordError(f"checkpoint: {path}: {error}: expected the file as it was written") from error
    if about.version != VERSION:
        text = f"version {about.version}: expected {VERSION}; use the version of this software that wrote it"
        raise RecordError(f"checkpoint: {path}: {text}")
    return about


def check_claim(about: About, run: str, experiment: str, folder: Path) -> None:
    """ConfigError unless a process with this run and experiment may go on from here; nothing is changed."""
    if about.run != run:
        expected = f"{about.run}, to go on with the run that has not ended in {folder.parent.parent}, or another folder"
        raise ConfigError(Fault("--run", run, expected))
    if about.experiment != experiment:
        expected = f"that of run {run}, {about.experiment[:12]}, to go on with it; or another --run and --out"
        raise ConfigError(Fault("experiment", experiment[:12], expected))
