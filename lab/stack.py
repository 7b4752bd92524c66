"""The services of docker-compose.yml as a stack for Docker Swarm, with a service and secrets of its own for each edge.

Compose can tell replicas apart by their address and sign for each (docs/decisions/0008); a Swarm gives its secrets to
whole services, so here every edge is one. What Swarm does not know (depends_on, build, profiles, restart) is left out:
nodes wait for the broker by themselves, and images have to be on every node, or in a registry.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from common.errors import DeployError, RecordError
from common.experiment import Experiment, edge_ids
from common.node import CLOUD
from common.trust.settings import PORT, settings
from lab.credentials import EXPERIMENT, SETUP, credentials, edge_arguments, program_arguments

COMPOSE = Path(__file__).parents[1] / "docker-compose.yml"
GUARD = "/run/guard"
"""Where the broker finds its files."""
BROKER = "broker.mapa.internal"
BROKER_USER, NODE_USER = "1883", "10001"
BROKER_FILES = ("ca.crt", "broker.crt", "broker.key", "acl", "acl.health", "crl.pem")
_KEPT = ("cap_drop", "init", "logging", "read_only", "stop_grace_period", "healthcheck", "image")
"""What is taken from the services of the compose file."""


@dataclass
class _Files:
    """Files of this machine that the Swarm hands to services, by the name that it knows them by."""

    secrets: dict[str, Path] = field(default_factory=dict)
    configs: dict[str, Path] = field(default_factory=dict)

    def secret(self, name: str, path: Path, target: str, user: str) -> dict[str, Any]:
        """What a service has to say to get it, for its user only."""
        self.secrets[name] = path.absolute()
        return {"source": name, "target": target, "uid": user, "gid": user, "mode": 0o400}

    def config(self, name: str, path: Path, target: str) -> dict[str, Any]:
        """The same for what is no secret."""
        self.configs[name] = path.absolute()
        return {"source": name, "target": target}


def write_stack(experiment: Experiment, run: str, certs: Path, images: Mapping[str, str], folder: Path) -> Path:
    """Writes the stack file and what it refers to; the file, for `docker stack deploy -c`.

    Args:
        experiment: with all its defaults.
        run: its id.
        certs: the folder of `mapa certs`.
        images: of "cloud" and "edge".
        folder: where.

    Raises:
        ConfigError: a certificate is missing.
        DeployError: the compose file cannot be read.
        RecordError: the folder cannot be written.
    """
    edges = edge_ids(experiment.data.edges)
    credentials(certs, [CLOUD, *edges])
    services, files = _services(), _Files()
    content = {EXPERIMENT: yaml.safe_dump(experiment.model_dump(mode="json"), sort_keys=False)}
    content["mosquitto.conf"] = settings(GUARD)
    named = {"broker": _broker(services["broker"], files, certs, folder)}
    for name in (CLOUD, *edges):
        kind = "edge" if name != CLOUD else CLOUD
        words = edge_arguments if name != CLOUD else program_arguments
        command = words(experiment, f"{BROKER}:{PORT}", run, name, has_certs=True)
        named[name] = _node(services[kind] | {"image": images[kind]}, files, name, certs, command)
        named[name]["configs"] = [files.config("experiment", folder / EXPERIMENT, f"{SETUP}/{EXPERIMENT}")]
    whole = {
        "version": "3.8",
        "services": named,
        "volumes": {"results": {}, "ledger": {}, "data": {}},
        "secrets": {name: {"file": str(path)} for name, path in files.secrets.items()},
        "configs": {name: {"file": str(path)} for name, path in files.configs.items()},
    }
    content["stack.yaml"] = yaml.safe_dump(whole, sort_keys=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in content.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise RecordError(f"{folder}: {error.strerror}: expected a folder that can be written") from error
    return folder / "stack.yaml"


def _services() -> Mapping[str, dict[str, Any]]:
    """What services of the compose file have in common with ours."""
    command = ["docker", "compose", "--file", str(COMPOSE), "config", "--format", "json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - our own words
        found = json.loads(done.stdout)["services"]
    except (OSError, subprocess.CalledProcessError, ValueError, KeyError) as error:
        said = getattr(error, "stderr", None) or error
        raise DeployError(f"{COMPOSE.name}: {said}: expected docker compose to read it") from error
    return {name: _kept(service) for name, service in found.items()}


def _kept(service: Mapping[str, Any]) -> dict[str, Any]:
    """Of one service; a Swarm knows memory file systems as volumes only."""
    memory = [{"type": "tmpfs", "target": target} for target in service.get("tmpfs", ())]
    return {key: service[key] for key in _KEPT if key in service} | {"volumes": memory}


def _broker(service: dict[str, Any], files: _Files, certs: Path, folder: Path) -> dict[str, Any]:
    owned = [
        files.secret(f"broker-{name.replace('.', '-')}", certs / "broker" / name, f"{GUARD}/{name}", BROKER_USER)
        for name in BROKER_FILES
    ]
    return service | {
        "user": f"{BROKER_USER}:{BROKER_USER}",
        "command": ["mosquitto", "-c", f"{GUARD}/mosquitto.conf"],
        "secrets": owned,
        "configs": [files.config("mosquitto", folder / "mosquitto.conf", f"{GUARD}/mosquitto.conf")],
        "networks": {"default": {"aliases": [BROKER]}},
        "ports": [{"target": PORT, "published": PORT, "mode": "host"}],
        "deploy": _deploy(),
    }


def _node(service: dict[str, Any], files: _Files, name: str, certs: Path, command: Sequence[str]) -> dict[str, Any]:
    owned = {"ca-crt": "ca.crt", f"{name}-crt": f"{name}.crt", f"{name}-key": f"{name}.key"}
    return service | {
        "command": list(command),
        "secrets": [
            files.secret(known, certs / file, f"{SETUP}/certs/{file}", NODE_USER) for known, file in owned.items()
        ],
        "volumes": [*service["volumes"], "results:/results", "ledger:/ledger", "data:/app/data"],
        "deploy": _deploy(),
    }


def _deploy() -> dict[str, Any]:
    """One container, found by its own address: a run has no use for virtual ones, and not every kernel has them."""
    return {"endpoint_mode": "dnsrr", "restart_policy": {"condition": "on-failure", "max_attempts": 3}}
