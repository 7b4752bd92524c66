"""Presence: who is online under an id, as the retained status topics tell, and whether a twin runs.

A process announces `{"state": "online", "boot": ...}` on the status topic of its id; its last will says `offline`
there. Boot ids sort by start. An id belongs to the process that started first: a later one that meets it stops.

Three things make that safe. A retained `online` may be left over from a process whose connection the broker still
believes in, so the later process asks (`asking`), and the earlier one answers by announcing itself anew; its will
(`offline`) answers as well, and so does silence until that will is overdue. Where the broker allows one connection
per id, the twins cut each other off in turn and each finds the other's will on its return: the later one stops at the
second such sign. And nobody believes an `offline` about another process than the one it knows.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from common.errors import WireError
from common.messages import Name
from common.node import NodeId
from common.wire import Payload

State = Literal["online", "offline", "asking"]
LONGEST = 300
"""Bytes of a presence at most."""
_SIGNS = 2


class Presence(BaseModel):
    """What a status topic holds."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    state: State
    boot: Name

    def encode(self) -> bytes:
        """Its payload."""
        return json.dumps({"state": self.state, "boot": self.boot}).encode("ascii")

    @classmethod
    def decode(cls, payload: Payload) -> Presence:
        """The presence in a payload.

        Raises:
            WireError: it is none.
        """
        if len(payload) > LONGEST:
            raise WireError(f"presence: {len(payload)} bytes: expected at most {LONGEST}")
        try:
            return cls.model_validate_json(bytes(payload))
        except ValidationError as error:
            raise WireError("presence: expected {state, boot} as JSON") from error


class Verdict(Enum):
    """What a process does about what it read on its own status topic."""

    IGNORE = "ignore"
    ASK = "ask"
    """An earlier process may run: ask it, and wait."""
    FREE = "free"
    """The earlier process is gone."""
    ANNOUNCE = "announce"
    """Someone else spoke for this id: say again who is here."""
    STOP = "stop"
    """An earlier process runs: this one has to stop."""


@dataclass
class Claim:
    """This process's claim to its id, against others that use it."""

    boot: str
    announced: bool = False
    rival: str | None = None
    """The earlier process that was asked and has not answered."""
    _signs: int = 0

    def judge(self, presence: Presence, *, retained: bool) -> Verdict:
        """What to do about one presence on the own status topic. `retained`: it is not news but what was left."""
        if presence.boot >= self.boot:
            is_ours = presence.boot == self.boot
            contradicts = presence.state == "offline" if is_ours else True
            return Verdict.ANNOUNCE if self.announced and contradicts else Verdict.IGNORE
        if presence.state == "online":
            return self._suspect(presence.boot) if retained and self.rival != presence.boot else Verdict.STOP
        if presence.boot == self.rival:
            self.rival = None
            return Verdict.FREE
        if self.announced and presence.state == "offline":
            self._signs += 1
            return Verdict.STOP if self._signs >= _SIGNS else Verdict.ANNOUNCE
        return Verdict.IGNORE

    def _suspect(self, boot: str) -> Verdict:
        self.rival = boot
        return Verdict.ASK


class Attendance:
    """Which process the cloud takes each edge to be."""

    def __init__(self, limit: int = 100_000) -> None:
        self._boots: dict[NodeId, str] = {}
        self._limit = limit

    def heard(self, edge: NodeId, boot: str) -> None:
        """A message of this process arrived, or its presence."""
        if edge in self._boots or len(self._boots) < self._limit:
            self._boots[edge] = boot

    def left(self, edge: NodeId, boot: str) -> bool:
        """This process is gone. True if it is the one that the edge was taken to be."""
        if self._boots.get(edge) != boot:
            return False
        del self._boots[edge]
        return True
