"""Crafts what an attacker needs against an edge: records, parameters, and shards with and without these records."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from common.models.spec import Inputs, Labels, ModelSpec
from common.seeds import stream
from common.tensors import Flat
from edge.learner import Shard

LABELS = (0, 1)
"""Of a canary and of its opposite."""
_STEPS = 100
_OPPOSITE = 1e-3
"""Squared norm of two gradients' sum over that of one, where they count as opposite: 0.01 % from full reach."""
_CANDIDATES = 256
_LOOKED_AT = 512


class Vacant:
    """Rows [n, ...] of which some contribute nothing. Their places are public: they can be drawn, and give no row."""

    def __init__(self, rows: NDArray[Any], places: Sequence[int]) -> None:
        self._rows = rows
        self._is_there = np.ones(len(rows), dtype=bool)
        self._is_there[list(places)] = False

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, indices: NDArray[np.int64]) -> NDArray[Any]:
        found: NDArray[Any] = self._rows[indices[self._is_there[indices]]]
        return found


def vacated(shard: Shard, places: Sequence[int]) -> Shard:
    """The shard without what is at these places; rate and divisor stay, as the number of records is public."""
    inputs, labels = (Vacant(rows, places) for rows in (shard.inputs, shard.labels))
    return Shard(cast(Inputs, inputs), cast(Labels, labels))  # all a learner does with rows is to take some


def replaced(shard: Shard, records: Inputs, labels: Sequence[int]) -> Shard:
    """The shard with these records and labels in its first places."""
    rows, own = shard.inputs.copy(), shard.labels.copy()
    rows[: len(records)], own[: len(records)] = records, labels
    return Shard(rows, own)


def lonely(model: ModelSpec, rows: Inputs, most: int = 1) -> Inputs:
    """[up to most, ...] records of one feature each, those that overlap least with the edge's own records `rows`."""
    width = math.prod(model.shape)
    places = np.unique(np.linspace(0, max(width - 1, 0), min(width, _CANDIDATES)).astype(np.int64))
    full, dtype = (255, np.uint8) if rows.dtype == np.uint8 else (1, np.float32)
    raw = np.zeros((max(len(places), 1), width), dtype=dtype)  # a model without features has one record: nothing
    raw[np.arange(len(places)), places] = full
    records = model.prepare(raw.reshape(len(raw), *model.shape), float(full))
    known = rows[:_LOOKED_AT].reshape(min(len(rows), _LOOKED_AT), -1).astype(np.float64)
    overlap = np.square(records.reshape(len(records), -1).astype(np.float64) @ known.T).sum(axis=1)
    return records[np.argsort(overlap, kind="stable")[:most]]


def undecided(model: ModelSpec, records: Inputs) -> Flat:
    """[dimension] parameters that find both of LABELS equally likely for `records`, and all other labels unlikely.

    There the gradients of a record under the two labels are opposite, whatever the model before its scores.
    """
    flat = model.init(stream(0, "audit", "model")).flat.copy()
    first = np.full(len(records), LABELS[0])
    slope = float(np.square(model.gradient_sum(flat, records, first).astype(np.float64)).sum())
    if slope == 0:
        return flat
    twice, both = np.concatenate([records, records]), np.concatenate([first, np.full(len(records), LABELS[1])])
    for _ in range(_STEPS):  # a step changes the scores of the records by about 1
        rest = model.gradient_sum(flat, twice, both)
        if float(np.square(rest.astype(np.float64)).sum()) < _OPPOSITE * slope:
            break
        flat -= rest * np.float32(len(records) / slope)
    return flat


def gradient_norms(model: ModelSpec, flat: Flat, records: Inputs) -> NDArray[np.float64]:
    """[2, records] norm of each record's gradient under either of LABELS."""
    return np.array([model.norms(flat, records, np.full(len(records), label)) for label in LABELS])


def clipped(model: ModelSpec, flat: Flat, shard: Shard, clip_norm: float) -> NDArray[np.float64]:
    """[dimension] the sum of all gradients of a shard, each clipped."""
    places = np.arange(len(shard))
    return model.clipped_sum(flat, shard.inputs[places], shard.labels[places], clip_norm).astype(np.float64)


def moves(model: ModelSpec, flat: Flat, records: Inputs, label: int, clip_norm: float) -> NDArray[np.float64]:
    """[records, dimension] the clipped gradient of each record under a label."""
    each = [Shard(records[place : place + 1], np.array([label])) for place in range(len(records))]
    return np.array([clipped(model, flat, one, clip_norm) for one in each])
