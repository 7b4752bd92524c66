"""Ledger files to open, fill, spoil and kill."""

from __future__ import annotations

from pathlib import Path

from common.events import Event
from edge.ledger_file import LedgerFile
from edge.owner import Owner

TRAINING = Event(mechanism="gaussian", noise_multiplier=2.0, dimension=10, sampling="poisson", sampling_rate=0.1)
PROBE = Event(mechanism="gaussian", noise_multiplier=15.0, dimension=2)
OWNER = Owner("edge-0001", "digits", 20, "ab" * 32)


def file_at(
    path: Path,
    run: str = "run-1",
    boot: str = "b1",
    randomness: str = "secure",
    *,
    shown: int = 0,
    uptime: str | None = None,
) -> LedgerFile:
    return LedgerFile(path, run, boot, randomness, shown=shown, patience=0.05, uptime=uptime)


def fill(path: Path, releases: int, run: str = "run-1", boot: str = "b1", owner: Owner = OWNER) -> None:
    """A process comes, releases so often, with a probe at last, and goes in good order."""
    with file_at(path, run, boot) as ledger:
        ledger.open(owner)
        for ticket in range(1, releases + 1):
            ledger.write(PROBE if ticket == releases else TRAINING, ticket)
