"""Finds a broker, or starts one on this machine's loopback.

Order: the address that was given (never replaced by another) > the program `mosquitto` > the embedded broker
`iotcore` > the embedded broker `amqtt`, where `iotcore` has no package > an error that says how to get one. A broker
that is started here has no access rules, so it listens on the loopback only, and ends with this process.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from common.address import Address, Protocol
from common.errors import TransportError

LOG = logging.getLogger(__name__)
HOST = "127.0.0.1"
_FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/opt/homebrew/sbin")  # not on every user's PATH
_ATTEMPTS = 5  # another program may take a free port before the broker does
_START = 15.0  # seconds
# `user root` matters to root only: a broker that changed its user would no longer end with this process
_MOSQUITTO = """\
listener {port} {host}
allow_anonymous true
user root
max_packet_size 67108864
max_inflight_messages 20
max_queued_messages 100000
max_queued_bytes 536870912
set_tcp_nodelay true
persistence false
sys_interval 10
log_dest stderr
log_type error
log_type warning
log_type notice
connection_messages false
"""
_IOTCORE = """\
id = 0
[router]
id = 0
max_connections = 10010
max_outgoing_packet_count = 200
max_segment_size = 10485760
max_segment_count = 4
[v5.1]
name = "v5"
listen = "{host}:{port}"
next_connection_delay_ms = 1
[v5.1.connections]
connection_timeout_ms = 60000
max_payload_size = 67108864
max_inflight_count = 100
dynamic_filters = true
"""
_AMQTT = """\
{{"listeners": {{"default": {{"type": "tcp", "bind": "{host}:{port}"}}}},
"plugins": {{"amqtt.plugins.authentication.AnonymousAuthPlugin": {{"allow_anonymous": true}}}}}}
"""
_RUN_IOTCORE = """\
import logging, sys
from iotcore import IotCoreBroker
logging.basicConfig(level="WARNING")
logging.getLogger("rumqttd").setLevel("CRITICAL")  # it logs every packet as an error
IotCoreBroker(config_path=sys.argv[1]).run_forever()
"""
_RUN_AMQTT = """\
import asyncio, json, logging, pathlib, sys
from amqtt.broker import Broker
logging.basicConfig(level="WARNING")
async def serve():
    await Broker(json.loads(pathlib.Path(sys.argv[1]).read_text())).start()
    await asyncio.Event().wait()
asyncio.run(serve())
"""
_GUARD = """\
import ctypes, os, subprocess, sys, threading
parent, command = int(sys.argv[1]), sys.argv[2:]
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 9)  # the kernel kills the broker when its parent ends, however that ends
    if os.getppid() == parent:
        os.execvp(command[0], command)
else:
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    threading.Thread(target=lambda: (sys.stdin.read(), child.kill()), daemon=True).start()
    sys.exit(child.wait())
"""


@dataclass(frozen=True)
class Broker:
    """A broker to connect to. `process`: its process id if it was started here."""

    address: Address
    description: str
    process: int | None = None

    @property
    def host(self) -> str:
        """Name or address of its machine."""
        return self.address.host

    @property
    def port(self) -> int:
        """Its port there."""
        return self.address.port


@contextlib.contextmanager
def choose(address: str | None, folder: Path, progress: Callable[[str], None] = LOG.info) -> Iterator[Broker]:
    """The broker to use, running until the block is left. To be called in the main thread, with whose end it ends.

    Args:
        address: `host` or `host:port` of a broker that runs already; None to find or start one.
        folder: where a broker that is started here puts its settings and its log.
        progress: is told which broker it is, and what one has to know about it.

    Raises:
        ConfigError: an address that is none.
        TransportError: there is no broker here, or it did not start.
    """
    if address is not None:
        given = Address.parse(address)
        progress(f"broker: {given} (given)")
        yield Broker(given, str(given))
        return
    folder.mkdir(parents=True, exist_ok=True)
    with _started(_found(progress), folder) as broker:
        progress(f"broker: {broker.description}")
        yield broker


@dataclass(frozen=True)
class _Kind:
    """A broker that can be started: how, with what settings (a file of type `suffix`), and what it speaks."""

    name: str
    command: tuple[str, ...]
    settings: str
    suffix: str
    protocol: Protocol = "5"


def _found(progress: Callable[[str], None]) -> _Kind:
    binary = mosquitto()
    if binary is not None:
        return _Kind(binary, (binary, "-c"), _MOSQUITTO, "conf")
    if importlib.util.find_spec("iotcore") is not None:
        return _Kind("embedded iotcore", (sys.executable, "-c", _RUN_IOTCORE), _IOTCORE, "toml")
    if importlib.util.find_spec("amqtt") is not None:
        progress("warning: the embedded amqtt speaks MQTT 3.1.1 only and is slow; better install mosquitto")
        return _Kind("embedded amqtt", (sys.executable, "-c", _RUN_AMQTT), _AMQTT, "json", "3.1.1")
    raise TransportError(
        "broker: none found: expected --broker host[:port], the program mosquitto (apt install mosquitto, "
        "brew install mosquitto), or the embedded broker (pip install 'mapa-testbed[embedded]')"
    )


def mosquitto() -> str | None:
    """The program `mosquitto`, if this machine has it."""
    return shutil.which("mosquitto") or shutil.which("mosquitto", path=os.pathsep.join(_FOLDERS))


@contextlib.contextmanager
def _started(kind: _Kind, folder: Path) -> Iterator[Broker]:
    for _ in range(_ATTEMPTS):
        with _launched(kind, folder) as (process, port):
            if _is_ready(process, port):
                address = Address(HOST, port, protocol=kind.protocol)
                yield Broker(address, f"{kind.name} on {address}", process.pid)
                return
    raise TransportError(f"broker {kind.name}: did not start: {_tail(folder / 'broker.log')}")


@contextlib.contextmanager
def _launched(kind: _Kind, folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    port = free_port()
    path = folder / f"broker.{kind.suffix}"
    path.write_text(kind.settings.format(host=HOST, port=port), encoding="utf-8")
    guard = (sys.executable, "-I", "-S", "-c", _GUARD, str(os.getpid()))
    with (folder / "broker.log").open("ab") as log:
        process = subprocess.Popen(  # noqa: S603 - our own command
            [*guard, *kind.command, str(path)], stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield process, port
    finally:
        process.terminate()
        try:
            process.wait(3.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdin is not None:
            process.stdin.close()


def free_port() -> int:
    """A port of the loopback on which nothing listens."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _is_ready(process: subprocess.Popen[bytes], port: int) -> bool:
    end = time.monotonic() + _START
    while process.poll() is None and time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection((HOST, port), timeout=1.0):
            return process.poll() is None
        time.sleep(0.02)
    return False


def _tail(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-3:]
    return " | ".join(lines) or "no word in its log"
