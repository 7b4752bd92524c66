"""Ledgers to spoil."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from made_up_ledgers import fill


@pytest.fixture(scope="session")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a sound ledger: two processes, 40 and 2 releases."""
    path = tmp_path_factory.mktemp("sound") / "edge-0001.db"
    fill(path, 40)
    fill(path, 2, boot="b2")
    return path.parent


@pytest.fixture
def path(sound: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(sound, tmp_path / "ledgers")) / "edge-0001.db"
