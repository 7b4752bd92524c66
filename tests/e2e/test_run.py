"""One run in containers, by `make up`, with trouble on the way.

An edge that cannot work, one that is killed, a broker that restarts, and a cloud that is cut off from the network.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from docker.models.containers import Container
from prying import IMPOSTOR, key_of, said, told_of
from stack import SERVICES, Stack, engine, rows

from edge.ledger_database import look
from lab.ledger import compare

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]

RUN = "with-trouble"
KILLED = "edge-0003"
NOISE = "secure"
"""So that the ledgers are on their volume, and outlive the run."""
CUT = 20.0
"""Seconds that the cloud is out of the network."""


@dataclass(frozen=True)
class Finished:
    """What is left of the run, and what was seen of its containers while it went on."""

    stack: Stack
    exit_code: int
    nodes: dict[str, dict[str, Any]]
    misfit: dict[str, Any]
    secrets: dict[str, str]
    told: str
    impostor: str

    @property
    def folder(self) -> Path:
        return self.stack.results / RUN

    @property
    def ledgers(self) -> Path:
        """A copy of the volume."""
        copy = self.stack.results.parent / "ledgers"
        if not copy.exists():
            copy.mkdir()
            engine().containers.run(
                "eclipse-mosquitto:2",
                entrypoint=["cp", "-R", "/volume/.", "/copy"],
                user="0:0",
                volumes={
                    f"{self.stack.project}_ledger": {"bind": "/volume", "mode": "ro"},
                    str(copy): {"bind": "/copy", "mode": "rw"},
                },
                tmpfs={"/mosquitto/data": "", "/mosquitto/log": ""},
                remove=True,
            )
        return copy

    @property
    def records(self) -> list[dict[str, Any]]:
        return rows(self.folder / "cloud" / "records.jsonl")

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        return [row for row in self.records if row["kind"] == kind]


def applied_by(cloud: Container, edge: str) -> int:
    """How many updates of this edge the cloud has applied so far, by its own records."""
    count = f'grep \'"kind": *"update"\' /results/{RUN}/cloud/records.jsonl | grep -c \'"{edge}"\''
    answer = cloud.exec_run(["sh", "-c", count])
    return int(answer.output.strip() or 0) if answer.output.strip().isdigit() else 0


def seen(node: Container) -> dict[str, Any]:
    """What the engine and the container itself say about it."""
    node.reload()
    return {
        "health": node.attrs["State"]["Health"]["Status"],
        "user": said(node, "id", "-u"),
        "capabilities": said(node, "grep", "CapEff", "/proc/1/status").split()[1],
        "write": node.exec_run(["touch", "/app/planted"]).exit_code,
        "folders": said(node, "ls", "/app").split(),
        "host": node.attrs["HostConfig"],
    }


def cut_off(stack: Stack, node: Container, seconds: float) -> None:
    """Takes a container out of its network for a while; it comes back under the same names."""
    name = f"{stack.project}_default"
    node.reload()
    aliases = node.attrs["NetworkSettings"]["Networks"][name]["Aliases"]
    network = engine().networks.get(name)
    network.disconnect(node)
    time.sleep(seconds)
    network.connect(node, aliases=aliases)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Finished]:
    """The demo with one edge more than there are shards, through all the trouble."""
    folder = tmp_path_factory.mktemp("run")
    # Six replicas for five shards: the sixth finds none and fails. The later --set wins over that of EDGES.
    settings = {
        "MAPA_RUN": RUN,
        "EDGES": "6",
        "MAPA_ARGS": f"--set data.edges=5 --set stop.updates=15000 --set privacy.randomness={NOISE}",
    }
    stack = Stack("mapa-test-run", folder / "results", settings)
    stack.remove()
    program = stack.start("make", "up")
    try:
        stack.until(lambda: len(stack.containers("edge")) == 6 or program.poll() is not None, "containers", 600)
        stack.until(lambda: all(one.status == "running" for one in stack.containers("cloud")), "the cloud runs")
        cloud, victim = stack.containers("cloud")[0], stack.containers("edge")[2]
        stack.until(lambda: applied_by(cloud, KILLED) >= 50, f"updates of {KILLED}")
        nodes = {one.name: seen(one) for one in (cloud, *stack.containers("edge")[:5])}
        secrets = {one.name: key_of(one) for one in (cloud, *stack.containers("edge")[:5])}
        impostor = said(stack.containers("edge")[1], "python", "-c", IMPOSTOR)
        broker = stack.containers("broker")[0]

        def goes_on(after: str) -> None:
            before = applied_by(cloud, KILLED)
            stack.until(lambda: applied_by(cloud, KILLED) >= before + 50, f"updates of {KILLED} after {after}")

        victim.kill()
        victim.wait(timeout=30)
        victim.start()
        goes_on("its restart")
        broker.restart(timeout=5)
        goes_on("the broker's restart")
        cut_off(stack, cloud, CUT)
        goes_on("the cloud's return to the network")
        misfit = stack.containers("edge")[5]
        found = {"state": misfit.attrs["State"], "log": misfit.logs().decode(), "starts": misfit.attrs["RestartCount"]}
        told = told_of(stack)
        exit_code = program.wait(timeout=400)
        yield Finished(stack, exit_code, nodes, found, secrets, told, impostor)
    except BaseException:
        print(stack.story())
        raise
    finally:
        program.terminate()
        program.wait(timeout=60)
        stack.remove()


def test_the_exit_code_is_the_clouds_whatever_an_edge_does(finished: Finished) -> None:
    assert finished.misfit["state"]["ExitCode"] == 2, finished.misfit
    assert "edge-0006" in finished.misfit["log"]
    assert finished.misfit["starts"] == 3
    assert finished.exit_code == 0, finished.stack.story()


def test_the_run_learned_and_every_update_counted_once(finished: Finished) -> None:
    summary = json.loads((finished.folder / "summary.json").read_text())
    applied = [row for row in finished.of_kind("update") if row["applied"]]
    assert summary["state"] == "complete"
    assert summary["test_accuracy"] >= 0.8
    assert [row["update"] for row in applied] == list(range(1, summary["updates"] + 1))
    assert max(Counter((row["edge"], row["ticket"]) for row in applied).values()) == 1


def test_every_applied_update_is_a_release_in_its_edges_ledger(finished: Finished) -> None:
    for edge in {row["edge"] for row in finished.of_kind("joined")}:
        released = Counter(
            row["ticket"]
            for row in rows(finished.folder / "edges" / edge / "records.jsonl")
            if row["kind"] == "release"
        )
        applied = {row["ticket"] for row in finished.of_kind("update") if row["applied"] and row["edge"] == edge}
        assert applied <= released.keys()
        assert max(released.values()) == 1


def test_the_ledgers_hold_every_release_of_the_killed_edge_too(finished: Finished) -> None:
    expected = {f"edge-{number:04d}" for number in range(1, 6)}
    assert {path.stem for path in finished.ledgers.glob("*.db")} == expected
    assert compare(finished.ledgers, finished.folder) == dict.fromkeys(sorted(expected), "")
    for edge in json.loads((finished.folder / "summary.json").read_text())["edges"]:
        content = look(finished.ledgers / f"{edge['id']}.db")
        assert edge["releases"] == edge["ledger_releases"] == content.releases
        assert edge["epsilon_total"] > 0
        assert len(content.lives) == (2 if edge["id"] == KILLED else 1)


def test_the_killed_edge_came_back_as_itself(finished: Finished) -> None:
    boots = {(row["edge"], row["boot"]) for row in finished.of_kind("joined")}
    expected = {f"edge-{number:04d}": 2 if number == 3 else 1 for number in range(1, 6)}
    assert Counter(edge for edge, _ in boots) == expected


def test_every_edge_has_a_shard_of_its_own(finished: Finished) -> None:
    samples = {row["edge"]: row["samples"] for row in finished.of_kind("joined")}
    assert sum(samples.values()) == 1437
    assert set(samples.values()) == {287, 288}


def test_every_node_has_a_key_of_its_own_that_nobody_is_told(finished: Finished) -> None:
    """Neither the engine's descriptions nor images, logs, command lines, records or results hold any of them."""
    assert len(set(finished.secrets.values())) == 6
    written = b"".join(path.read_bytes() for path in finished.stack.results.rglob("*") if path.is_file())
    written += finished.stack.log.read_bytes()
    assert len(finished.told) > 10_000
    assert len(written) > 10_000
    for name, key in finished.secrets.items():
        assert len(key) == 64, name
        assert key not in finished.told, name
        assert key.encode() not in written, name
    assert "PRIVATE KEY" not in finished.told
    assert b"PRIVATE KEY" not in written


