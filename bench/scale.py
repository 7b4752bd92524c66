"""One broker and one cloud with 10, 100 and 1000 real edges: updates a second, memory, and what each update costs.

    python bench/scale.py [--edges 10 100 1000] [--updates 20000] [--rounds 3] [--mode async|sync] [--soak SECONDS]

The cloud is the program that users run; the edges are real nodes and shells, many in a process (`crowd.py`). The model,
the data and the work of an update are the same whatever the number of edges. Runs of different sizes take turns.

    rate    updates a second, from the first tenth of the run to its end (goal: at 1000 edges 0.8 of that at 10)
    CPU     milliseconds of the cloud's, the broker's and the edges' processors for one update: what the rate would be
            bounded by on machines of their own, and what does not change with what else this machine is doing
    MB      memory of the cloud at the end of the run (goal: at 1000 edges twice that at 10 at most)

`--soak`: a run of so many seconds with the largest number of edges, whose memory is told every tenth of it; it has to
stay where it was after the first fifth.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from common.broker import Broker, choose
from common.experiment import Experiment, parse

TICK = os.sysconf("SC_CLK_TCK")
PROCESSES = 2
"""Processes that hold the edges."""
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def plan(edges: int, stop: dict[str, Any], mode: str = "async") -> Experiment:
    return parse(
        {
            "name": "scale",
            "data": {"name": "digits", "edges": edges},
            "model": {"name": "softmax"},
            "algorithm": {
                "name": "audp",
                "mode": mode,
                "batch_size": 1,
                "cloud": {"radius": 30.0, "quorum_patience": 600.0},
            },
            "privacy": {"noise_multiplier": 0.1, "randomness": "reproducible"},
            "stop": stop,
            "evaluation": {"every": 0},
        }
    )


@dataclass(frozen=True)
class Usage:
    """Of one process so far: seconds of processor time, megabytes now."""

    seconds: float
    megabytes: float

    @classmethod
    def of(cls, process: int) -> Usage:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
        pages = int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1])
        return cls((int(fields[11]) + int(fields[12])) / TICK, pages * resource.getpagesize() / 1e6)


class Run:
    """One run: a cloud, and its edges in a few processes."""

    def __init__(self, experiment: Experiment, broker: Broker, folder: Path, name: str) -> None:
        self.folder, self._broker = folder / name, broker
        self.folder.mkdir()
        file = self.folder / "given.yaml"
        file.write_text(yaml.safe_dump(experiment.model_dump(mode="json")), encoding="utf-8")
        at = ["--broker", str(broker.address), "--run", name, "--out", str(self.folder / "run")]
        self.cloud = self._start("cloud", "-m", "cloud", "--experiment", str(file), *at)
        edges, crowd = experiment.data.edges, str(Path(__file__).with_name("crowd.py"))
        bounds = [edges * part // PROCESSES for part in range(PROCESSES + 1)]
        self.edges = [
            self._start(f"crowd-{part}", crowd, str(file), str(broker.address), name, str(first + 1), str(last))
            for part, (first, last) in enumerate(itertools.pairwise(bounds))
        ]

    def _start(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen([sys.executable, *command], stderr=log, env={**os.environ, **ONE_THREAD})

    def updates(self) -> Iterator[float]:
        """Times of the updates so far."""
        path = self.folder / "run" / "cloud" / "records.jsonl"
        with contextlib.suppress(FileNotFoundError), path.open(encoding="utf-8") as lines:
            for line in lines:
                if '"kind":"update"' in line and line.endswith("\n"):
                    yield json.loads(line)["time"]

    def usage(self) -> list[Usage]:
        """Of the cloud, the broker, and the edges together."""
        assert self._broker.process is not None
        edges = [Usage.of(process.pid) for process in self.edges]
        crowd = Usage(sum(usage.seconds for usage in edges), sum(usage.megabytes for usage in edges))
        return [Usage.of(self.cloud.pid), Usage.of(self._broker.process), crowd]

    def close(self) -> dict[str, Any]:
        for process in (self.cloud, *self.edges):
            if process.wait(600.0) != 0:
                raise SystemExit(f"{self.folder}: exit code {process.returncode}: expected 0")
        content = json.loads((self.folder / "run" / "summary.json").read_text(encoding="utf-8"))
        assert isinstance(content, dict)
        return content


@dataclass(frozen=True)
class Row:
    """What one run came to: updates a second, milliseconds an update (cloud, broker, edges), megabytes of the cloud."""

    rate: float
    cost: tuple[float, float, float]
    megabytes: float
    accuracy: float


def measure(experiment: Experiment, updates: int, broker: Broker, folder: Path, name: str) -> Row:
    run = Run(experiment, broker, folder, name)
    begun, first, before, last = 0, 0.0, run.usage(), run.usage()
    while run.cloud.poll() is None:
        done = list(run.updates())
        if not begun and len(done) >= updates // 10:
            begun, first, before = len(done), time.time(), run.usage()
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            last = run.usage()
        if len(done) >= updates:
            break
        time.sleep(0.5)
    done = list(run.updates())
    summary = run.close()
    made = updates - begun
    cost = [1000 * (after.seconds - early.seconds) / made for early, after in zip(before, last, strict=True)]
    return Row(made / (done[-1] - first), (cost[0], cost[1], cost[2]), last[0].megabytes, summary["test_accuracy"])


def compare(given: argparse.Namespace, broker: Broker, folder: Path) -> None:
    edges, updates = given.edges, given.updates
    rows: dict[int, list[Row]] = {count: [] for count in edges}
    print(
        f"{'edges':>6}{'rate/s':>9}{'ms cloud':>10}{'broker':>8}{'edges':>8}{'MB cloud':>10}{'accuracy':>10}",
        flush=True,
    )
    for number in range(given.rounds):
        for count in edges:
            # One step of a synchronous run takes an update of every edge.
            steps = updates if given.mode == "async" else max(1, updates // count)
            experiment = plan(count, {"updates": steps}, given.mode)
            row = measure(experiment, updates // count * count, broker, folder, f"scale-{number}-{count}")
            rows[count].append(row)
            costs = "".join(f"{cost:>{width}.3f}" for cost, width in zip(row.cost, (10, 8, 8), strict=True))
            print(f"{count:>6}{row.rate:>9.0f}{costs}{row.megabytes:>10.1f}{row.accuracy:>10.3f}", flush=True)
    least, most = min(edges), max(edges)
    pairs = list(zip(rows[least], rows[most], strict=True))
    rate = statistics.median(many.rate / few.rate for few, many in pairs)
    cost = statistics.median(many.cost[0] / few.cost[0] for few, many in pairs)
    memory = statistics.median(many.megabytes / few.megabytes for few, many in pairs)
    print(
        f"{most} against {least} edges: rate {rate:.2f}, cloud's processor time {cost:.2f}, cloud's memory {memory:.2f}"
    )


def soak(edges: int, seconds: float, broker: Broker, folder: Path) -> None:
    run = Run(plan(edges, {"seconds": seconds}), broker, folder, "soak")
    while not any(True for _ in run.updates()):
        time.sleep(0.5)
    begun = time.monotonic()
    print(f"{'s':>6}{'updates':>10}{'MB cloud':>10}{'broker':>9}{'edges':>9}", flush=True)
    for part in range(11):
        time.sleep(max(0.0, begun + part * seconds / 10 - 2.0 - time.monotonic()))
        usages, count = run.usage(), sum(1 for _ in run.updates())
        memory = "".join(f"{usage.megabytes:>{width}.1f}" for usage, width in zip(usages, (10, 9, 9), strict=True))
        print(f"{time.monotonic() - begun:>6.0f}{count:>10}{memory}", flush=True)
    print(run.close()["state"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--updates", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mode", choices=["async", "sync"], default="async")
    parser.add_argument("--soak", type=float, metavar="SECONDS")
    given = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # what a disk is like says nothing of the code
    with tempfile.TemporaryDirectory(dir=memory) as folder, choose(None, Path(folder), print) as broker:
        if given.soak is None:
            compare(given, broker, Path(folder))
        else:
            soak(max(given.edges), given.soak, broker, Path(folder))


if __name__ == "__main__":
    main()
