"""What one edge is given to join a run: the experiment, the authority's certificate, its own certificate and key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from common.errors import ConfigError, Fault
from common.experiment import Experiment

SETUP = "/run/mapa"
"""Where an edge's container has them."""
EXPERIMENT = "experiment.yaml"
_CERTS = "certs"


def credentials(certs: Path | None, edges: Sequence[str]) -> Mapping[str, Mapping[str, bytes]]:
    """For each edge its files, by name; nobody else's are among them. Empty without certificates.

    Raises:
        ConfigError: one fault for each file that is missing.
    """
    if certs is None:
        return {edge: {} for edge in edges}
    faults: list[Fault] = []
    found: dict[str, dict[str, bytes]] = {}
    for edge in edges:
        files = found[edge] = {}
        for name in ("ca.crt", f"{edge}.crt", f"{edge}.key"):
            try:
                files[f"{_CERTS}/{name}"] = (certs / name).read_bytes()
            except OSError as error:
                cure = "mapa certs init" if name == "ca.crt" else f"mapa certs edge {edge}"
                faults.append(Fault(str(certs / name), error.strerror, f"a file ({cure} makes it)"))
    if faults:
        raise ConfigError({fault.path: fault for fault in faults}.values())
    return found


def program_arguments(experiment: Experiment, broker: str, run: str, node: str, *, has_certs: bool) -> Sequence[str]:
    """What the program of a node is called with in its container."""
    arguments = ["--experiment", f"{SETUP}/{EXPERIMENT}", "--broker", broker, "--run", run, "--out", f"/results/{run}"]
    return [*arguments, *(["--certs", f"{SETUP}/{_CERTS}"] if has_certs else ["--plain"])]


def edge_arguments(experiment: Experiment, broker: str, run: str, edge: str, *, has_certs: bool) -> Sequence[str]:
    """The same for an edge."""
    ledger = ["--ledger", "/ledger"] if experiment.privacy.randomness == "secure" else []
    return [*program_arguments(experiment, broker, run, edge, has_certs=has_certs), "--id", edge, *ledger]
