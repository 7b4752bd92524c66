"""The global model: one flat buffer, moved in place.

Symbols: x -> flat, gamma -> rate, g -> update.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from common.tensors import Flat, Tensors

BLOCK = 262_144
"""Numbers moved at a time (1 MiB): a block and its scaled update stay in the cache, so that a step reads and
writes memory hardly more often than a bare `x -= g`."""


class Parameters:
    """The parameters x and their version, which grows with every change.

    `tensors` is a read-only view of the live buffer: whoever keeps it sees it change.
    """

    STATE = ("_flat", "version")

    def __init__(self, start: Tensors) -> None:
        self._flat = start.flat.copy()
        self._scratch = np.empty(min(BLOCK, max(1, self._flat.size)), dtype=np.float32)
        self.tensors = Tensors(start.layout, self._flat)
        self.version = 1

    @property
    def flat(self) -> Flat:
        """The live parameters [dimension], read-only."""
        return self.tensors.flat

    def step(self, updates: Sequence[Flat], rate: float) -> bool:
        """Moves x to x - rate * mean(updates), in the given order; each update is [dimension].

        Returns:
            False if the result overflows float32 (|x|^2 does): the run has diverged and x is of no use.
        """
        finite = True
        # A step that overflows is an answer of this function, not a surprise worth a warning.
        with np.errstate(over="ignore", invalid="ignore"):
            factor = np.float32(rate / len(updates))
            for start in range(0, self._flat.size, BLOCK):
                block = self._flat[start : start + BLOCK]
                scaled = self._scratch[: block.size]
                for update in updates:
                    np.multiply(update[start : start + BLOCK], factor, out=scaled)
                    block -= scaled
                finite = finite and math.isfinite(block.dot(block))
        self.version += 1
        return finite

    def restore(self, flat: Flat) -> None:
        """Goes on from these parameters [dimension]: a change like any other, so the version grows."""
        np.copyto(self._flat, flat)
        self.version += 1
