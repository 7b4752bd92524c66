"""The simulator against the bare arithmetic of its runs: ratios of CPU time, one thread, interleaved.

    python bench/simulator.py [--mnist data/mnist] [--rounds 5] [--parts linear network messages scale]

linear    MAPA on binary logistic regression (785 parameters), 1000 edges in turn, batch 12, 15,000 updates, against a
          NumPy loop of the same arithmetic: Poisson batch, clipped sum, noise, lattice, step, one copy of each version.
          Both must end with the same parameters, bit for bit. Goal: at most 2, not met
          (`docs/decisions/0010-gradients-one-by-one-in-the-simulator.md` says why).
network   the same with the cnn, 5 edges, batch 48, 500 updates. Goal: at most 1.3.
messages  CPU milliseconds a message beyond the loop, for softmax on the digits. Goal: at most 0.5.
scale     1000 edges x 20 updates in a process of its own, as a user runs it: wall seconds, set-up and closing
          included, and memory. Goals: 30 s, 1 GB.

What a run is charged with: everything from the first event to the last record on disk, the edges' accounts included.
Set-up (data, building the edges) is told apart; libraries, also the accountant's, are loaded before. `linear`,
`network`: budgeted stages, which ask no probes; evaluation off, as in the loop.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cloud.build import build as build_cloud
from common import data
from common.experiment import Experiment, edge_ids, parse
from common.models import build_model
from common.models.spec import ModelSpec
from common.node import CLOUD
from common.privacy import lattice
from common.privacy.noise import kappa
from common.privacy.plan import PrivacyPlan, plan_for
from common.seeds import stream
from common.tensors import Flat
from edge.build import build_all
from lab.folder import RunFolder
from lab.garbage import settled
from lab.pages import Pages
from lab.simulator import Simulator
from lab.virtual import run_virtually

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # what a disk makes of 1000 files says nothing of the code
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
# What the product's entry points set: freed memory stays with the process. Both sides get it.
KEPT_PAGES = {"MALLOC_TRIM_THRESHOLD_": "1073741824", "MALLOC_MMAP_THRESHOLD_": "1073741824"}


@dataclass(frozen=True)
class Case:
    """One experiment, and what the simulator may cost on it over the loop."""

    model: str
    edges: int
    batch: int
    updates: int
    dataset: dict[str, Any]

    def experiment(self) -> Experiment:
        return parse(
            {
                "name": "bench",
                "data": {**self.dataset, "edges": self.edges},
                "model": {"name": self.model},
                "algorithm": {"name": "mapa", "batch_size": self.batch, "cloud": {"controller": "budgeted"}},
                "privacy": {"noise_multiplier": 1.0, "randomness": "reproducible"},
                "fleet": {"cyclic": 1.0},
                "stop": {"updates": self.updates},
                "evaluation": {"every": 0},
            }
        )


def cases(mnist: Path) -> dict[str, Case]:
    images = {"name": "mnist", "root": str(mnist)}
    return {
        "linear": Case("logistic", 1000, 12, 15_000, {**images, "classes": "halves"}),
        "network": Case("cnn", 5, 48, 500, images),
        "messages": Case("softmax", 5, 12, 5000, {"name": "digits"}),
    }


@dataclass(frozen=True)
class Spent:
    """CPU seconds of set-up and of the run, what it ended with, and the messages that it took."""

    setting_up: float
    running: float
    flat: Flat
    messages: int = 0


def simulated(experiment: Experiment, folder: Path) -> Spent:
    """A run of the product, as `lab.virtual` does it."""
    began = time.process_time()
    boots = {name: f"simulated-{name}" for name in (CLOUD, *edge_ids(experiment.data.edges))}
    (folder / "cloud").mkdir(parents=True)
    pages = Pages(folder, "bench")
    cloud = build_cloud(experiment, boots[CLOUD])
    simulator = Simulator(experiment.seed, pages.keep)
    simulator.add(CLOUD, cloud.node)
    for index, (name, edge) in enumerate(build_all(experiment, boots)):
        simulator.add(name, edge.node, experiment.fleet.profile(index, experiment.data.edges), edge.work)
    ready = time.process_time()
    with settled():
        simulator.run()
    pages.close()
    running = time.process_time() - ready
    return Spent(ready - began, running, cloud.node.tensors.flat.copy(), simulator.post.messages)


@dataclass(frozen=True)
class Share:
    """One edge of the loop."""

    inputs: Any
    labels: Any
    plan: PrivacyPlan
    sampling: np.random.Generator
    noise: np.random.Generator


def shares(experiment: Experiment, model: ModelSpec) -> Iterator[Share]:
    """The edges, with the dice that they have in the product."""
    records, sizes = data.load_apart(experiment.data, experiment.seed)
    inputs, start = model.prepare(records.inputs, records.scale), 0
    for edge, size in sizes.items():
        streams = [stream(experiment.seed, edge, use, f"simulated-{edge}") for use in ("sampling", "noise")]
        plan = plan_for(experiment, edge, size, model.layout.size)
        yield Share(inputs[start : start + size], records.labels[start : start + size], plan, *streams)
        start += size


def looped(experiment: Experiment) -> Spent:
    """The same arithmetic with nothing around it."""
    began = time.process_time()
    described = data.describe(experiment.data)
    model = build_model(experiment.model, described.shape, described.classes)
    edges = list(shares(experiment, model))
    stages = list(_stages(experiment, model, edges))
    flat = model.init(stream(experiment.seed, "model")).flat.copy()
    ready = time.process_time()
    _loop(flat, model, edges, stages, experiment.algorithm.batch_size, np.float32(experiment.model.l2))
    return Spent(ready - began, time.process_time() - ready, flat)


def _stages(experiment: Experiment, model: ModelSpec, edges: list[Share]) -> Iterator[tuple[float, float]]:
    """Rate and clip norm of each update."""
    from cloud.algorithms import find
    from cloud.algorithms.mapa import Settings
    from cloud.build import _setting  # the numbers of this very run

    noise, fewest = kappa(edges[0].plan.event, model.layout.size), min(len(edge.labels) for edge in edges)
    setting = _setting(experiment, model, noise, fewest, len(edges))
    controller = find(experiment).build(setting, Settings.model_validate({"controller": "budgeted"}))
    assert experiment.stop.updates is not None
    for _ in range(experiment.stop.updates):
        assert controller.clip_norm is not None
        yield controller.rate(), controller.clip_norm
        controller.applied(np.empty(0, dtype=np.float32))


def _loop(  # noqa: PLR0917 - what the loop works on
    flat: Flat, model: ModelSpec, edges: list[Share], stages: list[tuple[float, float]], batch: int, l2: np.float32
) -> None:
    count, dimension = len(edges), flat.size
    held = [(flat.copy(), stages[0][1])] * count
    first = count // 2 + 1  # whose turn ends first, half a turn after the beginning
    for step, (rate, _) in enumerate(stages):
        place = (first + step) % count
        edge, (known, clip_norm) = edges[place], held[place]
        chosen = np.flatnonzero(edge.sampling.random(len(edge.labels)) < batch / len(edge.labels))
        total = model.clipped_sum(known, edge.inputs[chosen], edge.labels[chosen], clip_norm)
        average = total * (1.0 / batch)  # as the plan rounds it
        grain = edge.plan.grain(clip_norm)
        assert grain is not None
        noise = grain.noise.draw(dimension, grain.scale, edge.noise)
        update = lattice.add(average, noise, grain.grid).astype(np.float32)
        if l2 != 0:
            update += l2 * known
        flat -= update * np.float32(rate)
        held[place] = (flat.copy(), stages[min(step + 1, len(stages) - 1)][1])


def compare(case: Case, rounds: int) -> tuple[list[Spent], list[Spent]]:
    """Runs of the simulator and of the loop in turn, once the libraries are loaded that a process loads only once.

    Raises:
        SystemExit: they end with different parameters.
    """
    experiment = case.experiment()
    importlib.import_module("dp_accounting.pld.privacy_loss_distribution")
    ours, bare = [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
            ours.append(simulated(experiment, Path(folder) / "run"))
        bare.append(looped(experiment))
        if not np.array_equal(ours[-1].flat, bare[-1].flat):
            raise SystemExit(f"{case.model}: the loop and the simulator end with different parameters")
    return ours, bare


def tell(name: str, case: Case, rounds: int) -> None:
    ours, bare = compare(case, rounds)
    ratios = [mine.running / other.running for mine, other in zip(ours, bare, strict=True)]
    beyond = [1e3 * (a.running - b.running) / a.messages for a, b in zip(ours, bare, strict=True)]
    each, least = 1e6 * _median(bare) / case.updates, " ".join(f"{ratio:.2f}" for ratio in ratios)
    print(
        f"{name:8s}  simulator / loop {statistics.median(ratios):.2f} ({least})  loop {each:.0f} us an update, "
        f"simulator {_median(ours):.2f} s  beyond the loop {statistics.median(beyond):.3f} ms a message  "
        f"set-up {statistics.median(spent.setting_up for spent in ours):.2f} s",
        flush=True,
    )


def _median(spent: list[Spent]) -> float:
    return statistics.median(each.running for each in spent)


def scale(mnist: Path, rounds: int) -> None:
    """1000 edges x 20 updates, each time in a process of its own."""
    found = []
    for _ in range(rounds):
        began = time.monotonic()
        command = [sys.executable, __file__, "--mnist", str(mnist), "--alone"]
        answer = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        found.append((time.monotonic() - began, answer["cpu"], answer["memory"]))
    middle = [statistics.median(column) for column in zip(*found, strict=True)]
    print(f"scale     wall {middle[0]:.1f} s, CPU {middle[1]:.1f} s, memory {middle[2] / 1e6:.0f} MB", flush=True)


def alone(mnist: Path) -> None:
    """The run of `scale`, as `mapa simulate` does it."""
    case = Case("logistic", 1000, 12, 20_000, {"name": "mnist", "root": str(mnist), "classes": "halves"})
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder(Path(folder) / "run")
        run.create()
        outcome = run_virtually(case.experiment(), run, "bench")
    assert outcome.code == 0
    assert "torch" not in sys.modules  # which alone would take a third of the memory
    # not ru_maxrss, in which a process inherits the peak of the one that started it
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    print(json.dumps({"cpu": time.process_time(), "memory": 1024 * int(peak.split()[1])}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mnist", type=Path, default=Path("data/mnist"), help="folder of the MNIST files")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--parts", nargs="+", default=["linear", "network", "messages", "scale"])
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.alone:
        return alone(given.mnist)
    for part in given.parts:
        if part == "scale":
            scale(given.mnist, given.rounds)
        else:
            tell(part, cases(given.mnist)[part], given.rounds)


if __name__ == "__main__":
    if any(os.environ.get(name) != value for name, value in (ONE_THREAD | KEPT_PAGES).items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | ONE_THREAD | KEPT_PAGES)
    main()
