"""The edge as a program: finds out which edge it is, builds it, and runs it on the broker.

Its folder in the run folder, edges/<id>, holds its records. They outlive the process: from them the next process of
this edge learns that it is not the first.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from common.identity import Identity
from common.mqtt import Shell
from common.program import Attended, make_folder, parse, serve, touch
from common.records import Recorder, read
from edge.algorithms.asynchronous import Past
from edge.build import build
from edge.identity import identify

LOG = logging.getLogger(__name__)


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Runs the edge until the run is over; the exit code of the process.

    Raises:
        ConfigError, DataError: nothing was started.
        RecordError: records cannot be written.
    """
    call = parse("edge", arguments, environment)
    touch(call.alive)
    name = call.edge if call.edge is not None else identify(environment)
    identity = Identity.fresh(call.run, name)
    folder = make_folder(call.out / "edges" / name)
    past = _past(folder / "records.jsonl", call.run)
    edge = build(call.experiment, name, identity.boot, past)
    for caution in edge.cautions:
        LOG.warning("%s", caution)
    recorder = Recorder(folder / "records.jsonl", call.run, name)
    try:
        return serve(Shell(Attended(edge.node, call.alive), identity, call.broker, recorder, layout=edge.layout))
    finally:
        recorder.close()


def _past(records: Path, run: str) -> Past:
    """The earlier processes of this edge in this run, as far as its records know of them."""
    if not records.exists():
        return Past()
    return Past(sum(row.get("kind") == "start" and row.get("run") == run for row in read(records)))
