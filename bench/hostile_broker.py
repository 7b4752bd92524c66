"""A cloud besieged over a real Mosquitto: programs as users run them, and a hostile client.

    python bench/hostile_broker.py [--garbage 100000] [--messages 10000] [--updates 20000]

A cloud and two edges as processes; the client publishes what `hostile.py` makes up, three in four on the third edge's
topics, which end up muted, the rest in the names of ever new strangers. Tells the cloud's memory before and after, its
records, and the accuracy of the model against that of the same run without a siege (one run each: noise and order
differ, so about 0.02 of it is chance).
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import yaml
from hostile import GROWTH, HONEST, HOSTILE, known, plan, resident
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from common.broker import Broker, choose
from common.experiment import Experiment
from common.node import CLOUD
from common.records import read
from common.seeds import stream
from lab.attacks.hostility import Hostility


@dataclass
class Programs:
    """A cloud and the honest edges as processes."""

    folder: Path
    run: str
    broker: Broker
    processes: dict[str, subprocess.Popen[bytes]]

    @classmethod
    def start(cls, folder: Path, run: str, broker: Broker, experiment: Experiment) -> Programs:
        folder.mkdir()
        file = folder / "given.yaml"
        file.write_text(yaml.safe_dump(experiment.model_dump(mode="json")), encoding="utf-8")
        processes = {}
        for name in (CLOUD, *HONEST):
            role = ["cloud"] if name == CLOUD else ["edge", "--id", name]
            command = [sys.executable, "-m", *role, "--experiment", str(file), "--broker", str(broker.address)]
            with (folder / f"{name}.log").open("wb") as log:
                command += ["--run", run, "--out", str(folder / "run")]
                processes[name] = subprocess.Popen(command, stderr=log)
        return cls(folder, run, broker, processes)

    def rows(self, kind: str) -> list[dict[str, Any]]:
        path = self.folder / "run" / "cloud" / "records.jsonl"
        return [row for row in read(path) if row["kind"] == kind] if path.exists() else []

    def reach(self, updates: int) -> None:
        end = time.monotonic() + 300.0
        while len(self.rows("update")) < updates:
            if time.monotonic() > end or self.processes[CLOUD].poll() is not None:
                raise SystemExit(f"the cloud made {len(self.rows('update'))} of {updates} updates")
            time.sleep(0.2)

    def finish(self) -> dict[str, Any]:
        codes = {name: process.wait(3000.0) for name, process in self.processes.items()}
        if set(codes.values()) != {0}:
            raise SystemExit(f"exit codes: {codes}: expected 0")
        content = json.loads((self.folder / "run" / "summary.json").read_text(encoding="utf-8"))
        assert isinstance(content, dict)
        return content


def besieged_on_a_broker(garbage: int, messages: int, updates: int) -> None:
    """The same run with and without a siege; prints what both came to.

    Raises:
        SystemExit: a program failed, or the cloud grew, or the model got worse.
    """
    base = plan(updates)
    quorum = base.algorithm.model_copy(update={"cloud": base.algorithm.cloud | {"quorum": 2}})
    experiment = base.model_copy(update={"algorithm": quorum})
    with tempfile.TemporaryDirectory() as folder, choose(None, Path(folder), print) as broker:
        quiet = Programs.start(Path(folder, "quiet"), "quiet", broker, experiment).finish()
        programs = Programs.start(Path(folder, "loud"), "loud", broker, experiment)
        programs.reach(updates // 20)
        before, process = resident(programs.processes[CLOUD].pid), programs.processes[CLOUD]
        client = paho.Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv5)
        client.connect(broker.host, broker.port)
        client.loop_start()
        lineage = json.loads((programs.folder / "run" / "run.json").read_text(encoding="utf-8"))["boot"]
        told = replace(known(), run="loud", digest=experiment.digest(), lineage=lineage)
        hostility = Hostility(told, stream(8, "hostility"))
        said, most = 0, before
        sources = (itertools.islice(hostility.messages(), messages), itertools.islice(hostility.garbage(), garbage))
        for below, payload in itertools.chain.from_iterable(sources):
            said += 1
            sender = HOSTILE if said % 4 else f"stranger-{said}"
            info = client.publish(f"fl/loud/edge/{sender}/{below}", payload, qos=1)
            if said % 100 == 0:
                info.wait_for_publish(60.0)
                if process.poll() is not None:
                    break  # `finish` tells whether it ended well
                most = max(most, resident(process.pid))
        during = len(programs.rows("update"))
        loud = programs.finish()
        client.disconnect()
        client.loop_stop()
        muted, unread = programs.rows("muted"), programs.rows("unread")
        size = (programs.folder / "run" / "cloud" / "records.jsonl").stat().st_size
    print(f"{said} payloads over the broker, until update {during}: {before:.0f} MB before, {most:.0f} MB at most")
    print(f"  muted: {[(row['edge'], row['reason'][:60]) for row in muted]}, unread {[row['count'] for row in unread]}")
    accuracies = quiet["test_accuracy"], loud["test_accuracy"]
    print(f"  records {size / 1000:.0f} KB; accuracy {accuracies[0]:.3f} quiet, {accuracies[1]:.3f} besieged")
    if most > before + 4 * GROWTH or accuracies[1] < accuracies[0] - 0.05 or loud["updates"] != updates:
        raise SystemExit("the siege left a trace")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--garbage", type=int, default=100_000)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--updates", type=int, default=20_000)
    given = parser.parse_args()
    besieged_on_a_broker(given.garbage, given.messages, given.updates)


if __name__ == "__main__":
    main()
