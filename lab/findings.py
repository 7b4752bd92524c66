"""What is asked of an audit, what it found, and the file it is kept in."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from common.errors import ConfigError, Fault, RecordError
from common.events import Event
from lab.attacks.crowd import Guessed
from lab.attacks.trials import Measured

Verdict = Literal["stands", "refuted", "no claim"]
FILE = "audit.json"
FEWEST_TRIALS = 100
MOST_RELEASES = 100_000_000


@dataclass(frozen=True)
class Request:
    """What is asked of an audit.

    Attributes:
        edge: which one.
        trials: on each of two edges, with the canary and without it.
        steps: releases in each trial.
        runs: whole runs with many canaries; 0 for none.
        updates: releases of a run; None for those that the edge is expected to make.
        confidence: with which each bound holds.
        seed: of the attack.
        clip_norm: the bound to ask the edge for at most; None for the one that the experiment begins with.
    """

    edge: str = "edge-0001"
    trials: int = 10_000
    steps: int = 1
    runs: int = 20
    updates: int | None = None
    confidence: float = 0.999
    seed: int = 1
    clip_norm: float | None = None

    def check(self) -> None:
        """Refuses what gives no number.

        Raises:
            ConfigError: with one fault for each thing that is wrong.
        """
        most = MOST_RELEASES // max(self.trials, 1)
        rules = (
            ("--trials", self.trials, self.trials >= FEWEST_TRIALS, f"at least {FEWEST_TRIALS}"),
            ("--steps", self.steps, 1 <= self.steps <= max(most, 1), f"1 to {most:,} with {self.trials:,} trials"),
            ("--runs", self.runs, self.runs == 0 or self.runs >= 2, "0, or at least 2"),
            ("--updates", self.updates, self.updates is None or 1 <= self.updates <= MOST_RELEASES, "at least 1"),
            ("--confidence", self.confidence, 0.5 <= self.confidence < 1, "from 0.5 to below 1"),
            ("--seed", self.seed, self.seed >= 0, "0 or more"),
            ("--clip-norm", self.clip_norm, _is_positive(self.clip_norm), "finite and positive"),
        )
        faults = [Fault(name, value, expected) for name, value, is_right, expected in rules if not is_right]
        if faults:
            raise ConfigError(faults)


@dataclass(frozen=True)
class Claim:
    """The most epsilon that is claimed for so many releases.

    `claimed`: the accountant's total, None if nothing is claimed; `printed`: then that of the mechanism which the
    paper's proof is about, for the paper's literal reading; `note`: how it was counted, or why there is none.
    """

    releases: int
    claimed: float | None
    printed: float | None
    note: str

    def verdict(self, measured: float) -> Verdict:
        """Whether this measured epsilon contradicts the claim; where there is none, what the paper's proof says."""
        most = self.printed if self.claimed is None else self.claimed
        if most is None:
            return "no claim"
        return "refuted" if measured > most else "stands"

    def content(self, measured: float) -> dict[str, Any]:
        """As it stands in `audit.json`."""
        return {
            "releases": self.releases,
            "epsilon_claimed": self.claimed,
            "epsilon_printed": self.printed,
            "note": self.note,
            "epsilon_measured": measured,
            "verdict": self.verdict(measured),
        }


@dataclass(frozen=True)
class Finding:
    """What trials with one canary found; `reach`: how far it moved the average, as a share of the sensitivity."""

    event: Event
    dp_delta: float
    clip_norm: float
    reach: float
    claim: Claim
    measured: Measured

    @property
    def verdict(self) -> Verdict:
        """Whether the claim was contradicted."""
        return self.claim.verdict(self.measured.epsilon)


@dataclass(frozen=True)
class Whole:
    """What runs with many canaries found."""

    claim: Claim
    guessed: Guessed

    @property
    def verdict(self) -> Verdict:
        """Whether the claim was contradicted."""
        return self.claim.verdict(self.guessed.epsilon)


@dataclass(frozen=True)
class Audit:
    """An audit of one edge of an experiment; `whole` None if no runs were asked for, or their length is not known."""

    name: str
    digest: str
    request: Request
    one: Finding
    whole: Whole | None

    @property
    def is_refuted(self) -> bool:
        """Whether a claim of this project was contradicted."""
        found = [part for part in (self.one, self.whole) if part is not None]
        return any(part.claim.claimed is not None and part.verdict == "refuted" for part in found)

    def content(self) -> dict[str, Any]:
        """As it stands in `audit.json`."""
        one, whole = self.one, self.whole
        counts = {name: value for name, value in asdict(one.measured).items() if name != "epsilon"}
        return {
            "experiment": self.name,
            "digest": self.digest,
            "edge": self.request.edge,
            "seed": self.request.seed,
            "confidence": self.request.confidence,
            "dp_delta": one.dp_delta,
            "adjacency": one.event.adjacency,
            "event": one.event.model_dump(mode="json", exclude_none=True),
            "clip_norm": one.clip_norm,
            "reach": one.reach,
            "one": {**one.claim.content(one.measured.epsilon), **counts},
            "whole": None if whole is None else {**whole.claim.content(whole.guessed.epsilon), **_coins(whole.guessed)},
        }

    def write(self, folder: Path) -> Path:
        """Writes `audit.json` into this folder.

        Raises:
            RecordError: it cannot be written.
        """
        path = folder / FILE
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(self.content(), indent=2) + "\n", encoding="utf-8")
        except OSError as error:
            raise RecordError(f"audit: {path}: {error}: expected a folder that can be written") from error
        return path


def _coins(guessed: Guessed) -> dict[str, int]:
    return {"canaries": guessed.canaries, "guesses": guessed.guesses, "right": guessed.right}


def _is_positive(value: float | None) -> bool:
    return value is None or (math.isfinite(value) and value > 0)
