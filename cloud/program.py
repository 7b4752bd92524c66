"""The cloud as a program: builds it, runs it on the broker, and writes down the result.

Files in the run folder: those of `results`, cloud/records.jsonl, and as long as the run is not over cloud/checkpoint. A
process that finds the checkpoint of its run goes on with it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from cloud.build import build, check
from cloud.checkpoint import About, Checkpoint, check_claim, digest_of
from cloud.durable import Durable
from cloud.recovery import Memory, Recovered, recover
from cloud.results import write_beginning, write_end
from common.address import Address
from common.errors import RecordError
from common.identity import Identity
from common.mqtt import Shell
from common.node import CLOUD
from common.program import Attended, Call, make_folder, parse, serve, touch
from common.records import Recorder
from common.storage import held

LOG = logging.getLogger(__name__)


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Runs the cloud until its run is over; the exit code of the process.

    Raises:
        ConfigError, DataError: nothing was started.
        RecordError: results cannot be written, or a checkpoint cannot be gone on with.
    """
    call = parse(CLOUD, arguments, environment)
    touch(call.alive)
    check(call.experiment)
    broker, identity = call.address(CLOUD), Identity.fresh(call.run, CLOUD)
    folder = make_folder(call.out / "cloud")
    checkpoint = Checkpoint(folder, folder / "transcript.bin" if call.experiment.transcript else None)
    with held(checkpoint.lock):
        about = checkpoint.about
        if about is not None and about.run == call.run and about.ended is not None and about.ended["code"]:
            text = "run %s ended with %r: begin another (--run, MAPA_RUN), or remove %s to begin it anew"
            LOG.error(text, about.run, about.ended["reason"], checkpoint.folder)
            return int(about.ended["code"])
        is_new = about is None or about.ended is not None
        if about is not None and not is_new:
            check_claim(about, call.run, digest_of(call.experiment), checkpoint.folder)
            recovered = recover(
                checkpoint, partial(build, call.experiment, identity.boot, about.lineage), folder / "records.jsonl"
            )
        else:
            recovered = _begin(call, broker, identity, checkpoint)
        return _serve(call, broker, identity, checkpoint, recovered)


def _begin(call: Call, broker: Address, identity: Identity, checkpoint: Checkpoint) -> Recovered:
    """A cloud at its beginning, in a folder in which nothing of another run is lost."""
    cloud = build(call.experiment, identity.boot)
    for name in ("records.jsonl", "transcript.bin"):
        _set_aside(call.out / "cloud" / name)
    write_beginning(call.out, call.experiment, call.run, identity.boot, str(broker))
    checkpoint.begin(About(call.run, digest_of(call.experiment), identity.boot))
    return Recovered(cloud, Memory(), 0)


def _serve(call: Call, broker: Address, identity: Identity, checkpoint: Checkpoint, recovered: Recovered) -> int:
    records, cloud = call.out / "cloud" / "records.jsonl", recovered.cloud
    recorder = Recorder(records, call.run, CLOUD)
    for time, row in recovered.rows:
        recorder.append(row.kind, row.row, time)
    node = Durable(recovered, checkpoint, records, identity.began)
    try:
        attended = Attended(node, call.alive)
        shell = Shell(attended, identity, broker, recorder, cloud.evaluate, cloud.layout, guests=cloud.guests)
        code = serve(shell)
    finally:
        recorder.close()
        node.close()
        summary = write_end(call.out, call.experiment, cloud.node.tensors)
        if node.halt is not None:
            checkpoint.finish(node.halt.reason, node.halt.exit_code)
        LOG.info(
            "summary state=%s updates=%s seconds=%s test_accuracy=%s",
            *(summary[key] for key in ("state", "updates", "seconds", "test_accuracy")),
        )
    return code


def _set_aside(records: Path) -> None:
    """A file that is here already is another run's of the same id: it stays, under another name."""
    number = 1
    while (kept := records.with_suffix(f".{number}{records.suffix}")).exists():
        number += 1
    try:
        if records.exists():
            records.rename(kept)
            LOG.warning("records of an earlier run of this id: moved to %s", kept)
    except OSError as error:
        raise RecordError(f"records: {records}: {error.strerror}: expected to rename it") from error
