"""The manifests of deploy/kubernetes, pod by pod as a kubelet would start them, on Docker: there is no cluster here.

What is seen: that images, arguments, users, mounts, probes, and files with a kubelet's rights fit together.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from docker.models.containers import Container
from docker.types import Mount
from premises import build_image
from stack import ROOT, engine

from lab.__main__ import main

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

NAME = "mapa-test-pods"
EDGES = ("edge-0001", "edge-0002")
UPDATES = 200
IMAGES = {"mapa-cloud": "mapa-test-cloud", "mapa-edge": "mapa-test-edge"}
FOLDER = ROOT / "deploy" / "kubernetes"


@dataclass
class Kubelet:
    """Starts pods of one container. `files`: content of Secrets and ConfigMaps; `claims`: below which volumes are."""

    files: Mapping[str, Mapping[str, bytes]]
    root: Path
    pods: dict[str, Container] = field(default_factory=dict)

    def apply(self, text: str) -> None:
        for resource in yaml.safe_load_all(text):
            if resource["kind"] in ("Deployment", "Job"):
                name = resource["metadata"]["name"]
                self.pods[name] = self._start(name, resource["spec"]["template"]["spec"])

    def probe(self, name: str, text: str) -> bool:
        """Whether the readiness probe of a pod lets it pass."""
        found = [one for one in yaml.safe_load_all(text) if one["kind"] in ("Deployment", "Job")]
        command = found[0]["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]["exec"]["command"]
        return self.pods[name].exec_run(command).exit_code == 0

    def _start(self, name: str, pod: Mapping[str, Any]) -> Container:
        [container] = pod["containers"]
        user = pod["securityContext"]
        sources = {volume["name"]: volume for volume in pod["volumes"]}
        mounts = [self._mount(mount, sources[mount["name"]], user["fsGroup"]) for mount in container["volumeMounts"]]
        return engine().containers.run(
            IMAGES.get(container["image"], container["image"]),
            container["args"],
            name=f"{NAME}-{name}",
            detach=True,
            user=f"{user['runAsUser']}:{user['runAsGroup']}",
            group_add=[user["fsGroup"]],
            read_only=container["securityContext"]["readOnlyRootFilesystem"],
            cap_drop=container["securityContext"]["capabilities"]["drop"],
            security_opt=["no-new-privileges:true"],
            mounts=mounts,
            network=NAME,
            networking_config={NAME: engine().api.create_endpoint_config(aliases=[name])},
        )

    def _mount(self, mount: Mapping[str, Any], volume: Mapping[str, Any], group: int) -> Mount:
        if "emptyDir" in volume:
            return Mount(mount["mountPath"], None, type="tmpfs", tmpfs_mode=0o1777)
        source = self._source(volume, group)
        return Mount(mount["mountPath"], str(source / mount.get("subPath", "")), "bind", mount.get("readOnly", False))

    def _source(self, volume: Mapping[str, Any], group: int) -> Path:
        """A folder that has what a kubelet lays there: root's, and readable or writable by the pod's group."""
        claim = volume.get("persistentVolumeClaim", {}).get("claimName")
        given = claim or volume.get("secret", {}).get("secretName") or volume["configMap"]["name"]
        folder = self.root / given
        folder.mkdir(exist_ok=True)
        os.chown(folder, 0, group)
        folder.chmod(0o2770 if claim else 0o755)
        for name, content in self.files.get(given, {}).items() if claim is None else ():
            (folder / name).write_bytes(content)
            os.chown(folder / name, 0, group)
            (folder / name).chmod(volume["secret"]["defaultMode"] if "secret" in volume else 0o644)
        return folder


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[Kubelet]:
    build_image()
    base = os.environ.get("BASE_IMAGE")
    own = ["--build-arg", f"BASE_IMAGE={base}", "--build-arg", "TORCH_INDEX="] if base else []
    command = ["docker", "build", "--quiet", "--file", "Dockerfile.cloud", "--tag", IMAGES["mapa-cloud"], *own, "."]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    certs = tmp_path / "certs"
    for words in (["init", "broker", "--at", "/run/guard"], ["edge", *EDGES]):
        assert main(["certs", *words, "--dir", str(certs)]) == 0
    experiment = yaml.safe_load((ROOT / "experiments" / "demo.yaml").read_text())
    experiment["data"]["edges"], experiment["stop"] = len(EDGES), {"updates": UPDATES}
    experiment["privacy"]["randomness"] = "secure"
    files = {"broker": {path.name: path.read_bytes() for path in (certs / "broker").iterdir()}}
    files["experiment"] = {"experiment.yaml": yaml.safe_dump(experiment).encode()}
    for node in ("cloud", *EDGES):
        names = ("ca.crt", f"{node}.crt", f"{node}.key")
        files[f"{node}-certs"] = {name: (certs / name).read_bytes() for name in names}
    (tmp_path / "volumes").mkdir()
    tmp_path.chmod(0o755)
    network = engine().networks.create(NAME)
    found = Kubelet(files, tmp_path / "volumes")
    yield found
    for pod in engine().containers.list(all=True, filters={"name": f"^{NAME}-"}):
        pod.remove(force=True, v=True)
    network.remove()


def test_the_pods_of_the_manifests_finish_a_run(kubelet: Kubelet) -> None:
    broker, cloud, edge = ((FOLDER / f"{name}.yaml").read_text() for name in ("broker", "cloud", "edge"))
    kubelet.apply(broker)
    until(kubelet, lambda: kubelet.probe("broker", broker))
    kubelet.apply(cloud)
    until(kubelet, lambda: kubelet.probe("cloud", cloud))
    kubelet.apply(edge)
    until(kubelet, lambda: kubelet.probe("edge-0001", edge))  # it waits for the other one
    kubelet.apply(edge.replace("edge-0001", "edge-0002"))
    codes = {name: kubelet.pods[name].wait(timeout=300)["StatusCode"] for name in ("cloud", *EDGES)}
    assert codes == {"cloud": 0, **dict.fromkeys(EDGES, 0)}, story(kubelet)
    summary = json.loads((kubelet.root / "results" / "study-1" / "summary.json").read_text())
    assert (summary["state"], summary["updates"]) == ("complete", UPDATES)
    assert {one["id"] for one in summary["edges"] if one["updates"]} == set(EDGES)
    for name in EDGES:
        assert (kubelet.root / f"{name}-ledger" / f"{name}.db").is_file()
        assert (kubelet.root / f"{name}-records" / "study-1" / "edges" / name / "records.jsonl").is_file()


def until(kubelet: Kubelet, is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not is_true():
        assert time.monotonic() < deadline, story(kubelet)
        time.sleep(0.3)


def story(kubelet: Kubelet) -> str:
    return "\n".join(f"--- {name}\n{pod.logs(tail=20).decode()}" for name, pod in kubelet.pods.items())
