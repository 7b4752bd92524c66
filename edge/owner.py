"""Whose a ledger is: one edge with its records of one data set."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Owner:
    """An edge and its records. `fingerprint`: SHA-256 of the records as they are stored, in any order."""

    edge: str
    data_set: str
    records: int
    fingerprint: str

    @property
    def short(self) -> str:
        """The records, in a few words."""
        return f"{self.records} records with fingerprint {self.fingerprint[:12]}"

    @classmethod
    def of(cls, edge: str, data_set: str, inputs: NDArray[Any], labels: NDArray[np.int64]) -> Owner:
        """The owner of these records.

        Args:
            edge: its id.
            data_set: what the experiment calls the data.
            inputs: [n, ...] raw, before any model prepares them: another model sees the same records.
            labels: [n].
        """
        prefixes = np.ascontiguousarray(labels, dtype="<i8").view("V8")
        records = zip(prefixes, inputs, strict=True)
        marks = sorted(hashlib.sha256(label.tobytes() + record.tobytes()).digest() for label, record in records)
        whole = hashlib.sha256(f"{inputs.dtype.str} {inputs.shape[1:]}".encode())
        for mark in marks:
            whole.update(mark)
        return cls(edge, data_set, len(labels), whole.hexdigest())
