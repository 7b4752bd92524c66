"""The plotter of all figures."""

from __future__ import annotations

from pathlib import Path

from lab.panels import Panel, draw


def test_a_panel_in_which_nothing_was_reached_is_drawn(tmp_path: Path) -> None:
    panel = Panel("", "edges", "updates to a loss", {"audp": [], "mapa": []}, log_x=True, log_y=True)
    draw([panel], "none").savefig(tmp_path / "none.png")
    assert (tmp_path / "none.png").stat().st_size > 0
