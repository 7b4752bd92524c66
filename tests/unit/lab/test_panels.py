"""The plotter of all figures."""

from __future__ import annotations

from pathlib import Path

from lab.panels import ALONE, Panel, draw
from lab.table import Spread


def test_a_panel_in_which_nothing_was_reached_is_drawn(tmp_path: Path) -> None:
    panel = Panel("", "edges", "updates to a loss", {"audp": [], "mapa": []}, log_x=True, log_y=True)
    draw([panel], "none").savefig(tmp_path / "none.png")
    assert (tmp_path / "none.png").stat().st_size > 0


def _ticks(values: list[float], tmp_path: Path) -> list[str]:
    """What stands at the ticks of a logarithmic axis with points at these places."""
    series = {"audp": [(value, Spread(0.5, 0.5, 0.5, 1)) for value in values]}
    figure = draw([Panel("", "noise", "accuracy", series, log_x=True)], "A title that is far too long for it " * 4)
    figure.savefig(tmp_path / "drawn.png")
    axes, title = figure.axes[0], figure._suptitle  # type: ignore[attr-defined]
    assert title.get_window_extent().width < 100 * ALONE, "the title stays on the page"
    low, high = axes.get_xlim()
    shown = zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
    assert all(label.get_text() == "" for label in axes.get_xticklabels(minor=True))
    return [label.get_text() for at, label in shown if low <= at <= high]


def test_logarithmic_axes_have_few_ticks_with_plain_numbers(tmp_path: Path) -> None:
    assert _ticks([0.5, 2.0, 8.0], tmp_path) == ["0.5", "1", "2", "5"]
    assert _ticks([0.001, 0.3, 80.0], tmp_path) == ["0.001", "0.01", "0.1", "1", "10", "100"]
