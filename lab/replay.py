"""Feeds a run's transcript to a new cloud node, which must decide the same: the same records and the same model.

Not compared are the rows of the shell (`SHELL`): how the parameters scored on the test set, and what never got to the
node.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from cloud.build import build
from cloud.transcript import END, SHELL, read_transcript
from common.errors import ConfigError, Fault, RecordError
from common.experiment import parse
from common.node import Record
from common.records import line_of, read
from common.wire import save
from lab.folder import RunFolder, read_run

STAMP = ("run", "node", "time")
"""What the shell adds to a row."""
LONGEST = 300
"""Characters of a row that are shown."""


@dataclass(frozen=True)
class Replayed:
    """`events` fed and `rows` of records compared; `fault`: the first difference, or empty."""

    events: int
    rows: int
    fault: str = ""


def replay(folder: RunFolder) -> Replayed:
    """Replays a run that was made with `transcript: true`.

    Raises:
        ConfigError: the folder holds no such run.
        RecordError: a file cannot be read.
    """
    run = read_run(folder.path)
    boot = run.about.get("boot")
    if not run.settings or boot is None:
        expected = "the folder of a run, with experiment.yaml and run.json"
        raise ConfigError(Fault("run folder", str(folder.path), expected))
    cloud = build(parse(run.settings), str(boot))
    made: list[dict[str, Any]] = []
    events, is_whole = 0, False
    for event in read_transcript(folder.transcript, cloud.layout):
        if event.kind == END:
            is_whole = True
            break
        events += 1
        made += [_plain(effect) for effect in event.happen(cloud.node) if isinstance(effect, Record)]
    fault = "" if is_whole else f"transcript: ends after {events} events: expected its last entry, for a whole run"
    fault = fault or _difference(made, _recorded(folder))
    if not fault and _bytes(folder) != save(cloud.node.tensors):
        fault = "model: cloud/model.safetensors: expected the parameters that the decisions lead to"
    return Replayed(events, len(made), fault)


def _plain(effect: Record) -> dict[str, Any]:
    row: dict[str, Any] = json.loads(line_of({"kind": effect.kind, **effect.row}))
    return row


def _recorded(folder: RunFolder) -> Iterator[dict[str, Any]]:
    """The rows that the node made."""
    for row in read(folder.records):
        if row.get("kind") not in SHELL:
            yield {key: value for key, value in row.items() if key not in STAMP}


def _difference(made: Sequence[Mapping[str, Any]], recorded: Iterator[Mapping[str, Any]]) -> str:
    for number, (row, wanted) in enumerate(zip_longest(recorded, made), 1):
        if row != wanted:
            found = "missing" if row is None else _shown(row)
            return (
                f"cloud/records.jsonl: decision {number}: {found}: expected {_shown(wanted) if wanted else 'no more'}"
            )
    return ""


def _shown(row: Mapping[str, Any]) -> str:
    text = json.dumps(row)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _bytes(folder: RunFolder) -> bytes:
    path = folder.path / "cloud" / "model.safetensors"
    try:
        return path.read_bytes()
    except OSError as error:
        raise RecordError(f"model: {path}: {error.strerror}: expected the model of the run") from error
