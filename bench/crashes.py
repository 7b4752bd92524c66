"""How a run stands being killed: many SIGKILLs at random moments of cloud, edges and broker; and how soon it goes on.

    python bench/crashes.py [--kills 60] [--updates 2000] [--seed 1] [--folder DIR]

Runs of real processes on a real Mosquitto, one after the other, until there were so many kills. Each is judged by its
records alone (`lab.invariants`). Nothing may be lost, doubled, under-counted or stuck; the exit code says so.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from subprocess import TimeoutExpired

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "broker")]

from killing import judged, make, recoveries, torment  # noqa: E402
from programs import plan_of  # noqa: E402

EACH = 20
"""Kills in one run at most."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--updates", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pause", type=float, default=2.0, help="seconds between kills, on average")
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    root = arguments.folder or Path(tempfile.mkdtemp(prefix="crashes-"))
    total, faults, times = 0, [], []
    kinds: dict[str, int] = {}
    unused = releases = updates = 0
    number = 0
    while total < arguments.kills:
        number += 1
        plan = plan_of(arguments.updates, evaluation__every=200)
        run, broker = make(root / f"run-{number}", plan)
        begun = time.monotonic()
        try:
            done = torment(
                run, broker, rng, kills=min(EACH, arguments.kills - total), pause=arguments.pause, patience=600.0
            )
        except TimeoutExpired as error:
            faults.append(f"run {number}: stuck: {error}")
            break
        finally:
            for process in run.processes.values():
                process.kill()
                process.wait()
            broker.kill()
        found = judged(run)
        if found.updates != arguments.updates:
            found.faults.append(f"{found.updates} updates")
        found.faults += [f"{name}: exit code {code}" for name, code in done.codes.items() if code]
        faults += [f"run {number}: {fault}" for fault in found.faults]
        times += recoveries(run, done)
        for kind, count in done.kills.items():
            kinds[kind] = kinds.get(kind, 0) + count
        total += sum(done.kills.values())
        unused, releases, updates = unused + found.unused, releases + found.releases, updates + found.updates
        seconds = time.monotonic() - begun
        print(f"run {number}: kills {done.kills}, {seconds:.0f} s, faults {found.faults}", flush=True)
        if sum(done.kills.values()) == 0:
            break
    print(f"kills {kinds}: {len(faults)} faults; {updates} updates, {releases} releases, {unused} of them unused")
    if times:
        print(f"the cloud went on from its checkpoint {len(times)} times")
        for name in ("start", "serving"):
            values = np.array([entry[name] for entry in times])
            print(f"{name}: median {np.median(values):.2f} s, largest {values.max():.2f} s of {values.size} restarts")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
