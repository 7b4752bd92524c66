"""Waiting for a broker that is, comes, or stays away."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from common.address import Address
from common.errors import TransportError
from lab import reach


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_a_broker_that_is_there_is_found_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        reach.wait_for(Address("127.0.0.1", server.getsockname()[1]), pytest.fail, lambda: False)


def test_a_broker_that_comes_late_is_waited_for() -> None:
    port = closed_port()
    opened: list[socket.socket] = []
    timer = threading.Timer(0.7, lambda: opened.append(socket.create_server(("127.0.0.1", port))))
    timer.start()
    began = time.monotonic()
    reach.wait_for(Address("127.0.0.1", port), lambda text: None, lambda: False)
    assert time.monotonic() - began >= 0.6
    timer.join()
    opened[0].close()


def test_a_broker_that_stays_away_is_an_error_after_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "PATIENCE", 1.2)
    monkeypatch.setattr(reach, "_NOTE", 0.4)
    port, said = closed_port(), list[str]()
    with pytest.raises(TransportError, match=f"127.0.0.1:{port}") as caught:
        reach.wait_for(Address("127.0.0.1", port), said.append, lambda: False)
    assert caught.value.exit_code == 4
    assert said
    assert all("trying again" in text for text in said)


def test_a_person_can_stop_the_waiting() -> None:
    with pytest.raises(KeyboardInterrupt):
        reach.wait_for(Address("127.0.0.1", closed_port()), lambda text: None, lambda: True)
