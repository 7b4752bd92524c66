"""A cloud besieged in memory: does it stand, and do its memory, its records and its model stay what they are?

    python bench/hostile.py [--garbage 100000] [--messages 10000]

The real node behind the real shell, from the bytes that its MQTT client hands over; only the network is left out
(`hostile_broker.py` has it). Two honest edges train, the third is hostile and sends between their updates: first
`garbage` payloads, all of them read (nobody is muted), then `messages` well-formed ones, all of them read as well, then
all of it once more at the limits as they are shipped. Each time the model must be, bit for bit, that of a run in which
the third edge says Hello and then nothing.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import paho.mqtt.client as paho

from cloud.build import build as build_cloud
from common.address import Address
from common.doorman import Guests, Manners
from common.experiment import Experiment, parse
from common.identity import Identity
from common.mqtt import Shell
from common.node import CLOUD, NodeId
from common.records import Recorder, read
from common.seeds import stream
from edge.build import build as build_edge
from lab.attacks.hostility import Hostility, Knowledge, Said

HONEST, HOSTILE = ("edge-0001", "edge-0002"), "edge-0003"
RUN = "besieged"
PATIENT = Manners(rate=1e9, burst=10**9, faults=10**9, waiting=10**9)
"""Manners of a cloud that reads everything."""
GROWTH = 8.0
"""Megabytes that a process may grow by in the second half of a siege: what is kept of so many messages is bounded."""


def plan(updates: int) -> Experiment:
    return parse(
        {
            "name": "besieged",
            "data": {"name": "digits", "edges": 3},
            "model": {"name": "softmax"},
            "algorithm": {"name": "audp", "batch_size": 12, "cloud": {"radius": 30.0}},
            "privacy": {"noise_multiplier": 1.0, "randomness": "reproducible"},
            "stop": {"updates": updates},
            "evaluation": {"every": 0},
        }
    )


class Cable:
    """Three shells and no network: what one of them publishes is handed to the others' MQTT clients."""

    def __init__(self, experiment: Experiment, folder: Path, manners: Manners) -> None:
        self._waiting: deque[tuple[str, bytes]] = deque()
        self.overheard: list[bytes] = []
        cloud = build_cloud(experiment, "b-cloud")
        guests = Guests(cloud.guests.members, manners)
        self.node, self.layout = cloud.node, cloud.layout
        self.records = folder / "records.jsonl"
        self.cloud = self._shell(CLOUD, cloud.node, self.records, layout=cloud.layout, guests=guests)
        self.cloud.evaluate = lambda tensors: {"accuracy": 0.0}
        self.edges: dict[NodeId, Shell] = {}
        for name in (*HONEST, HOSTILE):
            edge = build_edge(experiment, name, f"b-{name}")
            self.edges[name] = self._shell(name, edge.node, Path("/dev/null"), layout=edge.layout)
        self.event = edge.node._hello.event
        for shell in (self.cloud, *self.edges.values()):
            shell._connected("5")
            shell._is_started = True
            shell._perform(shell.node.start(shell._now()))
        self.deliver()
        del self.edges[HOSTILE]  # it has said Hello; its part is played by others from here on

    def _shell(self, name: NodeId, node: Any, path: Path, **more: Any) -> Shell:
        more.setdefault("evaluate", lambda tensors: {"accuracy": 0.0})
        shell = Shell(node, Identity(RUN, name, f"b-{name}"), Address("nowhere"), Recorder(path, RUN, name), **more)
        shell._courier._publish = self._publish
        return shell

    def _publish(self, topic: str, payload: bytes, retained: bool = False) -> bool:
        self._waiting.append((topic, payload))
        return True

    @property
    def is_over(self) -> bool:
        """Whether the last update was made; the cloud may still wait for the third edge to say Bye."""
        return self.node._training.ending is not None

    def say(self, sender: NodeId, said: Said) -> None:
        """A payload arrives at the cloud, and is dealt with."""
        self._hand(self.cloud, f"fl/{RUN}/edge/{sender}/{said[0]}", said[1])

    def deliver(self) -> None:
        """Everything that was published arrives, and each node reacts to it."""
        waiting, self._waiting = self._waiting, deque()
        for topic, payload in waiting:
            if "/up/" in topic:
                self._hand(self.cloud, topic, payload)
                if len(self.overheard) < 20 and "/up/update" in topic:
                    self.overheard.append(payload)
                continue
            for name, shell in self.edges.items():
                if f"/edge/{name}/" in topic or "/public/" in topic:
                    self._hand(shell, topic, payload)

    def close(self) -> None:
        """The cloud's shell ends, as it does after its node."""
        self.cloud._warden.close(self.cloud._reception, self.cloud._performer, self.cloud._now())
        self.cloud.recorder.close()

    def _hand(self, shell: Shell, topic: str, payload: bytes) -> None:
        if shell._performer.halt is not None:
            return
        message = paho.MQTTMessage(topic=topic.encode())
        message.payload = payload
        shell._link._on_message(shell._link._client, None, message)
        while shell._performer.halt is None:
            shell._collect(0.0)
            if not len(shell._mailbox):
                break
            shell._turn()


