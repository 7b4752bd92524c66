"""Toy nodes, shells in threads, and a broker that can be stopped and started again.

As a program: one toy edge on the broker at `argv[1]`, until it is killed.
"""

from __future__ import annotations

import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from common.address import Address
from common.broker import HOST, free_port, mosquitto
from common.events import Event
from common.messages import Directive, Hello, Message, Model, Running, Stop, Update
from common.mqtt import Identity, Shell
from common.node import CLOUD, EDGES, Effect, Halt, NodeId, Record, Send, Wake
from common.records import Recorder, read
from common.tensors import Layout, Tensors

LAYOUT = Layout.of({"w": (20, 5)})
EVENT = Event(mechanism="none")
DIGEST = "0" * 64


def tensors(value: float, layout: Layout = LAYOUT) -> Tensors:
    return Tensors(layout, np.full(layout.size, value, dtype=np.float32))


def wait_for(condition: Callable[[], object], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "what was waited for did not happen"
        time.sleep(0.01)


class Toy:
    """A node that notes everything and answers as told."""

    def __init__(self, *first: Effect) -> None:
        self.first = first
        self.heard: list[tuple[NodeId, Message]] = []
        self.woken: list[str] = []
        self.started = False

    def start(self, now: float) -> Sequence[Effect]:
        self.started = True
        return self.first

    def on_message(self, sender: NodeId, message: Message, now: float) -> Sequence[Effect]:
        self.heard.append((sender, message))
        return self.reply(sender, message)

    def on_wake(self, name: str, now: float) -> Sequence[Effect]:
        self.woken.append(name)
        return self.wake(name)

    def reply(self, sender: NodeId, message: Message) -> Sequence[Effect]:
        return [Halt("told to")] if isinstance(message, Stop) else []

    def wake(self, name: str) -> Sequence[Effect]:
        return []

    def kinds(self) -> list[str]:
        return [message.kind for _, message in self.heard]


class Pupil(Toy):
    """An edge: one update for each model, the newest one again on every connection and after a second of silence."""

    def __init__(self, layout: Layout = LAYOUT) -> None:
        self.last: Message = Hello(digest=DIGEST, boot="b", samples=1, event=EVENT)
        self.layout = layout
        super().__init__(Send(CLOUD, self.last), Wake("silence", 1.0))

    def reply(self, sender: NodeId, message: Message) -> Sequence[Effect]:
        if isinstance(message, Model):
            value = float(message.tensors.flat[0]) + 1.0
            self.last = Update(
                ticket=message.ticket,
                version=message.version,
                work=1.0,
                event=EVENT,
                tensors=tensors(value, self.layout),
            )
            return [Send(CLOUD, self.last), Wake("silence", 1.0)]
        return super().reply(sender, message)

    def wake(self, name: str) -> Sequence[Effect]:
        return [Send(CLOUD, self.last), Wake("silence", 1.0)]


class Teacher(Toy):
    """A cloud: hands out tickets 1, 2, ... to each edge, `rounds` of them, then stops all."""

    def __init__(self, edges: int, rounds: int, layout: Layout = LAYOUT) -> None:
        super().__init__(Send(EDGES, Running(boot="b", digest=DIGEST)))
        self.edges, self.rounds, self.layout = edges, rounds, layout
        self.tickets: dict[NodeId, int] = {}
        self.accepted: list[tuple[NodeId, int, float]] = []

    def reply(self, sender: NodeId, message: Message) -> Sequence[Effect]:
        ticket = self.tickets.get(sender, 0)
        if isinstance(message, Hello):
            ticket = 0 if ticket == 1 else ticket  # a second Hello before the first answer
        elif not isinstance(message, Update):
            return []
        elif message.ticket != ticket:
            return [self.model(sender, ticket)] if ticket <= self.rounds else []
        else:
            self.accepted.append((sender, ticket, float(message.tensors.flat[0])))
        if len(self.accepted) == self.edges * self.rounds:
            return [Send(EDGES, Stop(reason="done")), Record("end", {"reason": "done"}), Halt("done")]
        self.tickets[sender] = ticket + 1
        return [self.model(sender, ticket + 1)] if ticket < self.rounds else []

    def model(self, edge: NodeId, ticket: int) -> Send:
        value = tensors(float(ticket), self.layout)
        return Send(edge, Model(ticket=ticket, version=ticket, directive=Directive(), tensors=value))


@dataclass
class Life:
    """One node's shell in a thread."""

    shell: Shell
    path: Path
    code: int | None = None
    error: BaseException | None = None
    thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._live, daemon=True)
        self.thread.start()

    def _live(self) -> None:
        try:
            self.code = self.shell.run()
        except Exception as error:
            self.error = error

    def end(self, seconds: float = 30.0) -> int | None:
        self.thread.join(seconds)
        assert not self.thread.is_alive(), "the shell did not end"
        return self.code

    def rows(self, kind: str) -> list[dict[str, Any]]:
        return [row for row in read(self.path) if row["kind"] == kind]


