"""What must hold of every run, whatever died in it: checked from the records in its folder alone.

| must hold | how it shows |
|---|---|
| no accepted update is lost | an edge that was given further work was heard: its answer is in the cloud's records |
| none is applied twice | one row for each edge and ticket; the numbers of applied updates are 1, 2, 3, ... |
| none comes from nowhere | what the cloud counts is a release in its edge's records |
| versions never go back | the version at which each update arrived, in order |
| no work is computed twice | one release for each edge and ticket |
| the ledger never counts too little | what it holds, as an edge says again and again, against its releases until then |
| the run ended | one row says so, and how |

Work that was paid for and never counted is no fault, since its process may have died before it could say so; it is
counted (`unused`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from common.records import read
from lab.folder import RunFolder

Row = Mapping[str, Any]


@dataclass
class Findings:
    """`faults`: in words, none if all holds. `unused`: releases that the cloud never counted."""

    faults: list[str] = field(default_factory=list)
    updates: int = 0
    releases: int = 0
    unused: int = 0
    restarts: int = 0


def examine(folder: RunFolder) -> Findings:
    """Checks the run in this folder.

    Raises:
        RecordError: its records cannot be read.
    """
    cloud = list(read(folder.records)) if folder.records.exists() else []
    paths = sorted(folder.path.glob("edges/*/records.jsonl"))
    settings = yaml.safe_load(folder.experiment.read_text(encoding="utf-8")) if folder.experiment.exists() else {}
    in_step = settings.get("algorithm", {}).get("mode") == "sync"
    return check(cloud, {path.parent.name: list(read(path)) for path in paths}, in_step=in_step)


def check(cloud: Iterable[Row], edges: Mapping[str, Iterable[Row]], *, in_step: bool = False) -> Findings:
    """Checks the rows of the cloud and of each edge; `in_step`: several updates make one step, and have one number."""
    rows = list(cloud)
    findings = Findings(restarts=sum(row["kind"] == "resumed" for row in rows))
    heard: dict[tuple[str, int], int] = {}
    for row in rows:
        if row["kind"] in ("update", "answer"):
            key = (str(row["edge"]), int(row["ticket"]))
            heard[key] = heard.get(key, 0) + 1
    faults = findings.faults
    faults += [
        f"{edge}, ticket {ticket}: counted {times} times" for (edge, ticket), times in heard.items() if times > 1
    ]
    applied = [int(row["update"]) for row in rows if row["kind"] == "update" and row["applied"]]
    findings.updates = len(applied)
    faults += _in_order(rows, applied, in_step)
    released: set[tuple[str, int]] = set()
    for name, own in edges.items():
        kept = list(own)
        released |= {(name, int(row["ticket"])) for row in kept if row["kind"] in ("release", "held")}
        faults += _of_edge(name, kept, heard)
    faults += [f"{edge}, ticket {ticket}: counted, but never released" for edge, ticket in heard.keys() - released]
    findings.releases, findings.unused = len(released), len(released - heard.keys())
    ends = [row for row in rows if row["kind"] == "end"]
    if len(ends) != 1:
        faults.append(f"cloud: {len(ends)} rows say that the run is over: expected one")
    return findings


def _in_order(rows: Iterable[Row], applied: list[int], in_step: bool) -> Iterator[str]:
    """Whether updates follow each other, and versions do."""
    latest = 0
    for number in applied:
        if number != latest + 1 and not (in_step and number == latest):
            yield f"cloud: update {number} after update {latest}: expected {latest + 1}"
        latest = number
    version = 0
    for row in rows:
        if row["kind"] == "update":
            arrived = int(row["version"]) + int(row["staleness"])
            if arrived < version:
                yield f"cloud: version {arrived} after version {version}: expected it never to go back"
            version = max(version, arrived)


def _of_edge(name: str, rows: Iterable[Row], heard: Mapping[tuple[str, int], int]) -> Iterator[str]:
    """What the records of one edge, of all its processes, tell."""
    computed: set[int] = set()
    last: int | None = None  # what this process has answered last, and not seen acknowledged
    lineage: object = None
    lost: list[str] = []
    for row in rows:
        kind = row["kind"]
        if kind in ("start", "local", "bye") and (row.get("releases") or 0) < len(computed):
            yield f"{name}: its ledger holds {row.get('releases')} at {kind}: expected {len(computed)} releases or more"
        if kind == "start" or (kind == "met" and row.get("lineage") != lineage):
            last = None  # its predecessor's work may be lost, and a new cloud knows of none
        if kind == "met" and row.get("lineage") != lineage:
            lineage, lost = row.get("lineage"), []  # whose records are others
        if kind in ("release", "held"):
            ticket = int(row["ticket"])
            if kind == "release" and ticket in computed:
                yield f"{name}, ticket {ticket}: computed twice"
            if last is not None and (name, last) not in heard:
                lost.append(f"{name}, ticket {last}: lost: given ticket {ticket}, and the cloud does not know of it")
            computed.add(ticket)
            last = ticket
    yield from lost
