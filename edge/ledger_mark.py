"""The mark beside a ledger: that there is one, and whose write-ahead log has to be there.

It lies beside `edge-0001.db` as `edge-0001.begun`, and holds the boot id of the process that opened the ledger last,
how long its log was then, and how many reserves were written down; or "closed". Without it nobody could tell a ledger
that was lost from one that never was.
"""

from __future__ import annotations

import os
from pathlib import Path

from common.storage import synchronise

CLOSED = "closed"
_LENGTH = 80  # of a boot id and two numbers, at most


def mark_of(ledger: Path) -> Path:
    """Where the mark of a ledger is."""
    return ledger.with_suffix(".begun")


def read_mark(ledger: Path) -> str:
    """Which process opened the ledger last, or CLOSED; empty if nothing tells."""
    return _words(ledger)[0]


def read_log_size(ledger: Path) -> int:
    """Bytes of the log when that process began to release; 0 if nothing tells."""
    return _number(_words(ledger)[1])


def read_reserves(ledger: Path) -> int:
    """Reserves that were in the ledger, with nothing released yet of the newest; 0 if nothing tells."""
    return _number(_words(ledger)[2])


def write_mark(ledger: Path, text: str, log_size: int = 0, reserves: int = 0) -> None:
    """Writes the mark to the disk, over an older one in place, which takes no room.

    Raises:
        OSError: it could not be written.
    """
    file = os.open(mark_of(ledger), os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        os.write(file, f"{text} {log_size} {reserves}".ljust(_LENGTH).encode("ascii") + b"\n")
        os.fsync(file)
    finally:
        os.close(file)
    synchronise(ledger.parent)


def make_folder(folder: Path) -> None:
    """Makes a folder, to stay; raises OSError if it cannot be made."""
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        synchronise(folder.parent)


def _words(ledger: Path) -> tuple[str, str, str]:
    try:
        words = mark_of(ledger).read_text(encoding="ascii", errors="replace").split()
    except OSError:
        words = []
    first, second, third, *_ = (*words, "", "", "")
    return first, second, third


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0
