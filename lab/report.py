"""The report: pictures as PNG files and one HTML page that needs nothing else, from one or several run folders."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import jinja2

from common.errors import RecordError
from lab import plots
from lab.card import describe
from lab.folder import Run, read_run

CAPTIONS = {
    "scores": (
        "Accuracy and loss",
        "On the public test set, never seen in training. Left: against updates the cloud applied. Right: against time.",
    ),
    "staleness": (
        "Staleness",
        "How many versions the model had moved on when an update was applied that was computed on it; 0 means none.",
    ),
    "stages": (
        "Stages",
        "What the cloud asked of the edges; a step is a new stage. The clip bound limits the gradient of a single "
        "record, the sensitivity is how far one record can move the averaged gradient.",
    ),
}


@dataclass(frozen=True)
class Written:
    """The files of a report. `warnings`: what was damaged in the runs' folders."""

    page: Path
    pictures: tuple[Path, ...]
    warnings: tuple[str, ...] = ()


def write_report(folders: Sequence[Path], out: Path) -> Written:
    """Reads the runs, draws them on common axes, and writes PNG files and `report.html` into `out`.

    Raises:
        ConfigError: a folder is not one of a run.
        RecordError: the report cannot be written.
    """
    runs = [read_run(folder) for folder in folders]
    labels = labels_of(runs)
    curves = [plots.Curve(label, run.history) for label, run in zip(labels, runs, strict=True)]
    figures = {"scores": plots.scores(curves), "staleness": plots.staleness(curves), "stages": plots.stages(curves)}
    pictures = {name: plots.png_of(figure) for name, figure in figures.items()}
    page = _page(labels, runs, pictures)
    try:
        out.mkdir(parents=True, exist_ok=True)
        files = []
        for name, content in pictures.items():
            files.append(out / f"{name}.png")
            files[-1].write_bytes(content)
        (out / "report.html").write_text(page, encoding="utf-8")
    except OSError as error:
        raise RecordError(f"report: {out}: {error}: expected a folder that can be written") from error
    return Written(out / "report.html", tuple(files), tuple(warning for run in runs for warning in run.warnings))


def labels_of(runs: Sequence[Run]) -> list[str]:
    """A name for each run: the experiment's, with the folder's where several runs share it."""
    names = [str(run.settings.get("name") or run.path.resolve().name) for run in runs]
    counts = Counter(names)
    labels = [
        name if counts[name] == 1 else f"{name} ({run.path.resolve().name})"
        for name, run in zip(names, runs, strict=True)
    ]
    again = Counter(labels)
    return [label if again[label] == 1 else f"{label} {place}" for place, label in enumerate(labels, start=1)]


def _page(labels: Sequence[str], runs: Sequence[Run], pictures: Mapping[str, bytes]) -> str:
    """The HTML page, every value escaped, pictures inside it."""
    source = resources.files("lab").joinpath("report.html").read_text(encoding="utf-8")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    named = enumerate(zip(labels, runs, strict=True))
    cards = [describe(label, run, plots.colour(place)) for place, (label, run) in named]
    shown = [
        {"title": title, "caption": caption, "data": base64.b64encode(pictures[name]).decode()}
        for name, (title, caption) in CAPTIONS.items()
    ]
    title = f"Run {labels[0]}" if len(runs) == 1 else f"{len(runs)} runs compared"
    subtitle = "Private federated learning over MQTT: what was learnt, how fast, and at what price in privacy."
    return environment.from_string(source).render(title=title, subtitle=subtitle, runs=cards, pictures=shown)
