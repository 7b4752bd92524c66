"""The programs of cloud and edges as processes of one run, for tests that kill and restart them."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml
from harness import experiment
from toys import wait_for

from common.address import Address
from common.experiment import Experiment
from common.records import read


class Programs:
    """Processes of one run, in one folder."""

    def __init__(self, folder: Path, plan: Experiment, broker: Address) -> None:
        self.folder, self.plan, self.broker = folder, plan, broker
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.run = f"test-{secrets.token_hex(4)}"  # an id is for one run, and the broker serves many
        self.file = folder / "experiment-given.yaml"
        self.file.write_text(yaml.safe_dump(plan.model_dump(mode="json")))

    def start(self, name: str, *more: str, environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        role = ["cloud"] if name == "cloud" else ["edge", "--id", name]
        command = [sys.executable, "-m", *role, "--experiment", str(self.file), "--broker", str(self.broker)]
        command += ["--run", self.run, "--out", str(self.folder / "run"), *more]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(command, stderr=log, env=environment)
        return self.processes[name]

    def start_all(self) -> None:
        for name in ("cloud", "edge-0001", "edge-0002", "edge-0003"):
            self.start(name)

    def rows(self, kind: str, node: str = "cloud") -> list[dict[str, Any]]:
        path = self.folder / "run" / (node if node == "cloud" else f"edges/{node}") / "records.jsonl"
        return [row for row in read(path) if row["kind"] == kind] if path.exists() else []

    def reach(self, updates: int) -> None:
        """Waits until so many were applied; those that came too late to be are not among them."""
        wait_for(lambda: sum(row["applied"] for row in self.rows("update")) >= updates, 90.0)

    def end(self) -> dict[str, int]:
        """Exit codes, once all have ended."""
        return {name: process.wait(120.0) for name, process in self.processes.items()}

    def summary(self) -> dict[str, Any]:
        content = json.loads((self.folder / "run" / "summary.json").read_text())
        assert isinstance(content, dict)
        return content

    def check(self, updates: int) -> None:
        """The run is complete, and the records prove that no update counted twice."""
        assert self.summary()["state"] == "complete"
        assert self.summary()["updates"] == updates
        counted = Counter((row["edge"], row["ticket"]) for row in self.rows("update"))
        assert max(counted.values()) == 1
        applied = [row["update"] for row in self.rows("update") if row["applied"]]
        assert applied == list(range(1, updates + 1))


def plan_of(updates: int = 1500, **changes: Any) -> Experiment:
    algorithm = {"name": "mapa", "batch_size": 12, "edge": {"patience": 2.0}}
    return experiment(**({"algorithm": algorithm, "stop__updates": updates, "evaluation__every": 500} | changes))


Start = Callable[[Experiment, Address], Programs]
