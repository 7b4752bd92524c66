"""The last thing a launch prints: the result of the run in two small tables."""

from __future__ import annotations

from typing import TextIO

from rich import box
from rich.console import Console
from rich.table import Table

from lab.card import describe, promise_of
from lab.folder import Run

WIDTH = 110
"""Characters of a line where the stream is no terminal."""
RESULTS = (
    ("algorithm", "algorithm"),
    ("data", "dataset"),
    ("model", "model"),
    ("test accuracy", "accuracy"),
    ("test loss", "loss"),
    ("epsilon per edge", "epsilon"),
    ("updates", "updates"),
    ("seconds", "seconds"),
    ("updates per second", "pace"),
    ("staleness: mean (max)", "staleness"),
    ("state", "state"),
)
EDGES = (
    ("edge", "id"),
    ("records", "samples"),
    ("updates", "updates"),
    ("releases", "releases"),
    ("epsilon of one release", "per_release"),
    ("epsilon in total", "epsilon"),
    ("delta", "dp_delta"),
    ("noise", "noise"),
)


def print_closing(run: Run, stream: TextIO) -> None:
    """Prints results, edges, what the epsilon means, and where everything is."""
    for warning in run.warnings:
        print(f"warning: {warning}", file=stream)
    if run.history.started is None:
        print(f"training did not begin; run folder: {run.path}", file=stream)
        return
    card = describe(str(run.settings.get("name", run.path.name)), run, "")
    console = Console(file=stream, width=None if stream.isatty() else WIDTH, highlight=False)
    results = Table(box=box.SIMPLE, show_header=False, title=f"{card['label']}", title_justify="left")
    for name, key in RESULTS:
        results.add_row(name, str(card[key]))
    edges = Table(box=box.SIMPLE)
    for place, (name, _) in enumerate(EDGES):
        edges.add_column(name, justify="right" if place else "left")
    for edge in card["edges"]:
        edges.add_row(*[edge[key] for _, key in EDGES])
    console.print(results)
    console.print(edges)
    console.print(promise_of(run), soft_wrap=not stream.isatty())
    console.print(f"run folder: {run.path}", soft_wrap=True)
    console.print(f"pictures:   mapa report {run.path}", soft_wrap=True)
