"""Whether all held in a run with trouble: from its folder alone, records and ledgers."""

from __future__ import annotations

from collections.abc import Sequence

from common.errors import FederationError
from lab.folder import RunFolder
from lab.invariants import Findings, examine
from lab.ledger import compare


def judge(folder: RunFolder, faults: Sequence[str]) -> tuple[Findings, Sequence[str]]:
    """What the records show, and what else is wrong: `faults`, and releases that the ledgers do not hold.

    Raises:
        RecordError: records cannot be read.
    """
    try:
        missing = compare(folder.path / "ledgers", folder.path)
    except FederationError as error:
        missing = {"ledgers": str(error)}
    others = [f"{edge}: ledger: {text}" for edge, text in missing.items() if text]
    return examine(folder), [*faults, *others]
