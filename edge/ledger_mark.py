"""The mark beside a ledger: that there is one, and whose write-ahead log has to be there.

It lies beside `edge-0001.db` as `edge-0001.begun`, and holds the boot id of the process that opened the ledger last, or
"closed". Without it nobody could tell a ledger that was lost from one that never was.
"""

from __future__ import annotations

import os
from pathlib import Path

CLOSED = "closed"
_LENGTH = 64  # of a boot id, at most


def mark_of(ledger: Path) -> Path:
    """Where the mark of a ledger is."""
    return ledger.with_suffix(".begun")


def read_mark(ledger: Path) -> str:
    """Which process opened the ledger last, or CLOSED; empty if nothing tells."""
    try:
        return mark_of(ledger).read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def write_mark(ledger: Path, text: str) -> None:
    """Writes the mark to the disk, over an older one in place, which takes no room.

    Raises:
        OSError: it could not be written.
    """
    file = os.open(mark_of(ledger), os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        os.write(file, text.ljust(_LENGTH).encode("ascii") + b"\n")
        os.fsync(file)
    finally:
        os.close(file)
    sync_folder(ledger.parent)


def make_folder(folder: Path) -> None:
    """Makes a folder, to stay; raises OSError if it cannot be made."""
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Brings to the disk what was made, renamed or removed in a folder."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
