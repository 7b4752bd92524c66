"""The cloud half of every algorithm: the one table where an algorithm's name meets its controller.

All of family 1 have the same node; they differ in the controller, and each controller has settings of its own
beside those of the node. Both are read from `algorithm.cloud`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cloud.algorithms import controllers, mapa
from cloud.controller import Controller, Setting
from common.errors import ConfigError, Fault
from common.experiment import Experiment
from common.section import Section


@dataclass(frozen=True)
class Algorithm:
    """`settings`: what the controller reads; `build`: makes it; `most_edges`: where the algorithm has a limit."""

    settings: type[Section]
    build: Callable[[Setting, Any], Controller]
    most_edges: int | None = None


ALGORITHMS: Mapping[str, Algorithm] = {
    "csgd": Algorithm(controllers.PlainSettings, controllers.build_csgd, most_edges=1),
    "asgd": Algorithm(controllers.PlainSettings, controllers.build_asgd),
    "audp": Algorithm(controllers.NoisySettings, controllers.build_audp),
    "mapa": Algorithm(mapa.Settings, mapa.build),
}


def find(experiment: Experiment) -> Algorithm:
    """The experiment's algorithm.

    Raises:
        ConfigError: there is none of this name.
    """
    name = experiment.algorithm.name
    if name not in ALGORITHMS:
        raise ConfigError(Fault("algorithm.name", name, f"one of {', '.join(sorted(ALGORITHMS))}"))
    return ALGORITHMS[name]
