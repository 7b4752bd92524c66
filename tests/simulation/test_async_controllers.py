"""Whole private runs on digits, five edges in turn: what the controllers reach, and from which constants.

Noise multiplier 2 at 12 of 287 records and 2000 updates of each edge is a total epsilon of 4.8; MAPA's probes are paid
out of the same total (2.089 and 15.5).
"""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference.digits import Federation

import common.data
from cloud.algorithms.controllers import NoisySettings, build_audp
from cloud.algorithms.mapa import Settings, build
from cloud.controller import Setting

UPDATES = 10_000
SEEDS = (1, 2)
TRAINING, PLANNED, PROBING = 2.0, 2.08917425, 15.49122055


def public(noise_multiplier: float, smoothness: float, clip_norm: float) -> Setting:
    kappa = 650 * noise_multiplier**2 / 4
    bound = math.sqrt(2)
    return Setting(UPDATES, 5, 12, 650, kappa, 4, smoothness * 0.5, math.log(10), clip_norm * bound, bound)


@cache
def digits() -> dict[str, np.ndarray]:
    with np.load(Path(common.data.__file__).parent / "digits.npz") as content:
        return dict(content)


@cache
def audp(radius: float) -> float:
    """Mean accuracy over the seeds."""
    accuracies = []
    for seed in SEEDS:
        federation = Federation(digits(), TRAINING, PROBING, seed)
        controller = build_audp(public(TRAINING, 1, 1), NoisySettings(radius=radius))
        accuracies.append(federation.accuracy(federation.run(controller, UPDATES)))
    return float(np.mean(accuracies))


def mapa(
    smoothness: float = 1.0, clip_norm: float = 1.0, seeds: tuple[int, ...] = (1,), **settings: Any
) -> tuple[float, list[Federation]]:
    """Mean accuracy over the seeds, from constants that are wrong by these factors."""
    accuracies, federations = [], []
    for seed in seeds:
        federation = Federation(digits(), PLANNED, PROBING, seed)
        controller = build(public(PLANNED, smoothness, clip_norm), Settings.model_validate(settings))
        accuracies.append(federation.accuracy(federation.run(controller, UPDATES)))
        federations.append(federation)
    return float(np.mean(accuracies)), federations


@cache
def right() -> float:
    """Accuracy from the right constants."""
    return mapa()[0]


def test_mapa_is_above_default_audp_and_near_the_tuned_one_at_the_same_total() -> None:
    accuracy, federations = mapa(seeds=SEEDS)
    assert accuracy >= 0.87  # 0.903 over many seeds; a mean of two varies by 0.01
    assert audp(1.0) <= 0.87
    assert accuracy >= audp(1.0) + 0.04
    assert accuracy >= audp(30.0) - 0.02
    assert all(len(federation.probes) <= 24 for federation in federations)


@pytest.mark.parametrize(("smoothness", "clip_norm"), [(10, 1), (0.1, 1), (1, 10), (1, 0.1)])
def test_constants_wrong_by_ten_hardly_matter(smoothness: float, clip_norm: float) -> None:
    accuracy, _ = mapa(smoothness, clip_norm)
    assert accuracy >= right() - 0.05  # over seeds: 0.03 at most, 0.02 from a tenth of the clip norm, else none


@pytest.mark.parametrize("smoothness", [1e-5, 1e-7])
def test_a_start_that_diverges_recovers(smoothness: float) -> None:
    """The open loop is the control: it keeps to its constants, and stays below 0.5 and 0.2."""
    accuracy, _ = mapa(smoothness)
    assert accuracy >= 0.65
    lost, _ = mapa(smoothness, controller="literal")
    assert lost <= 0.6
