"""The manifests of deploy/kubernetes: what the schemas of Kubernetes allow, and what compose file and images say."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from common.experiment import load
from lab.credentials import edge_arguments, program_arguments
from lab.stack import GUARD, NODE_USER

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "deploy" / "kubernetes"
VERSIONS = ("1.29", "1.33", "1.37")
"""The oldest that somebody may still run, and the newest whose schemas the package has had when this was written."""
NODES = ("broker", "cloud", "edge")
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]


def resources() -> list[Any]:
    return [
        pytest.param(resource, id=f"{path.stem}-{resource['kind']}")
        for path in sorted(FOLDER.glob("*.yaml"))
        for resource in yaml.safe_load_all(path.read_text())
    ]


def pod_of(name: str) -> dict[str, Any]:
    found = [one for one in yaml.safe_load_all((FOLDER / f"{name}.yaml").read_text()) if "template" in one["spec"]]
    pod: dict[str, Any] = found[0]["spec"]["template"]["spec"]
    return pod


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("resource", resources())
def test_each_is_what_the_schemas_allow_and_a_misspelt_one_is_not(resource: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(resource, version, strict=True)
    wrong = copy.deepcopy(resource)
    wrong["spec"]["unheardOf"] = 1
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, version, strict=True)


@pytest.mark.parametrize("name", NODES)
def test_pods_are_confined_as_containers_are_by_compose(name: str) -> None:
    pod = pod_of(name)
    [container] = pod["containers"]
    user = int(NODE_USER) if name != "broker" else int(COMPOSE["broker"]["user"].split(":")[0])
    same = {key: pod["securityContext"][key] for key in ("runAsUser", "runAsGroup", "fsGroup")}
    assert same == dict.fromkeys(same, user)
    assert container["securityContext"] == {
        "readOnlyRootFilesystem": COMPOSE[name]["read_only"],
        "capabilities": {"drop": COMPOSE[name]["cap_drop"]},
        "allowPrivilegeEscalation": False,
    }
    # What a cluster adds by itself: a token for its interface, and variables such as BROKER_PORT.
    assert (pod["automountServiceAccountToken"], pod["enableServiceLinks"]) == (False, False)
    assert f"{pod['terminationGracePeriodSeconds']}s" == COMPOSE[name]["stop_grace_period"]


@pytest.mark.parametrize("name", NODES)
def test_each_volume_is_mounted_once_and_is_there(name: str) -> None:
    pod = pod_of(name)
    [container] = pod["containers"]
    assert [one["name"] for one in container["volumeMounts"]] == [one["name"] for one in pod["volumes"]]
    paths = {one["mountPath"] for one in container["volumeMounts"]}
    written = {path.split(":")[1] for path in COMPOSE[name]["volumes"] if path.split(":")[0].isalpha()}
    assert written - {"/mosquitto/guard"} <= paths, "all that compose gives a volume"
    assert set(COMPOSE[name]["tmpfs"]) <= paths


def test_health_is_asked_for_as_compose_and_images_do() -> None:
    own = [pod_of(name)["containers"][0]["readinessProbe"]["exec"]["command"] for name in NODES]
    assert own[0] == ["sh", "-c", COMPOSE["broker"]["healthcheck"]["test"][1].replace("$$", "$")]
    for name, command in zip(NODES[1:], own[1:], strict=True):
        said = re.search(r"HEALTHCHECK.*?CMD (\[.*?\])\n", (ROOT / f"Dockerfile.{name}").read_text(), re.DOTALL)
        assert said is not None
        assert command == yaml.safe_load(said[1])


def test_nodes_are_called_as_bundles_and_stacks_call_them() -> None:
    experiment = load(ROOT / "experiments" / "demo.yaml", ["privacy.randomness=secure"])
    cloud = program_arguments(experiment, "broker:8883", "study-1", "cloud", has_certs=True)
    edge = edge_arguments(experiment, "broker:8883", "study-1", "edge-0001", has_certs=True)
    for name, words in (("cloud", cloud), ("edge", edge)):
        pairs = [f"{key}={value}" for key, value in zip(words[::2], words[1::2], strict=True)]
        assert pod_of(name)["containers"][0]["args"] == pairs
    assert pod_of("broker")["containers"][0]["args"] == ["mosquitto", "-c", f"{GUARD}/mosquitto.conf"]
