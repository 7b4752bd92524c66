"""What every part of an experiment file is made of."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, StringConstraints

Positive = Annotated[FiniteFloat, Field(gt=0)]
Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,47}$")]


class Section(BaseModel):
    """A part of the experiment: immutable, unknown keys refused, no silent conversion between types."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
