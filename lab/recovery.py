"""Figure 4 of the MAPA paper (arXiv 1912.07902): digits recovered from gradients, without noise and with it.

Other than the paper's other figures this one is no training run: edges with one record each release one gradient,
which is inverted (`lab.attacks.inversion`). Files of its folder: figure.json (what was asked for), recorded/ (the
releases), inversion.json and inversion.png.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, TextIO

from cloud.results import write as write_file
from common.errors import ConfigError, Fault, RecordError
from common.experiment import load
from common.program import make_folder
from lab.attacks.inversion import invert
from lab.attacks.inversion_files import write
from lab.attacks.inversion_words import lines
from lab.attacks.recording import Plan, record
from lab.attacks.victim import Noise
from lab.countdown import Countdown

NUMBER = "4"
TITLE = "Digits recovered from gradients"
MODELS = ("logistic", "svm", "cnn")
EPSILONS = (None, 1.0, 0.1, 0.01)
SEED = 1


@dataclass(frozen=True)
class Recovery:
    """What is asked for. `data`: the folder that holds mnist; `is_quick`: one record, and short searches."""

    folder: Path
    mechanism: Noise
    data: Path
    is_quick: bool = False

    @property
    def records(self) -> int:
        """Records that each model gives away."""
        return 1 if self.is_quick else 5

    @property
    def steps(self) -> int:
        """Of one search."""
        return 60 if self.is_quick else 300

    def content(self) -> dict[str, Any]:
        """All that the result follows from."""
        return {
            "data": "mnist",
            "mechanism": self.mechanism,
            "models": list(MODELS),
            "epsilons": list(EPSILONS),
            "records": self.records,
            "steps": self.steps,
            "seed": SEED,
        }


def recover(recovery: Recovery, stream: TextIO) -> None:
    """Makes the figure, or tells of the one that was made before.

    Raises:
        ConfigError: the folder has another figure.
        DataError: the data set is missing.
        RecordError: results cannot be written.
    """
    folder, mark = recovery.folder, recovery.folder / "figure.json"
    result = folder / "inversion.json"
    if mark.is_file():
        _must_be_same(mark, recovery)
    is_made = mark.is_file() and result.is_file()
    whole = len(MODELS) * len(EPSILONS) * recovery.records
    print(
        f"figure {NUMBER}: {TITLE}: {whole} inversions, {whole if is_made else 0} made before", file=stream, flush=True
    )
    if is_made:
        print("\n".join(_read(result)["sentences"]), file=stream)
    else:
        _make(recovery, mark, stream)
    print(f"picture: {folder / 'inversion.png'}", file=stream, flush=True)


def _make(recovery: Recovery, mark: Path, stream: TextIO) -> None:
    with as_file(files("lab.attacks") / "inversion.yaml") as built_in:
        base = load(built_in, ("data.name=mnist", f"data.root={recovery.data / 'mnist'}"))
    plan = Plan(MODELS, EPSILONS, recovery.mechanism, recovery.records, SEED)
    recorded = recovery.folder / "recorded"
    record(base, plan, recorded)
    make_folder(recovery.folder)
    write_file(mark, json.dumps(recovery.content(), indent=2) + "\n")
    countdown = Countdown("releases inverted", stream)
    found = invert(recorded, recovery.steps, SEED, countdown.show)
    countdown.close()
    print("\n".join(lines(found)), file=stream)
    write(found, recovery.folder)


def _must_be_same(mark: Path, recovery: Recovery) -> None:
    known, wanted = _read(mark), recovery.content()
    faults = [
        Fault(f"{mark}: {key}", value, f"{known.get(key)!r}, as when the figure was made; or another --out")
        for key, value in wanted.items()
        if known.get(key) != value
    ]
    if faults:
        raise ConfigError(faults)


def _read(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RecordError(f"figure: {path}: {error}: expected a file of this figure") from error
    if not isinstance(content, dict):
        raise RecordError(f"figure: {path}: {type(content).__name__}: expected a file of this figure")
    return content
