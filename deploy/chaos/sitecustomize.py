"""A wall clock that can be wrong: Python reads this file at its start, in the nodes of `mapa chaos` and nowhere else.

MAPA_CLOCKS names a folder; a file in it with the name of this container says by how many seconds the clock is off.
"""

import os
import time

_FILE = os.path.join(os.environ.get("MAPA_CLOCKS", "/nowhere"), os.uname().nodename)
_TRUE = time.time_ns


def _wrong_ns() -> int:
    try:
        with open(_FILE, encoding="ascii") as file:
            return _TRUE() + int(float(file.read()) * 1e9)
    except (OSError, ValueError):
        return _TRUE()


def _wrong() -> float:
    return _wrong_ns() / 1e9


time.time_ns, time.time = _wrong_ns, _wrong
