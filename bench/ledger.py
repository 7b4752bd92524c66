"""What a durable ledger costs: milliseconds of one write, and the update rate of a tiny model with and without it.

Demo-sized: softmax on the digits (650 parameters, batch 12), five edges, a real broker, everything on this machine. In
one and the same run, the edges write their releases down in every second window of time and forget them in the others;
so what else the machine does hits both alike. The rate is that of the cloud's records, without the edges of a window.
`foreign`: the share of the processors that other programs took meanwhile. Where it is large, each wait is longer, also
the one for the disk, and the ratio says more about the machine than about the ledger.

    python bench/ledger.py [--seconds 60] [--window 1.0] [--edges 5] [--folder DIR] [--most-ms 2] [--least-rate 0.9]

Exits with 1 if a write takes longer than `--most-ms` or the rate falls below `--least-rate` of what it is without.
`--folder`: where the ledgers lie, so that a disk can be measured; by default a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from common.broker import choose
from common.events import Event
from common.identity import Identity
from common.mqtt import Shell
from common.privacy.ledger import Counts
from common.program import Attended, guard, make_folder, parse, serve
from common.records import Recorder, read
from edge.build import build
from edge.ledger_file import LedgerFile
from edge.owner import Owner

MARGIN = 0.1
"""Share of a window left out at both its ends."""
WARM_UP = 3.0
CALM = 0.05
TICK = os.sysconf("SC_CLK_TCK")
EXPERIMENT = {
    "name": "tiny",
    "model": {"name": "softmax"},
    "algorithm": {"name": "audp", "batch_size": 12},
    "privacy": {"noise_multiplier": 2.0},
    "evaluation": {"every": 0},
}


def is_durable(when: float, window: float) -> bool:
    return int(when / window) % 2 == 1


@dataclass
class Forgetful:
    """A ledger that writes down what happens in every second window."""

    file: LedgerFile
    window: float
    is_simulated: bool = False

    def open(self, owner: Owner) -> Forgetful:
        self.file.open(owner)
        return self

    def booked(self) -> tuple[Counts, Counts]:
        return self.file.booked()

    def write(self, event: Event, ticket: int, room: int | None = None) -> None:
        if is_durable(time.time(), self.window):
            self.file.write(event, ticket, room)


def run_edge(window: float, ledgers: Path, arguments: Sequence[str]) -> int:
    """An edge as `python -m edge` runs it, but for its ledger."""
    call = parse("edge", arguments, {})
    name = call.edge or "edge-0001"
    identity = Identity.fresh(call.run, name)
    with LedgerFile(ledgers / f"{name}.db", call.run, identity.boot, "secure") as file:
        edge = build(call.experiment, name, identity.boot, Forgetful(file, window).open)
        recorder = Recorder(make_folder(call.out / "edges" / name) / "records.jsonl", call.run, name)
        return serve(Shell(Attended(edge.node, None), identity, call.broker, recorder, layout=edge.layout))


def write_times(folder: Path, count: int = 2000) -> list[float]:
    """Milliseconds of each of so many writes, in order of size."""
    event = Event(mechanism="gaussian", noise_multiplier=2.0, dimension=650, sampling="poisson", sampling_rate=0.04)
    times = []
    with LedgerFile(folder / "edge-0001.db", "bench", "boot", "secure") as ledger:
        ledger.open(Owner("edge-0001", "none", 1, "0" * 64))
        for ticket in range(count):
            began = time.perf_counter()
            ledger.write(event, ticket)
            times.append(1000 * (time.perf_counter() - began))
    return sorted(times)


def processor_seconds(pids: Sequence[int]) -> tuple[float, float, float]:
    """So far: of the whole machine, busy or not; of that, busy; of that, busy with these processes."""
    numbers = [int(text) for text in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    own = 0.0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            own += (int(fields[11]) + int(fields[12])) / TICK
        except OSError:
            continue
    return sum(numbers) / TICK, (sum(numbers) - numbers[3] - numbers[4]) / TICK, own


def measure(place: Path, ledgers: Path, arguments: argparse.Namespace) -> list[tuple[float, float]]:
    """For each pair of windows: updates a second with over without, and the share of foreign programs."""
    file, window = place / "experiment.yaml", arguments.window
    content = {"data": {"name": "digits", "edges": arguments.edges}, "stop": {"seconds": arguments.seconds + WARM_UP}}
    file.write_text(yaml.safe_dump(EXPERIMENT | content))
    marks: dict[int, tuple[float, float, float]] = {}
    with choose(None, place / "broker") as broker, (place / "log.txt").open("wb") as log:
        shared = ["--experiment", str(file), "--broker", str(broker.address), "--run", "tiny", "--out", str(place)]
        commands = [["-m", "cloud", *shared]]
        own = [__file__, "--edge", str(window), str(ledgers)]
        commands += [[*own, *shared, "--id", f"edge-{number:04d}"] for number in range(1, arguments.edges + 1)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        running = [subprocess.Popen([sys.executable, *words], env=environment, stderr=log) for words in commands]
        try:
            pids = [process.pid for process in running] + ([] if broker.process is None else [broker.process])
            while running[0].poll() is None:
                time.sleep(window - time.time() % window)
                marks[round(time.time() / window)] = processor_seconds(pids)
            if any(process.wait(60) for process in running):
                raise RuntimeError(f"exit codes {[process.returncode for process in running]}: see {place}")
        finally:
            for process in running:
                process.kill()
    return pairs_of(place / "cloud" / "records.jsonl", window, marks)


def pairs_of(records: Path, window: float, marks: dict[int, tuple[float, float, float]]) -> list[tuple[float, float]]:
    """The windows of the records, two and two."""
    times = [row["time"] for row in read(records) if row["kind"] == "update"]
    inside = (when for when in times if when > times[0] + WARM_UP and MARGIN <= when / window % 1 < 1 - MARGIN)
    counts = Counter(int(when / window) for when in inside)
    pairs = []
    for number in sorted(counts)[1:-1]:
        if number % 2 == 0 and number + 1 in counts and {number, number + 2} <= marks.keys():
            whole, busy, own = (after - before for before, after in zip(marks[number], marks[number + 2], strict=True))
            pairs.append((counts[number + 1] / counts[number], max(0.0, busy - own) / whole))
    return pairs


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--window", type=float, default=1.0)
    parser.add_argument("--edges", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--most-ms", type=float, default=2.0)
    parser.add_argument("--least-rate", type=float, default=0.9)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place, tempfile.TemporaryDirectory(dir=arguments.folder) as ledgers:
        times = write_times(Path(ledgers, "single"))
        pairs = measure(Path(place), Path(ledgers, "kept"), arguments)
    median, late = statistics.median(times), times[len(times) * 99 // 100]
    print(json.dumps({"write_ms": {"median": round(median, 3), "p99": round(late, 3)}}))
    calm = [ratio for ratio, foreign in pairs if foreign <= CALM]
    for name, ratios in (("all", [ratio for ratio, _ in pairs]), ("calm", calm)):
        found = {"windows": 2 * len(ratios), "ratio": round(statistics.median(ratios), 3) if ratios else None}
        print(json.dumps({name: found}))
    foreign = statistics.median(share for _, share in pairs)
    ratio = statistics.median(calm if len(calm) >= 10 else [ratio for ratio, _ in pairs])
    print(f"\nwrite: {median:.2f} ms median; updates/s with over without: {ratio:.3f}; foreign: {foreign:.0%}")
    return int(median > arguments.most_ms or ratio < arguments.least_rate)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--edge"]:
        sys.exit(guard(lambda: run_edge(float(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])))
    sys.exit(main())
