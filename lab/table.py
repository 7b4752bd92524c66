"""The results of a sweep as rows: results.csv for pandas, and a table for people, with seeds put together."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lab.rounding import at_most
from lab.sweep import Result

WIDTH = 120
MEASURES = (
    "test_accuracy",
    "test_loss",
    "epsilon_total",
    "epsilon_per_release",
    "updates",
    "staleness_mean",
    "seconds",
)


def rows_of(results: Iterable[Result]) -> list[dict[str, Any]]:
    """One row for each result: the point's values by key, then `MEASURES`; None for what is not known."""
    rows = []
    for result in results:
        summary = result.summary
        per_release = [edge["epsilon_per_release"] for edge in summary["edges"]]
        known = [value for value in per_release if value is not None]
        rows.append(
            {
                **{key: _plain(value) for key, value in result.point.values},
                "test_accuracy": summary["test_accuracy"],
                "test_loss": summary["test_loss"],
                "epsilon_total": result.epsilon,
                "epsilon_per_release": max(known, default=None),
                "updates": summary["updates"],
                "staleness_mean": summary["staleness"]["mean"],
                "seconds": summary["seconds"],
                "state": summary["state"],
            }
        )
    return rows


def as_csv(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as comma-separated text with a header; empty fields for None."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


@dataclass(frozen=True)
class Spread:
    """Several seeds of one number."""

    mean: float
    lowest: float
    highest: float
    count: int

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Spread | None:
        """None if a value is not known."""
        found = list(values)
        known = [value for value in found if value is not None]
        if not known or len(known) < len(found):
            return None
        return cls(statistics.fmean(known), min(known), max(known), len(known))

    def claimed(self) -> Spread:
        """Of epsilons, in as many digits as are printed: none is below the one it stands for."""
        return Spread(at_most(self.mean, 4), at_most(self.lowest, 4), at_most(self.highest, 4), self.count)

    def __str__(self) -> str:
        if self.count == 1 or self.lowest == self.highest:
            return f"{self.mean:.4g}"
        return f"{self.mean:.4g} ({self.lowest:.4g} to {self.highest:.4g})"


def print_table(rows: Sequence[dict[str, Any]], keys: Sequence[str], stream: TextIO) -> None:
    """Mean, lowest and highest over the seeds, for each combination of the other keys."""
    shown = [key for key in keys if key != "seed"]
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(str(row[key]) for key in shown), []).append(row)
    table = Table(box=box.SIMPLE)
    for key in shown:
        table.add_column(key.rpartition(".")[2])
    for name in ("accuracy", "loss", "total epsilon", "seeds"):
        table.add_column(name, justify="right")
    for values, group in groups.items():
        cells = [Spread.of(row[measure] for row in group) for measure in ("test_accuracy", "test_loss")]
        spent = Spread.of(row["epsilon_total"] for row in group)
        cells.append(None if spent is None else spent.claimed())
        found = ["-" if cell is None else str(cell) for cell in cells]
        table.add_row(*(Text(text) for text in (*values, *found, str(len(group)))))  # whose brackets mean nothing
    Console(file=stream, width=None if stream.isatty() else WIDTH, highlight=False).print(table)


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)
