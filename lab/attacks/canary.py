"""A canary: one crafted record of an edge, and parameters at which it moves the edge's release as far as it can.

The attacker is the cloud. It knows every record but the canary, chooses the parameters and the clip bound that it
sends, and looks for a single bit: is the canary there or not (`add_remove`), or is it there or its opposite
(`replace_one`)?

    canary        the edge's least used feature at full strength, so that other records hardly move along with it
    parameters    descended from the model's first ones until two labels are equally likely for the canary, and no
                  other one is: there its gradients under the two labels are opposite
    clip bound    what the experiment begins with, or half of the canary's gradient norm if that is less

Source: Nasr et al. 2021, "Adversary Instantiation" (the attacker may choose the records and sees every step).
Symbols: C -> clip_norm, b -> batch_size, n -> records.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from common.events import Event
from common.tensors import Flat
from edge.build import Holding
from lab.attacks.crafting import LABELS, clipped, gradient_norms, lonely, moves, replaced, undecided, vacated

REACH = 0.5
"""The largest clip bound, as a share of the canary's gradient norm: one that surely clips it."""


@dataclass(frozen=True)
class Case:
    """Two neighbouring edges, and what the attacker sends to either.

    Attributes:
        present: the edge with the canary.
        absent: the edge without it, or with its opposite.
        flat: [dimension] the parameters.
        clip_norm: the clip bound.
        base: [dimension] the expected release, noise aside, if the canary's place contributes nothing.
        shift: [dimension] how far the canary moves it when it is in the batch.
        counter: [dimension] the same of what is there instead of the canary; zero where nothing is.
        l2: weight of the regulariser, which the edge adds to every release.
    """

    present: Holding
    absent: Holding
    flat: Flat
    clip_norm: float
    base: NDArray[np.float64]
    shift: NDArray[np.float64]
    counter: NDArray[np.float64]
    l2: float = 0.0

    @property
    def event(self) -> Event:
        """What the edge says one release is."""
        return self.present.plan.event

    @property
    def reach(self) -> float:
        """The distance between the two edges' averages, as a share of the sensitivity that the noise is made for."""
        full = (2 if self.event.adjacency == "replace_one" else 1) * self.clip_norm / self.present.plan.batch_size
        return float(np.linalg.norm(self.shift - self.counter)) / full


def craft(own: Holding, most: float | None, l2: float = 0.0) -> Case:
    """The strongest canary for this edge, in place of its first record.

    Args:
        own: the edge's records, model and plan.
        most: the clip bound to ask for at most; None for no limit.
        l2: weight of the regulariser.
    """
    model, plan = own.model, own.plan
    record = lonely(model, own.shard.inputs)
    flat = undecided(model, record)
    bound = min(REACH * float(gradient_norms(model, flat, record).min()), math.inf if most is None else most)
    present, opposite = (replaced(own.shard, record, [label]) for label in LABELS)
    shift, counter = (moves(model, flat, record, label, bound)[0] / plan.batch_size for label in LABELS)
    is_removed = plan.event.adjacency == "add_remove"
    vacancy = vacated(present, [0])
    return Case(
        present=replace(own, shard=present),
        absent=replace(own, shard=vacancy if is_removed else opposite),
        flat=flat,
        clip_norm=bound,
        base=clipped(model, flat, vacancy, bound) / len(own.shard) + l2 * flat.astype(np.float64),
        shift=shift,
        counter=np.zeros_like(shift) if is_removed else counter,
        l2=l2,
    )
