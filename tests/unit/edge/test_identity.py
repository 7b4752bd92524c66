"""Who an edge is: from its environment, or from what a name server says of its container."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from common.errors import ConfigError
from edge.identity import container_name, identify


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"EDGE_ID": "clinic-a"}, "clinic-a"),
        ({"EDGE_ID": "clinic-a", "EDGE_INDEX": "7", "EDGE_OFFSET": "9"}, "clinic-a"),
        ({"EDGE_INDEX": "7"}, "edge-0007"),
        ({"EDGE_INDEX": "7", "EDGE_OFFSET": "5"}, "edge-0012"),
        ({"EDGE_OFFSET": "5"}, "edge-0008"),
        ({"EDGE_ID": "", "EDGE_INDEX": "", "EDGE_OFFSET": ""}, "edge-0003"),
    ],
)
def test_the_environment_comes_before_the_container(environment: dict[str, str], expected: str) -> None:
    assert identify(environment, lambda: "mapa-edge-3.mapa_default") == expected


@pytest.mark.parametrize("name", ["stack-edge-12.stack_default", "stack-edge-12", "a-1-edge-12.net-7_default"])
def test_the_replica_number_is_the_last_part_of_the_name(name: str) -> None:
    assert identify({}, lambda: name) == "edge-0012"


@pytest.mark.parametrize("name", [None, "stack-edge-run-0ab12cd.stack_default", "laptop"])
def test_nothing_to_go_by_is_an_error_that_says_what_to_set(name: str | None) -> None:
    with pytest.raises(ConfigError, match=r"edge identity.*EDGE_ID or EDGE_INDEX"):
        identify({}, lambda: name)


@pytest.mark.parametrize(
    ("variable", "value"),
    [("EDGE_ID", "Edge_1"), ("EDGE_INDEX", "0"), ("EDGE_INDEX", "two"), ("EDGE_INDEX", "-1"), ("EDGE_OFFSET", "1.5")],
)
def test_a_malformed_variable_is_named(variable: str, value: str) -> None:
    with pytest.raises(ConfigError, match=rf"{variable}: '{value}'"):
        identify({"EDGE_INDEX": "1", variable: value})


def labels(name: str) -> bytes:
    return b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))


def plain(question: bytes) -> bytes:
    """As Docker's server answers: both names written out."""
    name = labels("stack-edge-4.stack_default") + b"\0"
    header = struct.pack(">6H", 1, 0x8180, 1, 1, 0, 0)
    return header + question[12:] + question[12:-4] + struct.pack(">2HIH", 12, 1, 600, len(name)) + name


def compressed(question: bytes) -> bytes:
    """The owner is a pointer to the question's name, and so is the end of the answer's name."""
    name = labels("stack-edge-4") + b"\xc0\x0c"
    header = struct.pack(">6H", 1, 0x8180, 1, 1, 0, 0)
    return header + question[12:] + b"\xc0\x0c" + struct.pack(">2HIH", 12, 1, 600, len(name)) + name


def unknown(question: bytes) -> bytes:
    return struct.pack(">6H", 1, 0x8183, 1, 0, 0, 0) + question[12:]


def another_kind(question: bytes) -> bytes:
    return struct.pack(">6H", 1, 0x8180, 1, 1, 0, 0) + question[12:] + b"\xc0\x0c" + struct.pack(">2HIH", 1, 1, 9, 0)


def endless(question: bytes) -> bytes:
    """The owner's name is a pointer to itself."""
    at = len(question)
    return struct.pack(">6H", 1, 0x8180, 1, 1, 0, 0) + question[12:] + bytes([0xC0 | at >> 8, at & 255])


@pytest.fixture
def server(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Path, int]]:
    """A name server on loopback that answers one question as the test's parameter says."""
    link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    link.bind(("127.0.0.1", 0))
    link.settimeout(10)
    reply: Callable[[bytes], bytes] = request.param

    def serve() -> None:
        question, client = link.recvfrom(512)
        link.sendto(reply(question), client)

    thread = threading.Thread(target=serve)
    thread.start()
    resolvers = tmp_path / "resolv.conf"
    resolvers.write_text("search example\nnameserver 127.0.0.1\noptions ndots:0\n")
    yield resolvers, link.getsockname()[1]
    thread.join()
    link.close()


@pytest.mark.parametrize(
    ("server", "begins"),
    [
        (plain, "stack-edge-4.stack_default"),
        (compressed, "stack-edge-4."),
        (unknown, None),
        (another_kind, None),
        (endless, None),
    ],
    indirect=["server"],
)
def test_a_name_server_is_asked_for_the_own_address(server: tuple[Path, int], begins: str | None) -> None:
    name = container_name(*server)
    assert name is None if begins is None else name is not None and name.startswith(begins)


def test_without_a_name_server_there_is_no_name(tmp_path: Path) -> None:
    (tmp_path / "resolv.conf").write_text("# none\n")
    assert container_name(tmp_path / "resolv.conf") is None
    assert container_name(tmp_path / "missing") is None
