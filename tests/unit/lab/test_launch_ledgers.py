"""Where a launch lets edges keep their ledgers: by default one folder for each way of dealing the data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from harness import experiment

from lab.launch import Request, _ledger, holders_of

FILE = Path("x.yaml")


def test_secure_ledgers_outlive_the_run() -> None:
    folder = _ledger(Request(FILE), plan := experiment(privacy__randomness="secure"))
    assert folder == str(Path("ledgers").absolute() / holders_of(plan))


def test_those_of_simulated_privacy_belong_to_the_run_unless_somebody_says_where() -> None:
    plan = experiment(privacy__randomness="reproducible")
    assert _ledger(Request(FILE), plan) is None
    for randomness in ("secure", "reproducible"):
        plan = experiment(privacy__randomness=randomness)
        assert _ledger(Request(FILE, ledger=Path("/kept")), plan) == "/kept"


@pytest.mark.parametrize(
    ("changes", "is_same"),
    [
        ({"privacy__noise_multiplier": 9.0, "stop__updates": 5, "model": {"name": "mlp"}, "name": "other"}, True),
        ({"data__root": "/elsewhere"}, True),
        ({"seed": 4}, False),
        ({"data__edges": 4}, False),
        ({"data__partition": {"kind": "dirichlet", "alpha": 0.5}}, False),
        ({"data__partition": {"alpha": 0.9, "shards_per_edge": 3}}, True),  # which an even deal does not read
        ({"data__classes": "halves"}, False),
    ],
)
def test_the_same_holders_have_the_same_folder(changes: dict[str, Any], is_same: bool) -> None:
    assert (holders_of(experiment(**changes)) == holders_of(experiment())) == is_same


@pytest.mark.parametrize(
    ("changes", "other", "is_same"),
    [
        ({"data__partition": {"kind": "own"}}, {"seed": 4, "data__edges": 2}, True),  # files of their own
        ({"data__edges": 1}, {"seed": 4, "data__partition": {"kind": "dirichlet", "alpha": 0.1}}, True),  # all records
        ({"data__partition": {"kind": "dirichlet"}}, {"data__partition": {"kind": "dirichlet", "alpha": 0.1}}, False),
        ({"data__partition": {"kind": "shards"}}, {"seed": 4}, False),
    ],
)
def test_what_has_no_part_in_the_deal_does_not_begin_a_new_count(
    changes: dict[str, Any], other: dict[str, Any], is_same: bool
) -> None:
    assert (holders_of(experiment(**changes)) == holders_of(experiment(**changes | other))) == is_same
