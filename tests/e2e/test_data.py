"""Data sets of the host in containers: mounted read-only, under the path that the experiment names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stack import Stack

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]


def test_mnist_is_read_from_the_hosts_folder(tmp_path: Path, shared_data: Path) -> None:
    settings = {
        "EXPERIMENT": "experiments/mnist-lr-audp.yaml",
        "DATA": str(shared_data),
        "EDGES": "2",
        "MAPA_RUN": "mnist",
        "MAPA_ARGS": "--set stop.updates=60",
    }
    stack = Stack("mapa-test-data", tmp_path / "results", settings)
    stack.remove()
    try:
        assert stack.start("docker", "compose", "up", "--build").wait(timeout=500) == 0, stack.story()
        summary = json.loads((stack.results / "mnist" / "summary.json").read_text())
        assert (summary["dataset"], summary["state"], summary["updates"]) == ("mnist", "complete", 60), stack.story()
        assert [edge["samples"] for edge in summary["edges"]] == [30_000, 30_000]
    finally:
        stack.remove()