class Place:
    """A folder and a broker in which nodes live."""

    def __init__(self, address: Address, folder: Path) -> None:
        self.address, self.folder = address, folder
        self.run = f"run-{secrets.token_hex(4)}"
        self.lives: list[Life] = []

    def live(self, node: Toy, name: NodeId, *, address: Address | None = None, **more: Any) -> Life:
        run = more.pop("run", self.run)
        path = more.pop("path", self.folder / f"{name}-{len(self.lives)}.jsonl")
        more.setdefault("layout", LAYOUT)
        shell = Shell(node, Identity.fresh(run, name), address or self.address, Recorder(path, run, name), **more)
        self.lives.append(Life(shell, path))
        return self.lives[-1]

    def leave(self) -> None:
        """Ends the shells that still run."""
        running = [life for life in self.lives if life.thread.is_alive()]
        for life in running:
            life.shell._link.close(0.0, leave=True)
        for life in running:
            life.thread.join(10.0)

    def topic(self, below: str) -> str:
        return f"fl/{self.run}/{below}"

    def joined(self, node: Toy, name: NodeId, **more: Any) -> Life:
        life = self.live(node, name, **more)
        wait_for(lambda: node.started)
        return life


class Mosquitto:
    """A broker on a port of its own, with settings of its own; can be killed and started again."""

    def __init__(self, folder: Path, *settings: str) -> None:
        self.port = free_port()
        self.address = Address(HOST, self.port)
        self.settings = folder / "mosquitto.conf"
        lines = [f"listener {self.port} {HOST}", "user root", "set_tcp_nodelay true", "persistence false", *settings]
        self.settings.write_text("\n".join(lines) + "\n")
        self.start()

    def start(self) -> None:
        program = mosquitto()
        assert program is not None
        self.process = subprocess.Popen([program, "-c", str(self.settings)], stderr=subprocess.DEVNULL)
        wait_for(self._answers)

    def _answers(self) -> bool:
        return self._listens(self.port)

    @staticmethod
    def _listens(port: int) -> bool:
        try:
            with socket.create_connection((HOST, port), timeout=1.0):
                return True
        except OSError:
            return False

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Stranger:
    """A bare MQTT client."""

    def __init__(self, address: Address, *filters: str, will: tuple[str, bytes] | None = None) -> None:
        self.heard: list[tuple[str, bytes]] = []
        self.client = paho.Client(CallbackAPIVersion.VERSION2)
        if address.username is not None:
            self.client.username_pw_set(address.username)
        if will is not None:
            self.client.will_set(*will, qos=1, retain=True)
        self.client.on_message = lambda _client, _data, message: self.heard.append((message.topic, message.payload))
        self.client.connect(address.host, address.port)
        self.client.loop_start()
        for topic in filters:
            self.client.subscribe(topic, qos=1)

    def say(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        self.client.publish(topic, payload, qos=1, retain=retain).wait_for_publish(10.0)

    def vanish(self) -> None:
        """Ends without a word, so that the broker sends its will."""
        self.client.socket().close()  # type: ignore[union-attr]
        self.client.loop_stop()

    def leave(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


if __name__ == "__main__":
    where = Address.parse(sys.argv[1])
    run, name = sys.argv[2:4]
    Shell(Pupil(), Identity.fresh(run, name), where, Recorder(Path(sys.argv[4]), run, name)).run()
