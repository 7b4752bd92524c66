"""The compose project of a run with trouble: the usual services, and what it takes to steer and to keep them.

Beside broker, cloud and edges run a keeper and, where lines are to be slowed, a relay. The volumes are of limited size
and in memory, so that a full disk is never the host's; such a volume lasts as long as somebody holds it, which is what
the keeper does, and whoever wants to see what is in it, or to fill it, asks the keeper. The relay takes the broker's
name: nodes do not know of it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from cloud.results import write
from common.errors import ConfigError, DeployError, Fault
from common.experiment import Experiment

FILE = "docker-compose.yml"
VOLUMES = ("results", "records", "ledger")
"""Of the cloud; of the edges; of their ledgers."""
OWNER = 10001
"""The user of the programs in the images."""
BEHIND = "behind.mapa.internal"
"""The broker's name where the relay has taken its own."""
_IMAGE = "eclipse-mosquitto:2"
_TIMEOUT = 900


@dataclass(frozen=True)
class Project:
    """`root`: the folder of docker-compose.yml; `folder`: that of the run; `environment`: of the one who asks."""

    name: str
    root: Path
    folder: Path
    environment: Mapping[str, str]

    def prepare(self, experiment: Experiment, run: str, disk: int, *, has_relay: bool) -> None:
        """Writes what the containers get from here.

        Raises:
            ConfigError: this is not the folder of the project.
            RecordError: a file cannot be written.
        """
        if not (self.root / FILE).is_file():
            raise ConfigError(Fault("--project", str(self.root), f"the project's folder, with {FILE}"))
        self.clocks.mkdir(parents=True, exist_ok=True)
        content = yaml.safe_dump(experiment.model_dump(mode="json"), sort_keys=False)
        write(self.setup / "experiment.yaml", content)
        write(self.override, _yaml(self, experiment, run, disk, has_relay=has_relay))
        for path in (self.setup, self.clocks):
            path.chmod(0o755)
        (self.setup / "experiment.yaml").chmod(0o644)

    @property
    def setup(self) -> Path:
        """What the containers can see of the host."""
        return self.folder / "setup"

    @property
    def clocks(self) -> Path:
        """A file for each container whose clock is wrong."""
        return self.setup / "clocks"

    @property
    def override(self) -> Path:
        """What is different from the usual project."""
        return self.folder / "compose.yaml"

    def up(self) -> None:
        """Builds and starts everything.

        Raises:
            DeployError: something could not be.
        """
        self._compose("up", "--build", "--detach", "keeper", *self.nodes)

    @property
    def nodes(self) -> Sequence[str]:
        """The services that make the run."""
        return ("broker", "cloud", "edge")

    def down(self) -> None:
        """Removes everything, with the volumes.

        Raises:
            DeployError: something is left.
        """
        self._compose("--profile", "*", "down", "--volumes", "--remove-orphans", "--timeout", "2")

    def _compose(self, *arguments: str) -> None:
        files = os.pathsep.join(str(path.absolute()) for path in (self.root / FILE, self.override))
        own = {"COMPOSE_PROJECT_NAME": self.name, "COMPOSE_FILE": files, "COMPOSE_PATH_SEPARATOR": os.pathsep}
        try:
            done = subprocess.run(  # noqa: S603 - the commands of this file
                ["docker", "compose", *arguments],  # noqa: S607 - wherever it is installed
                cwd=self.root,
                env={**_plain(self.environment), **own},
                capture_output=True,
                text=True,
                check=False,
                timeout=_TIMEOUT,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise DeployError(f"docker compose {arguments[0]}: {error}: expected Docker with Compose v2") from error
        if done.returncode:
            said = " / ".join(line.strip() for line in done.stderr.splitlines()[-8:] if line.strip())
            raise DeployError(f"docker compose {' '.join(arguments[:2])}: {said}: expected it to work")


def _plain(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without what would make it another run."""
    other = ("CERTS", "COMPOSE_", "MAPA_", "MQTT_", "EDGE", "EXPERIMENT", "LEDGER", "RESULTS", "BROKER_")
    return {name: value for name, value in environment.items() if not name.startswith(other)}


def _yaml(project: Project, experiment: Experiment, run: str, disk: int, *, has_relay: bool) -> str:
    programs = f"{(project.root / 'deploy/chaos').absolute()}:/chaos:ro"
    node: dict[str, Any] = {
        "environment": {
            "EXPERIMENT": "/setup/experiment.yaml",
            "MAPA_RUN": run,
            "PYTHONPATH": "/chaos",
            "MAPA_CLOCKS": "/setup/clocks",
        },
        "volumes": [f"{project.setup.absolute()}:/setup:ro", programs],
    }
    edges = experiment.data.edges
    services: dict[str, Any] = {
        "broker": {"environment": {"BROKER_LINGER": "86400", "BROKER_PATIENCE": "86400"}},
        "cloud": {**node, "image": "mapa-cloud", "command": ["--run", run]},
        "edge": {**node, "image": "mapa-edge", "command": ["--ledger", "/ledger"], "deploy": {"replicas": edges}},
        "keeper": _keeper(),
    }
    volumes = {name: _limited(disk) for name in VOLUMES}
    text = yaml.safe_dump({"services": services, "volumes": volumes}, sort_keys=False)
    if not has_relay:
        return text
    relay = {
        **_confined(),
        "image": "mapa-edge",
        "entrypoint": ["python", "/chaos/relay.py", BEHIND],
        "volumes": [programs],
        "tmpfs": ["/tmp"],  # noqa: S108 - inside the container
        "healthcheck": {"disable": True},
        "depends_on": {"broker": {"condition": "service_healthy"}},
        "networks": {"default": {"aliases": ["broker.mapa.internal"]}},
    }
    services["relay"] = relay
    for name in ("cloud", "edge"):
        services[name] = {**services[name], "depends_on": {"relay": {"condition": "service_started"}}}
    text = yaml.safe_dump({"services": services, "volumes": volumes}, sort_keys=False)
    own_name = f"  broker:\n    networks: !override {{default: {{aliases: [{BEHIND}]}}}}\n"
    return text.replace("  broker:\n", own_name, 1)


def _keeper() -> dict[str, Any]:
    mounts = [f"{name}:/volumes/{name}" for name in VOLUMES]
    return {
        **_confined(),
        "image": _IMAGE,
        "user": f"{OWNER}:{OWNER}",
        "entrypoint": ["sleep", "1000000"],
        "volumes": mounts,
        "tmpfs": ["/mosquitto/data", "/mosquitto/log"],
        "network_mode": "none",
    }


def _confined() -> dict[str, Any]:
    return {
        "init": True,
        "read_only": True,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "stop_grace_period": "2s",
    }


def _limited(megabytes: int) -> dict[str, Any]:
    options = f"size={megabytes}m,uid={OWNER},gid={OWNER},mode=0755"
    return {"driver": "local", "driver_opts": {"type": "tmpfs", "device": "tmpfs", "o": options}}
