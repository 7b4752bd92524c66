"""A besieged cloud: hostile bytes and messages, through the shell's own way in, change nothing that they must not.

The full numbers, and a siege over a real broker, are in `bench/hostile.py`.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    path = Path(__file__).parents[2] / "bench" / "hostile.py"
    spec = importlib.util.spec_from_file_location("bench_hostile", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["bench_hostile"] = module  # where its dataclasses look for their names
    spec.loader.exec_module(module)
    return module


def test_a_siege_leaves_no_trace_in_the_model(bench: ModuleType) -> None:
    sieges = bench.besieged_in_memory(garbage=1000, messages=400, updates=50)
    assert [siege.said for siege in sieges.values()] == [0, 1000, 400, 1000, 400]
    assert sieges["garbage, all read"].rows["dropped"] < 20, "trouble is told now and then only"
    for name in ("garbage, as shipped", "messages, as shipped"):
        assert sieges[name].muted == sieges[name].rows["muted"] == sieges[name].rows["unread"] == 1
        assert sieges[name].size < 150_000


def test_every_kind_of_hostile_message_is_tried_and_none_counts(bench: ModuleType) -> None:
    hostility = bench.Hostility(bench.known(), bench.stream(1, "kinds"))
    said = bench.besiege(hostility.messages(), 20 * len(hostility.kinds), bench.PATIENT, 20)
    assert said.rows["refused"] > 0
    assert said.rows["dropped"] > 0
    assert said.rows["update"] == 20


def test_a_model_that_is_changed_is_seen(bench: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: an update that an honest edge could have sent counts, and the comparison tells."""

    def bribed(hostility: object) -> object:
        while True:
            for ticket in range(1, 60):
                yield hostility._say(hostility._update(values=(1e-3,), ticket=ticket))  # type: ignore[attr-defined]

    monkeypatch.setattr(bench.Hostility, "messages", bribed)
    with pytest.raises(SystemExit, match="messages, all read: another model"):
        bench.besieged_in_memory(garbage=0, messages=1200, updates=20)
