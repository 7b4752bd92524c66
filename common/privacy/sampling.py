"""Which records enter a step.

Symbols: n -> records, b -> batch_size, q = b/n -> sampling rate (public).
The coin that draws a batch is secret; so is the size of a Poisson batch. The divisor of the average is b.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from common.events import Sampling

Indices = NDArray[np.int64]


def poisson(records: int, batch_size: int, rng: np.random.Generator) -> Indices:
    """Each record enters on its own with probability b/n; the batch may be empty."""
    return (rng.random(records) < batch_size / records).nonzero()[0]


def fixed(records: int, batch_size: int, rng: np.random.Generator) -> Indices:
    """Exactly b different records, every such set equally likely."""
    return rng.choice(records, batch_size, replace=False, shuffle=False).astype(np.int64, copy=False)


def replacement(records: int, batch_size: int, rng: np.random.Generator) -> Indices:
    """Independent draws, b of them: a record may enter more than once."""
    return rng.integers(records, size=batch_size, dtype=np.int64)


def everything(records: int, _batch_size: int, _rng: np.random.Generator) -> Indices:
    """All records, in order."""
    return np.arange(records, dtype=np.int64)


SAMPLERS: Mapping[Sampling, Callable[[int, int, np.random.Generator], Indices]] = MappingProxyType(
    {"poisson": poisson, "fixed": fixed, "replacement": replacement, "all": everything}
)
