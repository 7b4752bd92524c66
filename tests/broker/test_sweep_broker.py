"""Points of a sweep that run on a real broker: as in a simulation, a result is what the cloud itself ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from harness import experiment

from lab.grid import grid_of
from lab.sweep import Sweep, run_tasks
from lab.workers import Alone

pytestmark = pytest.mark.broker


def test_points_run_on_a_broker_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wild: dict[str, Any] = {"gradient_std": 1e-6}  # with the weight decay, such a model overflows in a few updates
    plan = experiment(
        algorithm={"name": "asgd", "cloud": wild},
        privacy={"mechanism": "none", "randomness": "secure"},
        model__l2=1.0,
        data__edges=2,
        stop={"updates": 40},
        evaluation__every=20,
    )
    grid = grid_of({"algorithm.cloud.smoothness": [10.0, 1e-6]})
    sweep = Sweep(plan.model_dump(mode="json"), (), grid, tmp_path / "sweep", on_broker=True)
    sweep.claim()
    assert len(list(run_tasks(sweep.missing(), Alone()))) == 2
    good, bad = sweep.results()
    assert (good.summary["state"], good.summary["updates"]) == ("complete", 40)
    assert [score["updates"] for score in good.curve][:2] == [0, 20]
    assert bad.summary["state"] == "failed"
    assert bad.summary["reason"].startswith("diverged")
    assert [path.name for path in tmp_path.iterdir()] == ["sweep"], "no ledger is kept of what spends nothing"
    assert sweep.missing() == []
