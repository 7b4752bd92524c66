"""What a release costs: the public description of one noisy message, as the accountant reads it.

Symbols: z -> noise_multiplier, q -> sampling_rate, eps -> epsilon, d -> dimension.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

Mechanism = Literal["gaussian", "spherical-laplace", "none", "paper"]
Sampling = Literal["poisson", "fixed", "replacement", "all"]
Adjacency = Literal["add_remove", "replace_one"]


class Event(BaseModel):
    """One release of one edge.

    `mechanism` "none" promises nothing (epsilon is infinite); "paper" is a literal reading whose privacy is
    not established. `noise_multiplier` is the Gaussian's std over the sensitivity C/b (one record added or
    removed, divisor b), whatever the adjacency; `epsilon` is the spherical Laplace mechanism's pure epsilon
    for replacing one record inside a known batch. `sampling_rate` is the public rate q in (0, 1].
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    mechanism: Mechanism
    noise_multiplier: FiniteFloat | None = Field(default=None, gt=0)
    epsilon: FiniteFloat | None = Field(default=None, gt=0)
    dimension: int | None = Field(default=None, ge=1)
    sampling: Sampling = "all"
    sampling_rate: FiniteFloat = Field(default=1.0, gt=0, le=1)
    adjacency: Adjacency = "add_remove"
