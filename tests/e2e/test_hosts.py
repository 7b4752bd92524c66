"""Two hosts, as two compose projects: the second has edges only and is told where the broker is."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from stack import ROOT, Stack, rows

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

UPDATES = 400
ARGUMENTS = f"--set data.edges=3 --set stop.updates={UPDATES}"


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[tuple[Stack, Stack]]:
    shared = {"MAPA_RUN": "two-hosts", "MAPA_ARGS": ARGUMENTS}
    first = Stack("mapa-test-first", tmp_path / "first", {**shared, "EDGES": "1"})
    far = {
        "MQTT_HOST": "broker.mapa.internal",
        "EDGES": "2",
        "EDGE_OFFSET": "1",
        "FIRST_NETWORK": "mapa-test-first_default",
    }
    second = Stack("mapa-test-second", tmp_path / "second", {**shared, **far}, (ROOT / "tests/e2e/one-network.yml",))
    first.remove()
    second.remove()
    yield first, second
    second.remove()
    first.remove()


def test_edges_of_a_second_host_join_and_both_ends_return(hosts: tuple[Stack, Stack]) -> None:
    first, second = hosts
    certs = first.hand_out(first.results.parent / "certs", "edge-0002", "edge-0003")
    second = dataclasses.replace(second, settings={**second.settings, "CERTS": str(certs)})
    here = first.start("docker", "compose", "up", "--build")
    first.until(
        lambda: any(one.status == "running" for one in first.containers("cloud")), "the first host's cloud", 300
    )
    there = second.start("docker", "compose", "up", "--build", "edge")
    assert there.wait(timeout=240) == 0, second.story()
    assert here.wait(timeout=120) == 0, first.story()

    assert [one.name for one in second.containers("broker") + second.containers("cloud")] == []
    assert [one.attrs["State"]["ExitCode"] for one in second.containers("edge")] == [0, 0], second.story()
    summary = json.loads((first.results / "two-hosts" / "summary.json").read_text())
    assert (summary["state"], summary["updates"]) == ("complete", UPDATES), first.story()
    updates = [row["edge"] for row in rows(first.results / "two-hosts/cloud/records.jsonl") if row["kind"] == "update"]
    assert set(updates) == {"edge-0001", "edge-0002", "edge-0003"}
    assert [path.name for path in (first.results / "two-hosts" / "edges").iterdir()] == ["edge-0001"]


def test_an_edge_that_comes_too_late_is_told_and_ends(hosts: tuple[Stack, Stack]) -> None:
    first, second = hosts
    alone = Stack(
        "mapa-test-first",
        first.results,
        {**first.settings, "MAPA_ARGS": "--set data.edges=1 --set stop.updates=20", "BROKER_LINGER": "60"},
    )
    alone.compose("up", "--build", "--detach")
    first.until(lambda: any(one.status == "exited" for one in first.containers("cloud")), "the end of the run", 240)
    certs = alone.hand_out(first.results.parent / "certs", "edge-0001")
    settings = {"EDGES": "1", "EDGE_OFFSET": "0", "MAPA_ARGS": alone.settings["MAPA_ARGS"], "CERTS": str(certs)}
    late = Stack(
        "mapa-test-second",
        second.results,
        {**second.settings, **settings},
        second.overrides,
    )
    there = late.start("docker", "compose", "up", "--build", "edge")
    assert there.wait(timeout=120) == 0, late.story()
    assert [one.attrs["State"]["ExitCode"] for one in late.containers("edge")] == [0], late.story()


def test_an_edge_without_a_certificate_is_told_what_it_lacks(hosts: tuple[Stack, Stack], tmp_path: Path) -> None:
    """Even in the first host's own network: the authority signs for the containers of its project only."""
    first, second = hosts
    first = dataclasses.replace(first, settings={**first.settings, "BROKER_PATIENCE": "600"})
    first.compose("up", "--build", "--detach", "certs", "broker")
    certs = first.hand_out(tmp_path / "certs", "edge-0009")
    without = dataclasses.replace(second, settings={**second.settings, "EDGES": "1", "CERTS": str(certs)})
    there = without.start("docker", "compose", "up", "--build", "edge")
    assert there.wait(timeout=240) == 0, without.story()
    edge = without.containers("edge")[0]
    assert edge.attrs["State"]["ExitCode"] == 4, without.story()
    assert "an unknown container asks for edge-0002: expected its own certificate" in edge.logs().decode()
    revoked_in_a_running_broker(first, without, first.hand_out(tmp_path / "others", "edge-0002"))


def broker_says(stack: Stack) -> str:
    return stack.containers("broker")[0].logs().decode()


def revoked_in_a_running_broker(first: Stack, second: Stack, certs: Path) -> None:
    first.compose("run", "--rm", "-T", "certs", "revoke", "edge-0002")
    reloads = broker_says(first).count("ACL pattern")
    first.compose("kill", "--signal", "HUP", "broker")
    first.until(
        lambda: broker_says(first).count("ACL pattern") > reloads, "that the broker has read its files again", 30
    )
    second.remove()
    revoked = dataclasses.replace(second, settings={**second.settings, "CERTS": str(certs)})
    assert revoked.start("docker", "compose", "up", "edge").wait(timeout=240) == 0, revoked.story()
    edge = revoked.containers("edge")[0]
    assert edge.attrs["State"]["ExitCode"] == 4, revoked.story()
    assert "this certificate has been revoked: expected a new one" in edge.logs().decode()
    assert first.containers("broker")[0].attrs["RestartCount"] == 0


def test_services_follow_the_brokers_place(tmp_path: Path) -> None:
    here = Stack("mapa-test-plan", tmp_path / "here").compose("config", "--services").split()
    there = (
        Stack("mapa-test-plan", tmp_path / "there", {"MQTT_HOST": "far.example"})
        .compose("config", "--services")
        .split()
    )
    assert set(here) == {"certs", "broker", "cloud", "edge", "results"}
    assert set(there) == {"cloud", "edge", "results"}


def test_the_broker_is_published_on_loopback_only(tmp_path: Path) -> None:
    plan = json.loads(Stack("mapa-test-plan", tmp_path / "here").compose("config", "--format", "json"))
    assert [(port["host_ip"], port["target"]) for port in plan["services"]["broker"]["ports"]] == [("127.0.0.1", 8883)]
    assert all("ports" not in plan["services"][name] for name in ("certs", "cloud", "edge", "results"))
