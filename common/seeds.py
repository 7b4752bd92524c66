"""Independent random generators, each known by its name.

Two streams with different names share nothing; the same seed and names give the same numbers
on every machine. No other module creates a generator from a seed. What must stay secret comes from `secrecy`.
"""

from __future__ import annotations

import hashlib

import numpy as np


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """A generator that belongs to `names`, e.g. `stream(7, "edge-0001", "noise")`."""
    label = "\x1f".join([str(seed), *(str(name) for name in names)])
    words = np.frombuffer(hashlib.sha256(label.encode()).digest(), dtype=np.uint32)
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(words.tolist())))
