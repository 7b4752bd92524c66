"""Which broker is used, and that none outlives who started it."""

from __future__ import annotations

import importlib.util
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from toys import Place, Pupil, Stranger, Teacher, wait_for

from common.address import Address
from common.broker import HOST, choose, mosquitto
from common.errors import ConfigError, TransportError
from common.node import CLOUD
from common.tensors import Layout

pytestmark = pytest.mark.broker
PlaceAt = Callable[[Address], Place]


def is_running(process: int | None) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_given_broker_is_taken_as_it_is(tmp_path: Path) -> None:
    with choose("example.invalid:1999", tmp_path / "none") as broker:
        assert (broker.host, broker.port, broker.process) == ("example.invalid", 1999, None)
    assert not (tmp_path / "none").exists()


def test_what_is_no_address_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="host or host:port"), choose("host:port", tmp_path):
        pass


def test_mosquitto_is_found_started_on_the_loopback_and_stopped(tmp_path: Path) -> None:
    told: list[str] = []
    with choose(None, tmp_path / "broker", told.append) as broker:
        assert broker.host == HOST
        assert is_running(broker.process)
        stranger = Stranger(broker.address, "a")
        stranger.say("a", b"hello")
        wait_for(lambda: stranger.heard == [("a", b"hello")])
        stranger.leave()
    assert not is_running(broker.process)
    assert told == [f"broker: {mosquitto()} on {broker.address}"]


def test_it_stops_when_its_user_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), choose(None, tmp_path) as broker:
        raise ZeroDivisionError
    assert not is_running(broker.process)


@pytest.mark.parametrize("deadly", [signal.SIGKILL, signal.SIGTERM])
def test_no_broker_outlives_a_killed_parent(tmp_path: Path, deadly: signal.Signals) -> None:
    script = (
        "import sys, time; from pathlib import Path; from common.broker import choose\n"
        "with choose(None, Path(sys.argv[1])) as broker: print(broker.process, flush=True); time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        process = int(parent.stdout.readline())
        assert is_running(process)
        parent.send_signal(deadly)
    wait_for(lambda: not is_running(process), 5.0)


def test_the_embedded_broker_serves_where_there_is_no_mosquitto(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place_at: PlaceAt
) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    told: list[str] = []
    layout = Layout.of({"w": (1_000_000,)})
    with choose(None, tmp_path, told.append) as broker:
        assert "embedded iotcore" in told[-1]
        place = place_at(broker.address)
        small, cloud = Pupil(), Teacher(edges=1, rounds=50)
        lives = [place.live(small, "edge-1"), place.live(cloud, CLOUD)]
        began = time.monotonic()
        assert [life.end() for life in lives] == [0, 0]
        assert time.monotonic() - began < 6.0, "small packets have to go out at once"
        large = place_at(broker.address)
        lives = [
            large.live(Pupil(layout), "edge-1", layout=layout),
            large.live(Teacher(edges=1, rounds=3, layout=layout), CLOUD, layout=layout),
        ]
        assert [life.end() for life in lives] == [0, 0]
        twins = place_at(broker.address)
        first = twins.joined(Pupil(), "edge-1")
        assert twins.live(Pupil(), "edge-1").end(10.0) == 4
        assert first.thread.is_alive()
        first.shell._link.close(0.0, leave=True)
    wait_for(lambda: not is_running(broker.process), 5.0)


def test_without_any_broker_the_error_names_the_ways_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda *_: None)
    with pytest.raises(TransportError, match=r"none found.*--broker.*mosquitto.*embedded"), choose(None, tmp_path):
        pass


def test_a_broker_that_does_not_start_is_an_error_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "mosquitto"
    program.write_text("#!/bin/sh\necho out of luck\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda *_, **__: str(program))
    with pytest.raises(TransportError, match=r"did not start: .*out of luck"), choose(None, tmp_path / "broker"):
        pass
