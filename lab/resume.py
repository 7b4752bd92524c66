"""Goes on with a run that `mapa launch` began and whose processes are gone: the same folder, run id and ledgers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from cloud.checkpoint import read_about
from common.access import Access
from common.errors import ConfigError, Fault, RecordError
from common.privacy.calibration import Ask
from common.storage import held
from lab.check import check
from lab.folder import RunFolder
from lab.launch import Start, address_of, carry_out, check_presence
from lab.progress import screen_for


def resume(path: Path, broker: str | None, access: Access, ask: Ask, stream: TextIO, *, quiet: bool = False) -> int:
    """Runs what is left of it, and gives its exit code as `mapa launch` does.

    Args:
        path: the run folder.
        broker: another one than before.
        access: what the nodes need to get at it.
        ask: remembers what was calibrated.
        stream: where progress is shown.
        quiet: only what matters.

    Raises:
        ConfigError: there is nothing to go on with here.
        RecordError: a process of this run is there, or its files cannot be read.
        DataError, DeployError, TransportError: as `launch`.
    """
    folder = RunFolder(path)
    start = _start(folder)
    checkpoint = folder.node("cloud") / "checkpoint"
    about = read_about(checkpoint)
    if about is not None and about.ended is not None:
        expected = f"one that has not ended: mapa launch {folder.experiment} begins it anew in another"
        raise ConfigError(Fault("DIR", f"{path}: {about.ended['reason']}", expected))
    if checkpoint.exists():
        with held(checkpoint / "lock"):  # or RecordError: its cloud runs
            pass
    checked = check(folder.experiment, (), ask)
    check_presence(checked.experiment)
    start = replace(start, broker=address_of(broker or start.broker, access, checked.experiment))
    screen = screen_for(stream, f"{checked.experiment.name} ({start.run})", quiet)
    screen.say(f"going on with {path}")
    folder.summary.unlink(missing_ok=True)  # of a cloud that failed: it says how that ended, not how this will
    return carry_out(folder, checked.experiment, start, access, screen=screen, stream=stream)


def _start(folder: RunFolder) -> Start:
    """How it was started."""
    try:
        return Start(**json.loads(folder.launch.read_bytes()))
    except FileNotFoundError as error:
        raise ConfigError(Fault("DIR", str(folder.path), "the folder of a run that mapa launch began")) from error
    except (OSError, ValueError, TypeError) as error:
        raise RecordError(f"run folder: {folder.launch}: {error}: expected it as it was written") from error
