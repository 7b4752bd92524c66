"""Many edges in one process: the real nodes behind the real shells, on one thread and one selector.

    python bench/crowd.py EXPERIMENT HOST:PORT RUN FIRST LAST

A shell by itself has a network thread, and 337 of those fill a process (paho waits with `select`). Here nothing waits:
each client is read and written when its socket is ready, then its shell takes one turn. All edges share one copy of the
records, of which each sees its part. They keep no ledgers and no records: this is for load, not for results.
"""

from __future__ import annotations

import heapq
import resource
import selectors
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho

from common.address import Address
from common.experiment import Experiment, edge_ids, load
from common.identity import Identity
from common.link import KEEPALIVE
from common.mqtt import FLUSH, Shell
from common.records import Recorder
from edge.build import Edge, build_all

RAMP = 200
"""Connections a second at the start, so that the broker keeps up."""
_LOOK, _IDLE = 1.0, 0.05


@dataclass(eq=False)
class Member:
    """One edge: its shell, and where it is."""

    shell: Shell
    is_started: bool = False
    leaves_at: float | None = None
    looks_at: float = 0.0
    is_gone: bool = False

    @property
    def client(self) -> paho.Client:
        return self.shell._link._client

    def turn(self) -> float:
        """Does what there is to do; when to look again, at the latest."""
        shell, now = self.shell, self.shell._now()
        shell._collect(0.0)
        if not self.is_started:
            if shell._vigil.is_up and shell._membership.is_clear(now):
                self._begin()
            return now + _IDLE
        while shell._performer.halt is None:
            shell._turn()
            if not len(shell._mailbox) and shell._inbox.empty():
                break
            shell._collect(0.0)
        if shell._performer.halt is not None:
            return self._leave(now)
        return min(shell._due, now + _LOOK)

    def _begin(self) -> None:
        self.shell._membership.join()
        self.is_started = self.shell._is_started = True
        self.shell._perform(self.shell.node.start(self.shell._now()))

    def _leave(self, now: float) -> float:
        """Says what is left to say, and goes."""
        link = self.shell._link
        if self.leaves_at is None:
            self.leaves_at = now + FLUSH
            link.announce(link._offline)
        elif link._acknowledged >= link._published or now > self.leaves_at:
            self.client.disconnect()
            self.is_gone = True
        return now + _IDLE


class Crowd:
    """All edges of this process."""

    def __init__(self, experiment: Experiment, broker: Address, run: str, names: list[str]) -> None:
        self._broker = broker
        self._selector = selectors.DefaultSelector()
        self._members = [
            self._member(name, edge, run)
            for name, edge in build_all(experiment, {name: f"crowd-{name}" for name in edge_ids(experiment.data.edges)})
            if name in names
        ]
        self._due: list[tuple[float, int]] = []

    def _member(self, name: str, edge: Edge, run: str) -> Member:
        # The boot ids of these shells are their own; what the nodes draw follows from the experiment's seed.
        identity = Identity(run, name, f"crowd-{name}")
        shell = Shell(edge.node, identity, self._broker, Recorder(Path("/dev/null"), run, name), layout=edge.layout)
        member = Member(shell)
        opened = member.client.on_socket_open

        def on_open(client: paho.Client, data: object, sock: Any) -> None:
            assert opened is not None
            opened(client, data, sock)
            sock.setblocking(False)
            self._selector.register(sock, selectors.EVENT_READ, member)

        def on_close(client: paho.Client, data: object, sock: Any) -> None:
            self._selector.unregister(sock)

        def wants(events: int) -> Any:
            return lambda client, data, sock: self._selector.modify(sock, events, member)

        member.client.on_socket_open, member.client.on_socket_close = on_open, on_close
        member.client.on_socket_register_write = wants(selectors.EVENT_READ | selectors.EVENT_WRITE)
        member.client.on_socket_unregister_write = wants(selectors.EVENT_READ)
        return member

    def run(self) -> None:
        """Until all edges have left."""
        for member in self._members:
            member.client.connect_async(self._broker.host, self._broker.port, KEEPALIVE, clean_start=True)
            member.client.reconnect()
            self._serve(1.0 / RAMP)
        self._due = [(0.0, place) for place in range(len(self._members))]
        misc = time.monotonic()
        while not all(member.is_gone for member in self._members):
            self._serve(_IDLE)
            now = self._members[0].shell._now()
            while self._due and self._due[0][0] <= now:
                _, place = heapq.heappop(self._due)
                member = self._members[place]
                if not member.is_gone:
                    heapq.heappush(self._due, (member.turn(), place))
            if time.monotonic() > misc + 1.0:
                misc = time.monotonic()
                for member in self._members:
                    if not member.is_gone:
                        member.client.loop_misc()

    def _serve(self, seconds: float) -> None:
        """Waits until a socket is ready, at most so long; reads and writes, and gives those edges their turn."""
        for key, mask in self._selector.select(seconds):
            member: Member = key.data
            if mask & selectors.EVENT_READ:
                member.client.loop_read()
            if mask & selectors.EVENT_WRITE:
                member.client.loop_write()
            if not member.shell._inbox.empty():
                member.turn()


def main() -> None:
    file, broker, run, first, last = sys.argv[1:]
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    experiment = load(Path(file), [])
    names = list(edge_ids(experiment.data.edges))[int(first) - 1 : int(last)]
    Crowd(experiment, Address.parse(broker), run, names).run()


if __name__ == "__main__":
    main()
