"""Fixtures that every test may use."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"  # as the programs do, before any numerical library is loaded

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As in a background job of a script. The processes that tests start would never hear Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # as under nohup: nor would they hear a hang-up


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with the real data sets; a clone without them skips the tests that need one."""
    folder = Path(os.environ.get("MAPA_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"real data sets: {folder}: not there (set MAPA_DATA)")
    return folder
