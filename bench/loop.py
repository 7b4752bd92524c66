"""The cost of the testbed's own loop: decode, node, encode, MQTT, records, without any gradient.

Measures CPU milliseconds of all processes together (broker, cloud, edges) for one update, that is one payload down and
one up, against the same bytes going round between bare MQTT clients at the same quality of service. Runs of both
kinds alternate; medians over the rounds.

    python bench/loop.py [--edges 1 2 3 4 5] [--rounds 5] [--seconds 3] [--parameters 12752]
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from ctypes import c_long
from pathlib import Path
from typing import Any

import numpy as np
import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from common.address import Address
from common.broker import choose
from common.events import Event
from common.messages import Directive, Hello, Message, Model, Update
from common.mqtt import Identity, Shell
from common.node import CLOUD, Effect, Halt, NodeId, Record, Send
from common.records import Recorder
from common.tensors import Layout, Tensors
from common.wire import Envelope, encode

EVENT = Event(mechanism="gaussian", noise_multiplier=1.0, sampling="poisson", sampling_rate=0.01)
TICK = os.sysconf("SC_CLK_TCK")


def layout_of(parameters: int) -> Layout:
    """Six tensors, as many as the paper's network has."""
    rest = parameters - 10 * 25 - 10 - 20 * 250 - 20 - 62
    shapes = {"conv1.weight": (10, 1, 5, 5), "conv1.bias": (10,), "conv2.weight": (20, 10, 5, 5), "conv2.bias": (20,)}
    return Layout.of({**shapes, "fc.weight": (rest,), "fc.bias": (62,)})


class Cloud:
    """Applies each update in place, records it, and answers with a model."""

    def __init__(self, layout: Layout, count: Any) -> None:
        self.layout, self.count, self.flat, self.tickets = layout, count, layout.zeros(), {}

    def start(self, now: float) -> Sequence[Effect]:
        return []

    def on_wake(self, name: str, now: float) -> Sequence[Effect]:
        return []

    def on_message(self, sender: NodeId, message: Message, now: float) -> Sequence[Effect]:
        effects: list[Effect] = []
        if isinstance(message, Update):
            self.flat -= message.tensors.flat
            self.count.value += 1
            row = {
                "edge": sender,
                "ticket": message.ticket,
                "version": message.version,
                "staleness": 0,
                "applied": True,
            }
            effects.append(Record("update", row))
        ticket = self.tickets[sender] = self.tickets.get(sender, 0) + 1
        directive = Directive(stage=1, learning_rate=0.1, clip_norm=1.0)
        model = Model(ticket=ticket, version=ticket, directive=directive, tensors=Tensors(self.layout, self.flat))
        return [*effects, Send(sender, model)]


class Edge:
    """Answers each model with the same release, which it records."""

    def __init__(self, layout: Layout) -> None:
        self.release = Tensors(layout, np.random.default_rng(1).normal(size=layout.size).astype(np.float32))

    def start(self, now: float) -> Sequence[Effect]:
        return [Send(CLOUD, Hello(digest="0" * 64, boot="b", samples=1, event=EVENT))]

    def on_wake(self, name: str, now: float) -> Sequence[Effect]:
        return []

    def on_message(self, sender: NodeId, message: Message, now: float) -> Sequence[Effect]:
        if not isinstance(message, Model):
            return [Halt("over")]
        update = Update(ticket=message.ticket, version=message.version, work=48.0, event=EVENT, tensors=self.release)
        return [Record("release", {"ticket": message.ticket, "version": message.version}), Send(CLOUD, update)]


def live(address: Address, folder: Path, name: NodeId, parameters: int, count: Any) -> None:
    layout = layout_of(parameters)
    node = Cloud(layout, count) if name == CLOUD else Edge(layout)
    recorder = Recorder(folder / f"{name}.jsonl", "bench", name)
    Shell(node, Identity.fresh("bench", name), address, recorder, layout=layout).run()


