"""Test accuracy of MAPA and AUDP at the same total epsilon, over the real broker or under a virtual clock.

    python bench/accuracy.py OUT [--data FOLDER] [--seeds 3] [--only TEXT] [--simulate]

Runs `mapa launch` once for each row and seed, one after the other (with `--simulate`, `mapa simulate`: the same nodes
without processes and broker), and prints mean, lowest and highest accuracy and the largest epsilon of an edge. A run
whose folder is there already is not made again, so that it can be resumed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
FILES = {"digits": "demo.yaml", "mnist-lr": "mnist-lr-{}.yaml", "mnist-cnn": "mnist-cnn-{}.yaml"}
RADII = (1, 10, 30, 100)
WRONG = {
    "L0 x10": ("algorithm.cloud.smoothness", 10.0),
    "L0 /10": ("algorithm.cloud.smoothness", 0.1),
    "C1 x10": ("privacy.clip_norm", 10.0),
    "C1 /10": ("privacy.clip_norm", 0.1),
}
PUBLIC = {  # smoothness and first clip norm of a run that sets neither
    "digits": (0.5, 2**0.5),
    "mnist-lr": (0.5, 2**0.5),
    "mnist-cnn": (10.0, 10.0),
}


def rows() -> list[tuple[str, str, str, list[str]]]:
    """(task, label, algorithm, overrides)."""
    found = []
    for task, (smoothness, clip_norm) in PUBLIC.items():
        found.append((task, "mapa", "mapa", []))
        found += [(task, f"audp r={r}", "audp", [f"algorithm.cloud.radius={r}.0"]) for r in RADII]
        base = {"algorithm.cloud.smoothness": smoothness, "privacy.clip_norm": clip_norm}
        found += [(task, f"mapa {name}", "mapa", [f"{key}={base[key] * k!r}"]) for name, (key, k) in WRONG.items()]
    found += [("mnist-lr", name, name, []) for name in ("csgd", "asgd")]
    found.append(("digits", "csgd", "csgd", ["privacy={mechanism: none}", "data.edges=1"]))
    return found


def run(command: str, file: str, settings: list[str], out: Path) -> dict[str, object]:
    summary = out / "summary.json"
    if not summary.exists():
        path = ROOT / "experiments" / file
        updates = yaml.safe_load(path.read_text())["stop"]["updates"]
        arguments = [item for setting in (*settings, f"evaluation.every={updates}") for item in ("--set", setting)]
        words = [sys.executable, "-m", "lab", command, str(path), "--out", str(out), "--quiet", *arguments]
        subprocess.run(words, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    content: dict[str, object] = json.loads(summary.read_text())
    return content


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--simulate", action="store_true")
    arguments = parser.parse_args()
    command = "simulate" if arguments.simulate else "launch"
    print("| task | run | accuracy (lowest, highest) | epsilon | updates/s |\n|---|---|---|---|---|")
    for task, label, algorithm, overrides in rows():
        if arguments.only not in f"{task} {label}":
            continue
        scores, spent, speed = [], [], []
        for seed in range(1, arguments.seeds + 1):
            name = f"{task}-{label}-{seed}".replace(" ", "-").replace("=", "").replace("/", "over")
            settings = [*overrides, f"seed={seed}", f"algorithm.name={algorithm}"]
            if task != "digits":
                settings += [f"data.root={arguments.data / 'mnist'}", "data.download=false"]
            summary = run(command, FILES[task].format(algorithm), settings, arguments.out / name.lower())
            scores.append(summary["test_accuracy"])
            spent += [edge["epsilon_total"] for edge in summary["edges"] if edge["epsilon_total"] is not None]
            speed.append(summary["updates_per_second"] or 0.0)  # a simulation has no speed
        epsilon = f"{max(spent):.2f}" if spent else "none"
        mean = statistics.mean(scores)
        print(
            f"| {task} | {label} | {mean:.3f} ({min(scores):.3f}, {max(scores):.3f}) | {epsilon} "
            f"| {statistics.median(speed):.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
