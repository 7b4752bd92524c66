"""Fixtures that every test may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with the real data sets; a clone without them skips the tests that need one."""
    folder = Path(os.environ.get("MAPA_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"real data sets: {folder}: not there (set MAPA_DATA)")
    return folder