def test_no_edge_becomes_another_or_sees_its_key(finished: Finished) -> None:
    lines = finished.impostor.splitlines()
    assert [line.split(":")[0] for line in lines[:4]] == ["TransportError"] * 4, lines
    assert "edge-0002 asks for edge-0001" in lines[0]
    assert "edge-0002 asks for cloud" in lines[1]
    assert lines[4:] == ["/authority []", "/certs ['ca.crt']", "/mosquitto/guard []"]


def test_what_is_between_the_nodes_is_encrypted_and_known(finished: Finished) -> None:
    states = [row for row in finished.of_kind("connection") if row["state"] == "up"]
    assert {row["broker"] for row in states} == {"broker.mapa.internal:8883"}
    for number in range(1, 6):
        assert f"enrolled edge-{number:04d}" in finished.told
    assert "enrolled edge-0006" in finished.told, "it has a name, and no records"


def test_nodes_are_confined_and_healthy(finished: Finished) -> None:
    assert len(finished.nodes) == 6
    for name, facts in finished.nodes.items():
        assert facts["health"] == "healthy", name
        assert facts["user"] == "10001"
        assert int(facts["capabilities"], 16) == 0
        assert facts["write"] != 0
        assert facts["host"]["ReadonlyRootfs"]
        assert facts["host"]["Init"]


