"""The cloud's step on a large model against a bare in-place `x -= g` of the same size; one thread, interleaved.

python bench/large_model.py [--parameters 11173962] [--rounds 15]
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np

from cloud.parameters import Parameters
from common.tensors import Layout, Tensors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parameters", type=int, default=11_173_962)  # ResNet-18
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    update = rng.standard_normal(arguments.parameters, dtype=np.float32)
    bare = rng.standard_normal(arguments.parameters, dtype=np.float32)
    parameters = Parameters(Tensors(Layout.of({"x": (arguments.parameters,)}), bare.copy()))
    ours, theirs = [], []
    for number in range(arguments.rounds + 2):
        began = time.process_time()
        bare -= update
        middle = time.process_time()
        parameters.step([update], 1e-6)
        ended = time.process_time()
        if number >= 2:  # the first ones fault their pages in
            theirs.append(middle - began)
            ours.append(ended - middle)
    ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    print("| parameters | x -= g, CPU ms | cloud step, CPU ms | ratio (median of pairs) |\n|---|---|---|---|")
    print(
        f"| {arguments.parameters:,} | {1000 * statistics.median(theirs):.1f} | {1000 * statistics.median(ours):.1f} "
        f"| {statistics.median(ratios):.2f} |"
    )


if __name__ == "__main__":
    main()
