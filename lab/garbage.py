"""How often the interpreter looks for garbage while a simulation runs."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_ALIVE = 100_000  # things made and not yet gone, at which it is time to look for garbage


@contextmanager
def settled() -> Iterator[None]:
    """Has the interpreter look for garbage less often, and not among the many things that a run was made of."""
    first, *others = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_ALIVE, *others)
    try:
        yield
    finally:
        gc.set_threshold(first, *others)
        gc.unfreeze()
