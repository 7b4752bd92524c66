"""The edge half of every algorithm: the one table where an algorithm's name meets what an edge does for it.

All of family 1 have the same edge; they differ in whether their controller, at the cloud, asks private probes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from common.errors import ConfigError, Fault
from common.experiment import Experiment


def _never(experiment: Experiment) -> bool:
    return False


def _closed_loop(experiment: Experiment) -> bool:
    """MAPA's default controller closes the loop on probes; the file both halves agree on names it."""
    chosen = experiment.algorithm.cloud.get("controller")
    return experiment.algorithm.rigour == "rigorous" and chosen in (None, "closed_loop")


@dataclass(frozen=True)
class Algorithm:
    """`is_private`: releases are noised. `asks_probes`: whether the edge has to set noise aside for probes."""

    is_private: bool
    asks_probes: Callable[[Experiment], bool]


ALGORITHMS: Mapping[str, Algorithm] = {
    "csgd": Algorithm(False, _never),
    "asgd": Algorithm(False, _never),
    "audp": Algorithm(True, _never),
    "mapa": Algorithm(True, _closed_loop),
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
