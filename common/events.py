"""What a release costs: the public description of one noisy message, as the accountant reads it.

Symbols: z -> noise_multiplier, q -> sampling_rate, eps -> epsilon, d -> dimension.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

Mechanism = Literal["gaussian", "spherical-laplace", "none", "paper"]
Sampling = Literal["poisson", "fixed", "replacement", "all"]
Adjacency = Literal["add_remove", "replace_one"]

SMALLEST, LARGEST = 1e-6, 1e6
"""Of a noise multiplier and of an epsilon: beyond lies no noise, or nothing but noise, and numbers that overflow."""
SMALLEST_RATE = 1e-9

Strength = Annotated[FiniteFloat, Field(ge=SMALLEST, le=LARGEST)]


class Event(BaseModel):
    """One release of one edge.

    `mechanism` "none" promises nothing (epsilon is infinite); "paper" is a literal reading whose privacy is
    not established. `noise_multiplier` is the Gaussian's std over the sensitivity C/b (one record added or
    removed, divisor b), whatever the adjacency; `epsilon` is the spherical Laplace mechanism's pure epsilon
    for replacing one record inside a known batch. `sampling_rate` is the public rate q in [1e-9, 1].
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    mechanism: Mechanism
    noise_multiplier: Strength | None = None
    epsilon: Strength | None = None
    dimension: int | None = Field(default=None, ge=1)
    sampling: Sampling = "all"
    sampling_rate: FiniteFloat = Field(default=1.0, ge=SMALLEST_RATE, le=1)
    adjacency: Adjacency = "add_remove"
