"""Seconds for one question to the accountant, in the ways it is asked.

    python bench/accountant.py [--rounds 3]

Columns, each a median over rounds:
    cold      s, a fresh interpreter: imports, dp-accounting among them, and one total
    first     ms, libraries loaded, the first question about such releases
    other     ms, the same releases in another number
    quick     ms, the bound by Renyi divergences at integer orders, first question
    again     ms, the same bound once the kind of release was seen

Goal: cold below 2 s.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping

from common.events import Event
from common.privacy.accountant import Method, total

DP_DELTA = 1e-5
Counts = Mapping[Event, int]


def spherical(epsilon: float, dimension: int, rate: float = 1.0, adjacency: str = "replace_one") -> Event:
    fields = {"sampling": "poisson", "sampling_rate": rate, "adjacency": adjacency, "dimension": dimension}
    return Event.model_validate({"mechanism": "spherical-laplace", "epsilon": epsilon} | fields)


def gaussian(noise_multiplier: float, rate: float = 1.0) -> Event:
    fields = {"sampling": "poisson", "sampling_rate": rate}
    return Event.model_validate({"mechanism": "gaussian", "noise_multiplier": noise_multiplier} | fields)


QUESTIONS: Mapping[str, Counts] = {
    "spherical, all records": {spherical(0.5, 7850): 5000},
    "spherical, sampled, replaced": {spherical(2.0, 7850, 0.01): 5000},
    "spherical, sampled, added": {spherical(2.0, 7850, 0.01, "add_remove"): 5000},
    "laplace, one dimension": {spherical(0.5, 1): 5000},
    "gaussian, sampled": {gaussian(1.1, 0.004): 14_063},
    "gaussian, rare and often": {gaussian(1.0, 1e-5): 1_000_000},
    "training and probes": {spherical(2.0, 785, 0.04, "add_remove"): 2000, gaussian(15.0): 24},
    "ten kinds of noise": {gaussian(1.5 * 0.9**stage, 1 / 2000): 1000 for stage in range(10)},
}


def timed(ask: Callable[[], object]) -> float:
    begun = time.perf_counter()
    ask()
    return time.perf_counter() - begun


def forget() -> None:
    """Empties what the accountant remembers of earlier questions."""
    from common.privacy.divergences import divergences
    from common.privacy.renyi import curve
    from common.privacy.steps import dots_of

    for memory in (dots_of, divergences, curve):
        memory.cache_clear()


def cold(name: str) -> float:
    return timed(lambda: subprocess.run([sys.executable, __file__, "--ask", name], check=True, env=dict(os.environ)))


def warm(events: Counts) -> dict[str, float]:
    def ask(method: Method, more: int = 0) -> float:
        return timed(lambda: total({event: count + more for event, count in events.items()}, DP_DELTA, method))

    forget()
    found = {"first": ask("pld"), "other": ask("pld", 7)}
    forget()
    return found | {"quick": ask("quick"), "again": ask("quick", 7)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ask", choices=QUESTIONS, help="answer one question and leave")
    options = parser.parse_args()
    if options.ask:
        total(QUESTIONS[options.ask], DP_DELTA)
        return
    total({gaussian(1.0, 0.5): 2}, DP_DELTA)  # loads the libraries
    print(f"{'releases':30} {'epsilon':>9} {'cold s':>8} {'first':>8} {'other':>8} {'quick':>8} {'again':>8}")
    for name, events in QUESTIONS.items():
        whole = statistics.median(cold(name) for _ in range(options.rounds))
        rounds = [warm(events) for _ in range(options.rounds)]
        times = [statistics.median(each[column] for each in rounds) * 1e3 for column in rounds[0]]
        columns = " ".join(f"{value:8.1f}" for value in times)
        print(f"{name:30} {total(events, DP_DELTA).epsilon:9.4g} {whole:8.2f} {columns}")


if __name__ == "__main__":
    main()
