"""How long an answer about privacy takes: computed, and from the cache. In one process, the library loaded at first.

python bench/calibration.py [--rounds 20]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from common.answers import Answers
from lab.privacy import Asked, account, account_for_target

LAPLACE = Asked("spherical-laplace", releases=10_000, sampling_rate=0.01, dimension=7850, epsilon=1.0)
GAUSSIAN = Asked("gaussian", releases=14_063, sampling_rate=0.004267, noise_multiplier=1.1)
QUESTIONS: dict[str, Callable[[Answers], object]] = {
    "account spherical-laplace": lambda answers: account(LAPLACE, answers.ask),
    "account gaussian": lambda answers: account(GAUSSIAN, answers.ask),
    "calibrate spherical-laplace": lambda answers: account_for_target(LAPLACE, 1.0, answers.ask),
    "calibrate gaussian": lambda answers: account_for_target(GAUSSIAN, 1.0, answers.ask),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    began = time.perf_counter()
    import dp_accounting  # noqa: F401

    print(f"loading dp-accounting         {time.perf_counter() - began:7.3f} s")
    with tempfile.TemporaryDirectory() as folder:
        for name, question in QUESTIONS.items():
            began = time.perf_counter()
            question(Answers(Path(folder)))
            computed, times = time.perf_counter() - began, []
            for _ in range(rounds):
                began = time.perf_counter()
                question(Answers(Path(folder)))
                times.append(time.perf_counter() - began)
            print(f"{name:<28}  {computed:7.3f} s computed, {1e3 * statistics.median(times):6.2f} ms from the cache")


if __name__ == "__main__":
    main()
