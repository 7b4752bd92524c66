"""The write-ahead log beside a ledger, looked at before SQLite does: that takes what is left of one for all there was.

A process that was killed leaves its newest releases in the log only. Without it, or with a part of it, the database is
sound and holds less than was sent. So the log must be there, at least as long as when its process began to release
(it never gets shorter while in use), and without a break that commits follow.

A break: frames form a chain of checksums, and SQLite reads as far as that holds. Frames behind it, with the salts of
this log and the sign of a commit, were written down too. Of one such commit nobody can tell whether it is the last one,
which was interrupted before anything was released; of two, one was.

Unless the machine went down: then what had not come to the disk yet is missing, in any order. It was set aside before
(`ledger_reserve`) and counts as made, if all reserves are there that the mark has counted.

Source: "Database File Format", section 4, The Write-Ahead Log (sqlite.org).
"""

from __future__ import annotations

import struct
from pathlib import Path

from common.errors import LedgerError
from edge.ledger_content import CURE, Content
from edge.ledger_mark import read_log_size, read_mark, read_reserves

MISSING = "is missing, and releases with it"
_SHORTER = "was longer, and releases are missing"
_BROKEN = "is damaged, and releases are missing"

_HEADER, _FRAME = 32, 24  # bytes, of the log and of each page in it
_MODE, _HAS_LOG = 18, 2  # the byte in a database's header that says whether it has such a log
_WORD = 0xFFFFFFFF


def log_of(ledger: Path) -> Path:
    """Where the log of a ledger is."""
    return ledger.with_name(f"{ledger.name}-wal")


def fault_of(ledger: Path) -> str:
    """What is wrong with the log that the database says it has; to be asked before it is opened. Empty if nothing.

    Raises:
        LedgerError: a file cannot be read.
    """
    try:
        if not ledger.exists():
            return ""
        with ledger.open("rb") as file:
            header = file.read(_MODE + 1)
        if len(header) <= _MODE or header[_MODE] != _HAS_LOG:
            return ""
        content = log_of(ledger).read_bytes() if log_of(ledger).exists() else b""
    except OSError as error:
        raise LedgerError(f"ledger: {ledger}: {error.strerror}: expected a file that can be read") from error
    if len(content) < _HEADER + _FRAME:
        return MISSING
    if len(content) < read_log_size(ledger):
        return _SHORTER
    return _BROKEN if is_broken(content) else ""


def check_log(ledger: Path, content: Content, fault: str, uptime: str) -> None:
    """Makes sure that nothing of the log was lost that is not counted, from `fault_of` and the mark.

    A log may be missing if its process had not made it yet: then the mark names another one, or says "closed".

    Raises:
        LedgerError: something was lost.
    """
    newest = content.lives[-1] if content.lives else None
    is_marked = newest is not None and read_mark(ledger) == newest.boot
    if is_marked and content.reserves < read_reserves(ledger):
        fault = fault or _BROKEN
    elif newest is not None and is_marked and fault == _BROKEN and "" != newest.uptime != uptime:
        return
    if not fault or (fault == MISSING and not (newest is not None and (is_marked or not read_mark(ledger)))):
        return
    text = f"its write-ahead log {fault}: expected the file {log_of(ledger).name} as it was left"
    raise LedgerError(f"ledger: {ledger}: {text}; {CURE}")


def is_broken(log: bytes) -> bool:
    """Whether commits that were written down for good lie behind a break."""
    magic, _, page, _, first, second, *found = struct.unpack_from(">8I", log)
    order = ">" if magic & 1 else "<"
    if magic >> 1 != 0x377F0682 >> 1 or page < 512:
        return True
    sums = _add(order, log[: _HEADER - 8], (0, 0))
    if list(sums) != found:
        return True
    is_chained, behind = True, 0
    for start in range(_HEADER, len(log) - _FRAME - page + 1, _FRAME + page):
        _, commit, *salts = struct.unpack_from(">4I", log, start)
        if salts != [first, second]:
            is_chained = False  # left over from an earlier use of the file, or damaged
            continue
        if is_chained:
            sums = _add(order, log[start : start + 8], sums)
            sums = _add(order, log[start + _FRAME : start + _FRAME + page], sums)
            is_chained = sums == struct.unpack_from(">2I", log, start + 16)
        behind += commit > 0 and not is_chained
    return behind > 1


def _add(order: str, content: bytes, sums: tuple[int, int]) -> tuple[int, int]:
    """SQLite's checksum of more content."""
    low, high = sums
    words = struct.unpack(f"{order}{len(content) // 4}I", content)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        low = (low + even + high) & _WORD
        high = (high + odd + low) & _WORD
    return low, high
