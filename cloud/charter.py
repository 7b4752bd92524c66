"""What the cloud's node is told at its start: its settings, who may take part, and where a run can be."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pydantic import Field

from cloud.admission import Admission
from common.doorman import Manners
from common.section import Positive, Section


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
    """What the cloud opens a run with: who may take part, boot id of this process, edges to wait for."""

    admission: Admission
    boot: str
    quorum: int