@dataclass(frozen=True)
class Siege:
    """What came of one: parameters, megabytes that the process grew by in the second half, rows and bytes on disk."""

    flat: Any
    said: int
    growth: float
    rows: dict[str, int]
    size: int
    seconds: float
    muted: int


def besiege(said: Iterator[Said] | None, count: int, manners: Manners, updates: int = 400) -> Siege:
    """Two honest edges make `updates` updates while `count` hostile payloads arrive, evenly spread over them.

    Raises:
        SystemExit: the cloud stopped, or the honest edges did not come to their end.
    """
    began, done, half = time.monotonic(), 0, 0.0
    with tempfile.TemporaryDirectory(dir=_memory()) as folder:
        cable = Cable(plan(updates), Path(folder), manners)
        hostility = None
        for _ in range(100 * updates):
            if cable.is_over:
                break
            if said is None and hostility is None:
                hostility = Hostility(knowledge(cable), stream(7, "hostility"))
            share = min(count, count * (cable.node._training.updates + 2) // updates)
            while done < share:
                if hostility is not None:
                    hostility.overheard = cable.overheard
                assert said is not None
                cable.say(HOSTILE, next(said))
                done += 1
                if done == count // 2:
                    half = resident()
            cable.deliver()
        if not cable.is_over:
            raise SystemExit("the honest edges did not come to their end")
        cable.close()
        rows = Counter(row["kind"] for row in read(cable.records))
        growth = resident() - half if half else 0.0
        flat, size = cable.node.tensors.flat.copy(), cable.records.stat().st_size
        muted = len(cable.cloud._doorman.unread())
    return Siege(flat, done, growth, dict(rows), size, time.monotonic() - began, muted)


def knowledge(cable: Cable) -> Knowledge:
    charter = cable.node._charter
    return Knowledge(RUN, charter.admission.digest, cable.layout, cable.event, charter.lineage)


def known() -> Knowledge:
    """What a hostile edge of the plan knows."""
    with tempfile.TemporaryDirectory(dir=_memory()) as folder:
        cable = Cable(plan(400), Path(folder), PATIENT)
        cable.close()
        return knowledge(cable)


def resident(process: int | str = "self") -> float:
    """Megabytes of a process in memory."""
    for line in Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise SystemExit(f"process {process}: expected it to run")


def _memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def besieged_in_memory(garbage: int, messages: int, updates: int = 400) -> dict[str, Siege]:
    """The four sieges.

    Raises:
        SystemExit: one of them left a trace that it must not leave.
    """
    hostility = Hostility(known(), stream(7, "hostility"))
    sieges = {"no siege": besiege(iter(()), 0, PATIENT, updates)}
    sieges["garbage, all read"] = besiege(hostility.garbage(), garbage, PATIENT, updates)
    sieges["messages, all read"] = besiege(hostility.messages(), messages, PATIENT, updates)
    sieges["garbage, as shipped"] = besiege(hostility.garbage(), garbage, Manners(), updates)
    sieges["messages, as shipped"] = besiege(hostility.messages(), messages, Manners(), updates)
    faults = []
    for name, siege in sieges.items():
        if not np.array_equal(siege.flat, sieges["no siege"].flat):
            faults.append(f"{name}: another model")
        if siege.growth > GROWTH:
            faults.append(f"{name}: {siege.growth:.1f} MB more in the second half")
        if siege.muted != ("as shipped" in name):
            faults.append(f"{name}: {siege.muted} muted")
    if faults:
        raise SystemExit("; ".join(faults))
    return sieges


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--garbage", type=int, default=100_000)
    parser.add_argument("--messages", type=int, default=10_000)
    given = parser.parse_args()
    print(f"{'siege':22}{'payloads':>10}{'s':>8}{'MB more':>9}{'file KB':>9}  rows besides updates")
    for name, siege in besieged_in_memory(given.garbage, given.messages).items():
        rows = {kind: count for kind, count in siege.rows.items() if kind != "update"}
        print(f"{name:22}{siege.said:10}{siege.seconds:8.1f}{siege.growth:9.2f}{siege.size / 1000:9.0f}  {rows}")
    print("the same model, bit for bit, in all of them")


if __name__ == "__main__":
    main()
