"""What it costs a cloud to write down all that it hears, and how long it takes to go on from there.

    python bench/checkpoints.py [--updates 4000] [--rounds 5]

One process, without a broker: each update is decoded, heard, answered with an encoded model and recorded, as by a
shell, with and without a checkpoint. Processor time, in turns; the ratio is what counts. Then recovery at its longest:
the events just before a snapshot is due.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests")]

from harness import experiment  # noqa: E402

from cloud import durable  # noqa: E402
from cloud.build import Cloud, build  # noqa: E402
from cloud.checkpoint import About, Checkpoint, digest_of  # noqa: E402
from cloud.durable import Durable  # noqa: E402
from cloud.recovery import Memory, Recovered, recover  # noqa: E402
from common.experiment import edge_ids  # noqa: E402
from common.messages import Hello, Model, Update  # noqa: E402
from common.node import CLOUD, Record, Send  # noqa: E402
from common.records import Recorder  # noqa: E402
from common.tensors import Tensors  # noqa: E402
from common.wire import Envelope, Limits, decode, encode  # noqa: E402
from edge.build import build as build_edge  # noqa: E402

MODELS = {"softmax": 1, "cnn": 40}
"""Of each, one in so many updates is made."""


def plan_of(model: str, updates: int) -> Any:
    return experiment(model={"name": model}, algorithm={"name": "asgd", "batch_size": 12},
                      privacy={"mechanism": "none"}, stop__updates=updates + 1)  # fmt: skip


def drive(node: Any, cloud: Cloud, plan: Any, recorder: Recorder, updates: int) -> float:
    """Processor seconds of so many updates."""
    limits, event = Limits.of(cloud.layout), build_edge(plan, "edge-0001", "b1").node._hello.event
    flat = np.full(cloud.layout.size, 1e-6, dtype=np.float32)
    tensors, boot = Tensors(cloud.layout, flat), "cloud-boot-1"
    node.start(0.0)
    tickets: dict[str, tuple[int, int]] = {}

    def perform(effects: Any) -> None:
        for effect in effects:
            if isinstance(effect, Record):
                recorder.append(effect.kind, effect.row, 1.0)
            elif isinstance(effect, Send) and isinstance(effect.message, Model):
                encode(Envelope("bench", boot, 1, 1.0, effect.message))
                tickets[str(effect.to)] = effect.message.ticket, effect.message.version

    edges = edge_ids(plan.data.edges)
    for edge in edges:
        perform(node.on_message(edge, Hello(digest=plan.digest(), boot="b1", samples=10, event=event), 1.0))
    payloads = []
    begun = time.process_time()
    spent = 0.0
    for number in range(updates):
        edge = edges[number % len(edges)]
        ticket, version = tickets[edge]
        pause = time.process_time()
        update = Update(ticket=ticket, lineage=boot, version=version, work=12.0, event=event, tensors=tensors)
        payloads[:] = [encode(Envelope("bench", "b1", number, 1.0, update))]
        spent += time.process_time() - pause  # an edge's work
        message = decode(payloads[0], limits, cloud.layout).message
        perform(node.on_message(edge, message, 1.0 + number * 1e-3))
    return time.process_time() - begun - spent


def once(plan: Any, updates: int, folder: Path, *, is_durable: bool) -> float:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    cloud = build(plan, "cloud-boot-1")
    recorder = Recorder(folder / "records.jsonl", "bench", CLOUD)
    if not is_durable:
        seconds = drive(cloud.node, cloud, plan, recorder, updates)
        recorder.close()
        return seconds
    checkpoint = Checkpoint(folder)
    checkpoint.begin(About("bench", digest_of(plan), "cloud-boot-1"))
    node = Durable(Recovered(cloud, Memory(), 0), checkpoint, folder / "records.jsonl", 0.0)
    seconds = drive(node, cloud, plan, recorder, updates)
    recorder.close()
    node.close()
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="checkpoints-"))
    for model, share in MODELS.items():
        updates = arguments.updates // share
        plan, ratios = plan_of(model, updates), []
        for _ in range(arguments.rounds):
            bare = once(plan, updates, folder, is_durable=False)
            kept = once(plan, updates, folder, is_durable=True)
            ratios.append(kept / bare)
            per = 1e6 / updates
            print(f"{model}: {bare * per:.0f} us an update bare, {kept * per:.0f} us kept, ratio {kept / bare:.2f}")
        print(f"{model}: median ratio {np.median(ratios):.2f}")
        most = durable.EVENTS if model == "softmax" else updates
        plan = plan_of(model, most)
        once(plan, most - 8, folder, is_durable=True)
        cpu, begun = time.process_time(), time.monotonic()
        found = recover(Checkpoint(folder), lambda: build(plan, "b2", "cloud-boot-1"), folder / "records.jsonl")  # noqa: B023
        took, cpu = time.monotonic() - begun, time.process_time() - cpu
        print(f"{model}: {found.events} events, {found.size / 1e6:.0f} MB: {took:.2f} s ({cpu:.2f} s of processor)")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
