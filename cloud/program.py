"""The cloud as a program: builds it, runs it on the broker, and writes down the result.

Files in the run folder: those of `results`, and cloud/records.jsonl.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from cloud.build import build, check
from cloud.results import write_beginning, write_end
from cloud.transcript import Transcribed
from common.errors import RecordError
from common.identity import Identity
from common.mqtt import Shell
from common.node import CLOUD
from common.program import Attended, make_folder, parse, serve, touch
from common.records import Recorder

LOG = logging.getLogger(__name__)


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Runs the cloud until its run is over; the exit code of the process.

    Raises:
        ConfigError, DataError: nothing was started.
        RecordError: results cannot be written.
    """
    call = parse(CLOUD, arguments, environment)
    touch(call.alive)
    check(call.experiment)
    broker, identity = call.address(CLOUD), Identity.fresh(call.run, CLOUD)
    cloud = build(call.experiment, identity.boot)
    folder = make_folder(call.out / "cloud")
    for name in ("records.jsonl", "transcript.bin"):
        _set_aside(folder / name)
    write_beginning(call.out, call.experiment, call.run, identity.boot, str(broker))
    recorder = Recorder(folder / "records.jsonl", call.run, CLOUD)
    transcript = Transcribed(cloud.node, folder / "transcript.bin") if call.experiment.transcript else None
    node = Attended(transcript or cloud.node, call.alive)
    try:
        shell = Shell(node, identity, broker, recorder, cloud.evaluate, cloud.layout, guests=cloud.guests)
        code = serve(shell)
    finally:
        recorder.close()
        if transcript is not None:
            transcript.close()
        summary = write_end(call.out, call.experiment, cloud.node.tensors)
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
