"""The edge as a program: finds out which edge it is, builds it, and runs it on the broker.

Its folder in the run folder, edges/<id>, holds its records and its newest answer. Its ledger outlives the run and lies
elsewhere, in a folder for ledgers; that of a run whose noise can be drawn again from the seed belongs to the run, and
lies beside its records.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from common.answers import Answers, cache_folder
from common.errors import ConfigError, Fault
from common.experiment import Experiment, edge_ids
from common.fleet import Fleet
from common.identity import Identity
from common.machine import Machine
from common.mqtt import Shell
from common.program import Attended, Call, make_folder, parse, serve, touch
from common.records import Recorder, read
from edge.answer_file import AnswerFile
from edge.build import build
from edge.identity import identify
from edge.ledger_file import LedgerFile

LOG = logging.getLogger(__name__)


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Runs the edge until the run is over; the exit code of the process.

    Raises:
        ConfigError, DataError, LedgerError: nothing was started.
        RecordError: records cannot be written.
    """
    call = parse("edge", arguments, environment)
    touch(call.alive)
    name = call.edge if call.edge is not None else identify(environment)
    broker, identity = call.address(name), Identity.fresh(call.run, name)
    folder = make_folder(call.out / "edges" / name)
    records = folder / "records.jsonl"
    with _ledger(call, identity, folder, _shown(records, call.run)) as ledger:
        ask = Answers(cache_folder(environment)).ask
        keeper = partial(AnswerFile, folder / "answer.bin", f"{call.run} {name} {call.experiment.digest()}")
        edge = build(call.experiment, name, identity.boot, ledger.open, ask=ask, keeper=keeper)
        for caution in edge.cautions:
            LOG.warning("%s", caution)
        recorder = Recorder(records, call.run, name)
        try:
            node, machine = Attended(edge.node, call.alive), _machine(call.experiment, name, edge.work)
            pulse = partial(touch, call.alive)
            return serve(Shell(node, identity, broker, recorder, layout=edge.layout, machine=machine, pulse=pulse))
        finally:
            recorder.close()


def _machine(experiment: Experiment, edge: str, work: Mapping[str, float]) -> Machine | None:
    """What the fleet makes of this process; None without a fleet: it is as fast and as near as it happens to be."""
    if experiment.fleet == Fleet():
        return None
    edges = edge_ids(experiment.data.edges)
    return Machine(experiment.fleet.profile(edges.index(edge), len(edges)), work, experiment.seed, edge)


def _ledger(call: Call, identity: Identity, folder: Path, shown: int) -> LedgerFile:
    """The ledger of this edge, not yet opened; `folder`: that of its records."""
    randomness = call.experiment.privacy.randomness
    if call.is_ledger_given or randomness == "secure":
        if call.ledger is None:
            expected = (
                "a folder for ledgers, which outlives the run (or set LEDGER; or privacy.randomness: reproducible)"
            )
            raise ConfigError(Fault("--ledger", None, expected))
        path = call.ledger / f"{identity.node_id}.db"
    else:
        path = folder / "ledger.db"
    return LedgerFile(path, identity.run, identity.boot, randomness, shown=shown)


def _shown(records: Path, run: str) -> int:
    """How many releases this edge's own records show for this run."""
    if not records.exists():
        return 0
    return sum(row.get("kind") == "release" and row.get("run") == run for row in read(records))
