"""A crew: who could not be started is done without, and nobody is left behind."""

from __future__ import annotations

import gc
from functools import partial
from pathlib import Path

import pytest

from common.errors import DeployError
from lab.crew import Crew
from lab.engine import Engine
from lab.hosts import Host
from lab.process import Child, start
from lab.tunnel import Tunnel

WAITS = ("http.server", ["--bind", "127.0.0.1", "0"])


def waiting(name: str, folder: Path) -> partial[Child]:
    return partial(start, name, *WAITS, folder / name)


def test_an_edge_that_cannot_be_started_is_done_without(tmp_path: Path) -> None:
    with Crew([waiting("cloud", tmp_path), lambda: None, waiting("edge-0002", tmp_path)]) as crew:
        assert [edge.name for edge in crew.edges] == ["edge-0002"]
        members = [crew.cloud, *crew.edges]
        assert all(member.exit_code is None for member in members)
    assert all(member.exit_code is not None for member in members)


def test_if_one_fails_those_before_it_are_ended(tmp_path: Path) -> None:
    begun: list[Child] = []

    def first() -> Child:
        begun.append(waiting("cloud", tmp_path)())
        return begun[0]

    def second() -> Child:
        raise DeployError("no")

    with pytest.raises(DeployError), Crew([first, second]):
        pass
    assert begun[0].exit_code is not None


def test_a_host_that_lets_nobody_in_is_said_in_the_words_of_ssh() -> None:
    with (
        pytest.raises(
            DeployError, match=r"ssh://nobody@127\.0\.0\.1:1: ssh: .*(refused|Connection).*without a question"
        ),
        Tunnel("ssh://nobody@127.0.0.1:1"),
    ):
        pass


def test_an_engine_that_is_not_there() -> None:
    host = Host(name="nowhere", engine="unix:///nowhere/docker.sock", edges=["edge-0001"])
    with (
        pytest.raises(DeployError, match=r"host nowhere \(unix:///nowhere/docker\.sock\): .*expected a Docker engine"),
        Engine(host),
    ):
        pass
    gc.collect()  # a socket left open is an error here, in place of some later test
