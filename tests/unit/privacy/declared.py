"""Experiments that declare some privacy, for the tests here."""

from __future__ import annotations

from typing import Any

from common.experiment import Experiment, parse

EDGE = "edge-0001"


def declare(rigour: str = "rigorous", batch_size: int = 4, **privacy: Any) -> Experiment:
    """An experiment with this privacy section."""
    return parse(
        {
            "name": "toy",
            "data": {"name": "digits"},
            "model": {"name": "softmax"},
            "algorithm": {"name": "mapa", "rigour": rigour, "batch_size": batch_size},
            "privacy": privacy,
            "stop": {"updates": 1},
        }
    )
