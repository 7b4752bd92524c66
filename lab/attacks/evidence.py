"""What a release tells about the canary: numbers that are large where it is there and small where it is not.

Three of them, because an attacker does not know what may be wrong with an edge; which one to use is chosen on one
half of the trials and tested on the other half.

    claimed      log of how much likelier the release is with the canary, if the noise is as the event says: best for
                 an honest mechanism (Neyman and Pearson). Under sampling the canary is in the batch by chance only.
    projection   how far the release lies along the canary's gradient, in units of the noise
    nearness     log of how much nearer it is to where the canary would put it: finds noise that is dense at its centre

Over several releases they add up. All are rounded: the last bits of a float would tell which numbers were added,
which is a matter of the lattice (`common.privacy.lattice`) and not of the noise.

Symbols: p, p' -> densities with the canary's and its counterpart's shift; q -> sampling_rate; lam, s -> scale.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from common.events import Event
from common.privacy.noise import noise_of
from lab.attacks.canary import Case

KINDS = ("claimed", "projection", "nearness")
DECIMALS = 6
_NEAREST = 1e-4
"""Of the noise scale: below this the rounding of float32 shows, and not the distance."""


class Evidence:
    """What the attacker makes of each release of a case, by the densities of the event that is claimed."""

    def __init__(self, case: Case, claimed: Event) -> None:
        noise = noise_of(claimed)
        unit = case.clip_norm / case.present.plan.batch_size
        scale = unit if noise is None else noise.scale(unit)  # without noise there is no density: any scale does
        self._scale = scale
        self._base = case.base / scale
        self._moves = [move / scale for move in (case.shift, case.counter)]
        self._squares = [float(move @ move) for move in self._moves]
        way = self._moves[0] - self._moves[1]
        self._way = way / (float(np.linalg.norm(way)) or 1.0)
        self._rate = 1.0 if claimed.sampling == "all" else claimed.sampling_rate
        self._is_gaussian = claimed.epsilon is None

    def of_release(self, release: NDArray[np.float64]) -> NDArray[np.float64]:
        """[3] one number for each of KINDS, of a release [dimension]."""
        rest = release / self._scale
        rest -= self._base
        square = float(rest @ rest)
        claimed, distances = [], []
        for move, own in zip(self._moves, self._squares, strict=True):
            gain = 2 * float(rest @ move) - own
            distance = math.sqrt(max(square - gain, 0.0))
            distances.append(max(distance, _NEAREST))
            claimed.append(self._in_a_batch(gain, math.sqrt(square) + distance))
        nearness = math.log(distances[1] / distances[0])
        return np.array([claimed[0] - claimed[1], float(rest @ self._way), nearness])

    def _in_a_batch(self, gain: float, distances: float) -> float:
        """Log likelihood ratio of a move against none, where the move happens at the sampling rate.

        `gain` is the squared distance without it less the one with it, `distances` the sum of the two distances.
        """
        loss = gain / 2 if self._is_gaussian else gain / max(distances, _NEAREST)
        if self._rate == 1:
            return loss
        return float(np.logaddexp(math.log1p(-self._rate), math.log(self._rate) + loss))
