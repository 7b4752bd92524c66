"""Run folders made up for tests of the report: the rows a cloud writes, with numbers that follow a simple curve."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from common.seeds import stream

START = 1_700_000_000.0
EVENT = {"mechanism": "gaussian", "noise_multiplier": 2.0, "sampling": "poisson", "sampling_rate": 12 / 287,
         "dimension": 650}  # fmt: skip


def rows(updates: int = 1000, edges: int = 3, private: bool = True, speed: float = 400.0) -> Iterator[dict[str, Any]]:
    """The cloud's rows of one run, oldest first."""
    rng = stream(7, "synthetic", updates, edges)
    names = [f"edge-{place:04d}" for place in range(1, edges + 1)]

    def row(kind: str, at: float, **fields: Any) -> dict[str, Any]:
        return {"run": "synthetic", "node": "cloud", "time": START + at / speed, "kind": kind, **fields}

    for name in names:
        yield row("joined", 0, edge=name, samples=287, event=EVENT, boot=f"b-{name}")
    yield row("begin", 0, kappa=650.0)
    for update in range(1, updates + 1):
        if (update - 1) % (updates // 4) == 0:
            stage = 1 + (update - 1) // (updates // 4)
            numbers = {"sensitivity": 0.24 * 0.7**stage, "clip_norm": 1.4 * 0.7**stage, "learning_rate": 0.5 / stage}
            yield row("stage", update - 1, stage=stage, from_update=update - 1, **numbers)
        late = int(rng.poisson(edges - 1))
        edge = names[update % edges]
        yield row("update", update, edge=edge, ticket=update, version=update - late, staleness=late, stage=1,
                  applied=True, update=update)  # fmt: skip
        if update % (updates // 20) == 0:
            metrics = {"releases": float(update // edges)} | ({"epsilon": 2.1} if private else {})
            yield row("report", update, edge=edge, metrics=metrics)
            done = update / updates
            yield row("evaluation", update, version=update, accuracy=0.93 - 0.8 * math.exp(-6 * done),
                      loss=0.25 + 2.0 * math.exp(-5 * done))  # fmt: skip
    note = "one record added or removed" if private else "no privacy"
    for name in names:
        yield row("bye", updates, edge=name, releases=updates // edges + 1, epsilon=4.78 if private else None,
                  dp_delta=1e-5 if private else None, note=note, reason="stop", boot=f"b-{name}")  # fmt: skip
    yield row("end", updates, reason="all updates applied", updates=updates, failed=False)


def write_run(
    folder: Path, name: str = "synthetic", summary: bool = True, randomness: str = "secure", **settings: Any
) -> Path:
    """A run folder with these rows; without a summary it looks like one still running."""
    (folder / "cloud").mkdir(parents=True)
    private = settings.get("private", True)
    experiment = {
        "name": name,
        "data": {"name": "digits", "edges": settings.get("edges", 3)},
        "model": {"name": "softmax"},
        "algorithm": {"name": "mapa" if private else "asgd", "rigour": "rigorous"},
        "privacy": {"mechanism": "none"},
        "stop": {"updates": settings.get("updates", 1000)},
    }
    if private:
        experiment["privacy"] = {"mechanism": "gaussian", "noise_multiplier": 2.0, "randomness": randomness}
    (folder / "experiment.yaml").write_text(yaml.safe_dump(experiment))
    (folder / "run.json").write_text(json.dumps({"run": name, "digest": "0" * 64, "seed": 1}))
    with (folder / "cloud" / "records.jsonl").open("w") as file:
        for row in rows(**settings):
            file.write(json.dumps(row) + "\n")
    if summary:
        write_summary(folder, [4.78 if private else None] * settings.get("edges", 3))
    return folder


def write_summary(folder: Path, totals: list[float | None], adjacency: str = "add_remove", **changes: Any) -> None:
    """A summary with these totals of the edges, whatever the records say."""
    edges = [
        {"id": f"edge-{place:04d}", "samples": 287, "updates": 333, "releases": 334, "epsilon_per_release": 0.04,
         "epsilon_total": total, "dp_delta": 1e-5, "note": "Gaussian by PLD" if total else "ledger restarted"}
        for place, total in enumerate(totals, start=1)
    ]  # fmt: skip
    content = {"state": "complete", "algorithm": "mapa", "dataset": "digits", "model": "softmax", "updates": 1000,
               "seconds": 2.5, "test_accuracy": 0.928, "test_loss": 0.26, "dp": "established", "edges": edges,
               "privacy": {"unit": "one record", "adjacency": adjacency, "note": "made up"}}  # fmt: skip
    (folder / "summary.json").write_text(json.dumps({**content, **changes}))
