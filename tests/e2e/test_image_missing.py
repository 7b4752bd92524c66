"""The edge's image is missing, here or where it is to run: what is said, and that nothing is in the way afterwards."""

from __future__ import annotations

import gc
import os
import socket
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml
from stack import ROOT

from common.broker import HOST
from lab.__main__ import main
from lab.deploy import connect
from lab.hosts import load

pytestmark = [
    pytest.mark.docker,
    pytest.mark.timeout(120),
    # Docker's library lets go of a socket that found no engine without closing it; Python closes it, and says so.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

DEMO = str(ROOT / "experiments" / "demo.yaml")
NOWHERE = "mapa-test-nowhere:1"
AWAY = "unix:///nonexistent.sock"
SOCKET = "unix:///var/run/docker.sock"


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """So that this is said here and not at the end of all tests."""
    yield
    gc.collect()


def hosts_file(folder: Path, image: str, broker: str) -> Path:
    path = folder / "hosts.yaml"
    host = {"name": "here", "engine": SOCKET, "edges": ["edge-0001"]}
    path.write_text(yaml.safe_dump({"broker": broker, "plain": True, "image": image, "hosts": [host]}))
    return path


def bundle(*more: str) -> int:
    return main(["bundle", "edge", "edge-0001", DEMO, "--run", "r", "--broker", HOST, "--plain", *more])


def test_no_bundle_is_made_with_an_image_that_is_not_here(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = ["--with-image", "--out", str(tmp_path / "edge.tar.gz")]
    assert bundle("--image", NOWHERE, *target) == 5
    assert f"image {NOWHERE}: not on this machine: expected it (docker compose build edge" in capsys.readouterr().err
    monkeypatch.setenv("DOCKER_HOST", AWAY)
    assert bundle(*target) == 5
    assert "expected a Docker engine on this machine" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_bundle_tells_what_the_place_lacks_where_it_is_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bundle("--image", NOWHERE, "--out", str(tmp_path / "edge.tar.gz")) == 0
    assert f"it needs the image {NOWHERE} there" in capsys.readouterr().out
    with tarfile.open(tmp_path / "edge.tar.gz") as found:
        found.extractall(tmp_path, filter="tar")
    for more, clue in (
        ({}, f"image {NOWHERE}: missing: expected it, or image.tar here"),
        ({"DOCKER_HOST": AWAY}, "expected an engine that lets this user in"),
    ):
        command = [tmp_path / "edge-0001" / "start.sh"]
        done = subprocess.run(command, env={**os.environ, **more}, capture_output=True, text=True, check=False)
        assert done.returncode == 5
        assert clue in done.stderr


def test_a_deployment_without_image_can_be_tried_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server((HOST, 0)) as broker:
        file = hosts_file(tmp_path, NOWHERE, f"{HOST}:{broker.getsockname()[1]}")
        call = ["deploy", DEMO, "--hosts", str(file), "--set", "data.edges=1", "--out", str(tmp_path / "run")]
        for _ in range(2):  # the folder of the first try is free for the second one
            assert main(call) == 5
            said = capsys.readouterr()
            assert f"warning: image {NOWHERE}: not on this machine" in said.out
            assert f"host here ({SOCKET}): image {NOWHERE}: neither there nor on this machine" in said.err


def test_a_host_uses_its_own_image_where_this_machine_has_none_and_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = load(hosts_file(tmp_path, "eclipse-mosquitto:2", HOST))
    monkeypatch.setenv("DOCKER_HOST", AWAY)
    said: list[str] = []
    with ExitStack() as stack:
        assert list(connect(hosts, stack, said.append)) == ["edge-0001"]
    assert len(said) == 1
    assert said[0].endswith("expected a Docker engine on this machine; hosts use the one that they have")
