"""The edge's program: `python -m edge --id edge-0001 --experiment FILE --broker HOST[:PORT] --run ID --out DIR`.

One thread for numerical libraries, and an allocator that keeps what it has freed, are set here, before those
libraries are loaded: several processes share a machine, and models come and go with every message.
"""

from __future__ import annotations

import ctypes
import os
import sys

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
MALLOC = {-1: 256 * 2**20, -3: 32 * 2**20}
"""glibc's mallopt: M_TRIM_THRESHOLD and M_MMAP_THRESHOLD (its maximum), in bytes."""


def _settle() -> None:
    """One thread, and no page faults for blocks that were in use a moment ago (other C libraries: no such knob)."""
    for name in THREADS:
        os.environ.setdefault(name, "1")
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        for option, value in MALLOC.items():
            mallopt(option, value)


def main() -> int:
    """Runs the edge until the run is over; the exit code of the process."""
    _settle()
    from common.program import guard  # noqa: PLC0415
    from edge.program import run  # noqa: PLC0415 - numerical libraries read the settings when they are loaded

    return guard(lambda: run(sys.argv[1:], os.environ))


if __name__ == "__main__":
    sys.exit(main())
