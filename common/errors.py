"""The exception tree: every error this project raises on purpose.

FederationError                                                          exit 1
├─ ConfigError         the experiment is wrong: path, value, expectation exit 2
├─ WireError           bytes that are no message of ours                 dropped, counted, recorded
├─ ProtocolError       a valid message at a wrong moment
│   ├─ LocalProtocolError    our own node did it: a bug                  exit 1
│   └─ RemoteProtocolError   the other side did it                       recorded, ignored
├─ PrivacyError        never caught in a node: the shell halts it        exit 1
│   ├─ BudgetExhausted
│   ├─ SensitivityError
│   ├─ UnsupportedEvent
│   └─ LedgerError      the ledger is missing, damaged, another's, or full     exit 7
├─ DataError           missing or corrupt data set, empty shard          exit 3
├─ TransportError      broker unreachable, connection lost for good      exit 4
├─ DeployError         a host, an image, a container (lab only)          exit 5
└─ RecordError         records or results cannot be written              exit 6
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


class FederationError(Exception):
    """Root of all errors raised on purpose; its text names thing, value and expectation."""

    exit_code = 1


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with an experiment: where, what was found, what was expected."""

    path: str
    value: object
    expected: str

    def __str__(self) -> str:
        return f"{self.path}: {self.value!r}: expected {self.expected}"


class ConfigError(FederationError):
    """The experiment is wrong. Carries one `Fault` for each thing that is."""

    exit_code = 2

    def __init__(self, faults: Fault | Iterable[Fault]) -> None:
        self.faults: Sequence[Fault] = (faults,) if isinstance(faults, Fault) else tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))

    def __reduce__(self) -> tuple[type[ConfigError], tuple[Sequence[Fault]]]:
        """Between processes it goes by its faults, not by its text."""
        return type(self), (self.faults,)


class WireError(FederationError):
    """Bytes that are not a message of this project, or too large, or of another version."""


class ProtocolError(FederationError):
    """A valid message at a wrong moment."""


class LocalProtocolError(ProtocolError):
    """This side broke the protocol: a bug of ours."""


class RemoteProtocolError(ProtocolError):
    """The other side broke the protocol."""


class PrivacyError(FederationError):
    """Going on would break a privacy promise."""


class BudgetExhausted(PrivacyError):
    """The next release would pass the edge's own budget."""


class SensitivityError(PrivacyError):
    """A quantity whose sensitivity cannot be bounded."""


class UnsupportedEvent(PrivacyError):
    """No accountant here covers this event."""


class LedgerError(PrivacyError):
    """The edge's ledger cannot be relied on: missing, damaged, of other records, in use, or not writable."""

    exit_code = 7


class DataError(FederationError):
    """A data set is missing, corrupt, or leaves an edge without records."""

    exit_code = 3


class TransportError(FederationError):
    """The broker cannot be reached, or the connection was lost beyond patience."""

    exit_code = 4


class DeployError(FederationError):
    """A host, an image or a container failed."""

    exit_code = 5


class RecordError(FederationError):
    """Records or results cannot be written: disk full, folder not writable."""

    exit_code = 6