def bare(address: Address, folder: Path, name: NodeId, parameters: int, count: Any) -> None:
    """A bare client: returns as many bytes as the product sends, from the callback."""
    layout = layout_of(parameters)
    update = Update(ticket=1000, version=1000, work=48.0, event=EVENT, tensors=Tensors(layout, layout.zeros()))
    payload = encode(Envelope("bench", "0" * 25, 1000, time.time(), update))
    version = MQTTProtocolVersion.MQTTv5 if address.protocol == "5" else MQTTProtocolVersion.MQTTv311
    client = paho.Client(CallbackAPIVersion.VERSION2, protocol=version)
    client.on_socket_open = lambda _client, _data, sock: sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def answer(_client: paho.Client, _data: object, message: paho.MQTTMessage) -> None:
        if name == CLOUD:
            count.value += 1
            client.publish(message.topic.replace("up", "down"), payload, qos=1)
        else:
            client.publish(f"bare/up/{name}", payload, qos=1)

    def begin(*_: object) -> None:
        client.subscribe("bare/up/+" if name == CLOUD else f"bare/down/{name}", qos=1)

    def opened(*_: object) -> None:
        if name != CLOUD:
            client.publish(f"bare/up/{name}", payload, qos=1)

    client.on_message, client.on_connect, client.on_subscribe = answer, begin, opened
    client.connect(address.host, address.port)
    client.loop_forever()


def cpu_of(process: int) -> float:
    """CPU seconds of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def measured(
    work: Callable[..., None], address: Address, broker: int, *, edges: int, seconds: float, parameters: int
) -> tuple[float, float, dict[str, float]]:
    """CPU milliseconds of one update, updates per second, and the parts of broker, cloud and edges."""
    context = multiprocessing.get_context("spawn")
    count = context.RawValue(c_long, 0)
    with tempfile.TemporaryDirectory() as folder:
        names = [CLOUD, *(f"edge-{number:04d}" for number in range(1, edges + 1))]
        processes = []
        for name in names:
            processes.append(context.Process(target=work, args=(address, Path(folder), name, parameters, count)))
            processes[-1].start()
            time.sleep(1.5 if name == CLOUD else 0.0)
        try:
            while count.value < 200:
                time.sleep(0.05)
            ids = {"broker": [broker], "cloud": [processes[0].pid], "edges": [each.pid for each in processes[1:]]}
            before, first, began = (
                {kind: sum(map(cpu_of, group)) for kind, group in ids.items()},
                count.value,
                time.monotonic(),
            )
            time.sleep(seconds)
            after, last, ended = (
                {kind: sum(map(cpu_of, group)) for kind, group in ids.items()},
                count.value,
                time.monotonic(),
            )
        finally:
            for process in processes:
                process.kill()
                process.join()
    updates = last - first
    parts = {kind: 1e3 * (after[kind] - before[kind]) / updates for kind in ids}
    return sum(parts.values()), updates / (ended - began), parts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--edges", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--parameters", type=int, default=12_752)
    parser.add_argument("--protocol", choices=["5", "3.1.1"], default="5")
    given = parser.parse_args()
    kinds = {"bare": bare, "product": live}
    print("edges  bare CPU ms  product CPU ms  ratio (each round)  bare/s  product/s  product: broker cloud edges")
    for edges in given.edges:
        found: dict[str, list[Any]] = {kind: [] for kind in kinds}
        for _ in range(given.rounds):
            for kind, work in kinds.items():
                with tempfile.TemporaryDirectory() as folder, choose(None, Path(folder)) as broker:
                    assert broker.process is not None
                    address = Address(broker.host, broker.port, protocol=given.protocol)
                    found[kind].append(
                        measured(
                            work,
                            address,
                            broker.process,
                            edges=edges,
                            seconds=given.seconds,
                            parameters=given.parameters,
                        )
                    )
        ratios = [ours[0] / theirs[0] for ours, theirs in zip(found["product"], found["bare"], strict=True)]
        middle = {
            kind: [statistics.median(run[place] for run in runs) for place in (0, 1)] for kind, runs in found.items()
        }
        parts = [statistics.median(run[2][part] for run in found["product"]) for part in ("broker", "cloud", "edges")]
        each = " ".join(f"{ratio:.2f}" for ratio in ratios)
        print(
            f"{edges:5d}  {middle['bare'][0]:11.3f}  {middle['product'][0]:14.3f}  {statistics.median(ratios):.2f} "
            f"({each})  {middle['bare'][1]:6.0f}  {middle['product'][1]:9.0f}  "
            + " ".join(f"{part:.3f}" for part in parts),
            flush=True,
        )


if __name__ == "__main__":
    main()
