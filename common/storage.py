"""Files that have to outlive a crash: written as a whole or not at all, and on the disk when that is said.

What a process has written survives its death without any of this, for the system has it. A power failure takes what
was not synchronised.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from common.errors import RecordError

PATIENCE = 5.0
Bytes = bytes | memoryview


def write_whole(path: Path, parts: Iterable[Bytes]) -> None:
    """Writes a file so that, whatever happens, there is the old one or the whole new one, on the disk.

    Raises:
        RecordError: no room, or no right to write it; the old one is as it was.
    """
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        synchronise(path.parent)
    except OSError as error:
        raise RecordError(f"file: {path}: {error.strerror}: expected room and the right to write it") from error


def synchronise(path: Path) -> None:
    """Has the disk keep what was written to a file, or the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def held(path: Path, patience: float = PATIENCE) -> Iterator[None]:
    """Holds a file that one process of this machine may hold at a time; its end lets go of it, however it comes.

    `patience`: seconds that a process may still take which is about to end, as one that was just killed.

    Raises:
        RecordError: another process holds it, or it cannot be made.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise RecordError(f"file: {path}: {error.strerror}: expected to make it") from error
    try:
        deadline = time.monotonic() + patience
        while not _is_locked(descriptor):
            if time.monotonic() > deadline:
                raise RecordError(f"file: {path}: another process runs here: expected one for each run folder")
            time.sleep(0.05)
        yield
    finally:
        os.close(descriptor)


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
