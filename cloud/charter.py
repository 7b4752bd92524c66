"""What a cloud's node is told before its run: its settings, who may take part, and whose state it goes on with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from pydantic import Field

from cloud.admission import Admission
from cloud.controller import Controller
from cloud.roster import Roster
from common.doorman import Manners
from common.node import Seconds
from common.section import Positive, Section

RESUMED = "resumed"
"""Name of the wake-up by which a node that came back from a checkpoint learns that it is in another process."""
RETURN: Seconds = 15.0
"""Edges that were there before a restart have so long to speak; then their link counts as broken."""


class Settings(Section):
    """What the node reads of `algorithm.cloud`; times in seconds."""

    quorum: int | None = Field(default=None, ge=1, description="edges to wait for at the start; none: all")
    quorum_patience: Positive = Field(default=60.0, description="then start with those who are there")
    patience: Positive = Field(default=60.0, description="probes and synchronous steps wait so long for a silent edge")
    absence: Positive = Field(default=120.0, description="the run ends after so long without any edge")
    grace: Positive = Field(default=60.0, description="at the end the edges have so long to account and say Bye")
    staleness_cap: int | None = Field(default=None, ge=0, description="staler updates are dropped; none: 4 x edges")
    longest_update: Positive | None = Field(default=None, description="norm of an update; none: as its noise allows")
    noisiest: Positive | None = Field(default=None, description="noise multiplier taken at most, or epsilon at least")
    manners: Manners = Manners()


class Phase(Enum):
    """Where the run is."""

    GATHERING = "gathering"
    RUNNING = "running"
    CLOSING = "closing"
    OVER = "over"


@dataclass(frozen=True)
class Charter:
    """What the cloud opens a run with: who may take part, boot id of this process, edges to wait for.

    `lineage`: boot id of the process that began the run. Only answers to tickets of this lineage count: a cloud that
    begins anew has given none of those that edges of an earlier one may still answer.
    """

    admission: Admission
    boot: str
    quorum: int
    lineage: str | None = None


class Control(Protocol):
    """Makes the controller of a run."""

    def numbers(self, roster: Roster) -> Mapping[str, object]:
        """The public numbers that it works from, known when the run begins."""
        ...

    def make(self, numbers: Mapping[str, object]) -> Controller:
        """A controller that works from these numbers, at its beginning."""
        ...