def test_no_half_is_in_the_others_image(finished: Finished) -> None:
    for name, facts in finished.nodes.items():
        assert {"cloud", "edge"} & set(facts["folders"]) == ({"cloud"} if "cloud" in name else {"edge"})


def test_results_are_on_the_host_and_in_the_volumes(finished: Finished) -> None:
    own = os.stat(Path(__file__).parents[2] / "docker-compose.yml")
    for name in ("summary.json", "experiment.yaml", "cloud/model.safetensors", "cloud/records.jsonl"):
        on_host = finished.folder / name
        assert (on_host.stat().st_uid, on_host.stat().st_gid) == (own.st_uid, own.st_gid)
        held = engine().containers.run(
            "eclipse-mosquitto:2",
            entrypoint=["sha256sum", f"/volume/{RUN}/{name}"],
            volumes={f"{finished.stack.project}_results": {"bind": "/volume", "mode": "ro"}},
            tmpfs={"/mosquitto/data": "", "/mosquitto/log": ""},  # else the image's volumes would be left behind
            remove=True,
        )
        assert held.split()[0].decode() == hashlib.sha256(on_host.read_bytes()).hexdigest()


def test_nothing_runs_any_more(finished: Finished) -> None:
    assert [one.name for service in SERVICES for one in finished.stack.containers(service)] == []


def test_a_report_can_be_drawn_from_the_results(finished: Finished) -> None:
    program = Path(__file__).parents[2] / ".venv" / "bin" / "mapa"
    drawn = subprocess.run([program, "report", finished.folder], capture_output=True, text=True, check=False)
    assert drawn.returncode == 0, drawn.stderr
    assert (finished.folder / "report" / "report.html").is_file()
