"""What was done in a run with trouble, what held at its end, and how it is told."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TextIO

import yaml
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cloud.results import write
from lab.chaos.scenario import Scenario, Step
from lab.chaos.schedule import content_of
from lab.invariants import Findings

WIDTH = 120
NOT_DONE, NOT_SIMULATED = "not done", "not simulated"


@dataclass
class Deed:
    """One step and what became of it. `begun`, `ended`: seconds on the scenario's clock, None if it never was."""

    step: Step
    begun: float | None = None
    ended: float | None = None
    said: list[str] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        """Whether it was begun, and everybody was hit."""
        return self.begun is not None and not any(NOT_DONE in text or NOT_SIMULATED in text for text in self.said)

    def note(self, text: str) -> None:
        """Adds what there is to say, if anything."""
        if text:
            self.said.append(text)


@dataclass
class Story:
    """All of it. `where`: in containers, or under a virtual clock."""

    scenario: Scenario
    run: str
    where: str
    deeds: Sequence[Deed]
    faults: list[str] = field(default_factory=list)
    findings: Findings = field(default_factory=Findings)
    seconds: float = 0.0

    @property
    def code(self) -> int:
        """The exit code: 0 if all held and all was done."""
        return 1 if self.faults else 0

    def close(self, findings: Findings, others: Sequence[str]) -> None:
        """Puts together what was found. Steps of the file have to be done; those by chance may come too late."""
        self.findings = findings
        known = [step for step in self.scenario.steps if step.who != "any"]
        for deed in self.deeds:
            is_promised = self.scenario.chance is None or deed.step in known
            if is_promised and not deed.is_done and not any(NOT_SIMULATED in text for text in deed.said):
                self.faults.append(f"step at {deed.step.at:g}, {deed.step.text()}: not done: expected the run to last")
        self.faults += [*findings.faults, *others]

    def write(self, folder: Path) -> None:
        """Writes chaos.json, and scenario.yaml, which repeats it.

        Raises:
            RecordError: they cannot be written.
        """
        steps = [deed.step for deed in self.deeds]
        rows = []
        for deed in self.deeds:
            row: dict[str, Any] = deed.step.model_dump(mode="json", by_alias=True, exclude_none=True)
            rows.append({**row, "begun": deed.begun, "ended": deed.ended, "done": deed.is_done, "said": deed.said})
        content = {
            "scenario": self.scenario.name,
            "run": self.run,
            "where": self.where,
            "seed": self.scenario.seed,
            "steps": rows,
            "faults": self.faults,
            "findings": asdict(self.findings),
            "seconds": self.seconds,
        }
        write(folder / "chaos.json", json.dumps(content, indent=2) + "\n")
        write(folder / "scenario.yaml", yaml.safe_dump(content_of(self.scenario, steps), sort_keys=False))

    def tell(self, folder: Path, stream: TextIO) -> None:
        """A table of the steps, and what held."""
        table = Table(box=box.SIMPLE, title=f"{self.scenario.name}: {self.run}, {self.where}", title_justify="left")
        for name in ("at", "begun", "ended", "what", "remarks"):
            table.add_column(name, justify="right" if name in ("at", "begun", "ended") else "left")
        for deed in self.deeds:
            times = ("-" if value is None else f"{value:.1f}" for value in (deed.step.at, deed.begun, deed.ended))
            remarks = "; ".join(deed.said) or ("" if deed.is_done else NOT_DONE)
            table.add_row(*times, Text(deed.step.text()), Text(remarks))
        Console(file=stream, width=None if stream.isatty() else WIDTH, highlight=False).print(table)
        found, done = self.findings, sum(deed.is_done for deed in self.deeds)
        counts = f"{found.updates:,} updates applied, {found.releases:,} releases ({found.unused} not counted)"
        print(f"steps:      {done} of {len(self.deeds)} done", file=stream)
        print(f"records:    {counts}, the cloud restarted {found.restarts} times", file=stream)
        print(f"invariants: {'all hold' if not self.faults else f'{len(self.faults)} broken'}", file=stream)
        for fault in self.faults:
            print(f"  {fault}", file=stream)
        print(f"folder:     {folder}", file=stream)
