"""Updates a second and CPU of the whole testbed: the FEMNIST-shaped network, five edges as processes, all records on.

62 classes, 28 x 28, 12,752 parameters, batch 48, Gaussian noise, no evaluation in between, as the authors' testbed
was measured. Data are random images of that shape (4,800 an edge). CPU is that of broker, cloud and edges together
between the first and the last counted update, from /proc. `plain`: nothing set by hand; `set`: one thread and the
allocator given in the environment as well. Runs of both alternate.

    python bench/testbed.py [--rounds 3] [--updates 1500] [--edges 5]
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
from pathlib import Path

import numpy as np
import yaml

ROOT = Path(__file__).parents[1]
TICK = os.sysconf("SC_CLK_TCK")
BY_HAND = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    "MALLOC_TRIM_THRESHOLD_": str(256 * 2**20),
    "MALLOC_MMAP_THRESHOLD_": str(32 * 2**20),
}


def write_data(path: Path, edges: int) -> None:
    rng = np.random.default_rng(0)
    count = 4800 * edges
    np.savez(
        path,
        x_train=rng.integers(0, 256, (count, 1, 28, 28), dtype=np.uint8),
        y_train=np.arange(count) % 62,
        x_test=rng.integers(0, 256, (62, 1, 28, 28), dtype=np.uint8),
        y_test=np.arange(62),
    )


def experiment(data: Path, edges: int, updates: int) -> dict[str, object]:
    return {
        "name": "femnist-shaped",
        "data": {"name": "npz", "root": str(data), "edges": edges},
        "model": {"name": "cnn"},
        "algorithm": {"name": "audp", "batch_size": 48},
        "privacy": {"noise_multiplier": 1.0, "clip_norm": 1.0},
        "stop": {"updates": updates},
        "evaluation": {"every": 0},
    }


def cpu_seconds(group: int) -> dict[int, float]:
    """CPU of each process below `group`, by id."""
    found, parents = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
            found[int(entry.name)] = (int(fields[11]) + int(fields[12])) / TICK
    below = {group}
    while True:
        more = {child for child, parent in parents.items() if parent in below} - below
        if not more:
            return {pid: found[pid] for pid in below if pid in found and pid != group}
        below |= more


def count_updates(records: Path) -> int:
    try:
        return records.read_bytes().count(b'"kind":"update"')
    except OSError:
        return 0


def run(file: Path, out: Path, updates: int, environment: dict[str, str]) -> tuple[float, float]:
    """Updates a second and CPU ms an update, over the middle of one run."""
    clean = {key: value for key, value in os.environ.items() if key not in BY_HAND}
    command = [sys.executable, "-m", "lab", "launch", str(file), "--out", str(out), "--quiet"]
    process = subprocess.Popen(command, cwd=ROOT, env=clean | environment, stdout=subprocess.DEVNULL)
    records, marks = out / "cloud" / "records.jsonl", []
    for mark in (updates // 5, updates * 9 // 10):
        while (done := count_updates(records)) < mark:
            if process.poll() is not None:
                raise RuntimeError(f"the run ended early with exit code {process.returncode}: see {out}")
            time.sleep(0.02)
        marks.append((done, time.monotonic(), cpu_seconds(process.pid)))
    if process.wait() != 0:
        raise RuntimeError(f"the run failed with exit code {process.returncode}: see {out}")
    (first, began, before), (last, ended, after) = marks
    spent = sum(seconds - before.get(pid, 0.0) for pid, seconds in after.items())
    return (last - first) / (ended - began), 1000 * spent / (last - first)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=1500)
    parser.add_argument("--edges", type=int, default=5)
    arguments = parser.parse_args()
    rates: dict[str, list[float]] = {"plain": [], "set": []}
    costs: dict[str, list[float]] = {"plain": [], "set": []}
    with tempfile.TemporaryDirectory() as folder:
        data, file = Path(folder, "data.npz"), Path(folder, "experiment.yaml")
        write_data(data, arguments.edges)
        file.write_text(yaml.safe_dump(experiment(data, arguments.edges, arguments.updates)))
        for number in range(arguments.rounds):
            for name, environment in (("plain", {}), ("set", BY_HAND)):
                rate, cost = run(file, Path(folder, f"{name}-{number}"), arguments.updates, environment)
                rates[name].append(rate)
                costs[name].append(cost)
                print(
                    json.dumps({"round": number, "run": name, "rate": round(rate, 1), "ms": round(cost, 2)}), flush=True
                )
    ratios = [plain / given for plain, given in zip(rates["plain"], rates["set"], strict=True)]
    print("\n| run | updates/s (median) | CPU ms an update (median) |\n|---|---|---|")
    for name, values in rates.items():
        print(f"| {name} | {statistics.median(values):.0f} | {statistics.median(costs[name]):.1f} |")
    print(f"\nupdates/s plain over set, pair by pair: median {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
