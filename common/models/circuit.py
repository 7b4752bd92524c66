"""What computes a network's scores and gradients: any torch module on a `Tape`, or code written for one network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from torch import Tensor

from common.models.layers import Gradients

# From scores [batch, classes] to the derivatives of each record's loss by them.
Slopes = Callable[[Tensor], Tensor]


class Circuit(Protocol):
    """Maps float32 [batch, *shape] to scores [batch, classes], each record by itself.

    `bind` comes first; what is in the bound tensors at the time of a call are the parameters. Gradients come by the
    name of a parameter; one entry may hold those of several parameters that follow each other in the layout, as one
    row for each record, under the name of the first.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one record."""

    @property
    def classes(self) -> int:
        """How many scores a record has."""

    @property
    def parameters(self) -> Mapping[str, tuple[int, ...]]:
        """Shapes of the parameters by name."""

    def bind(self, memory: Mapping[str, Tensor]) -> None:
        """Takes its parameters, by name, from these tensors from now on."""

    def scores(self, inputs: Tensor) -> Tensor:
        """[batch, classes], without a trace for gradients."""

    def gradients(self, inputs: Tensor, slopes: Slopes) -> Mapping[str, Gradients]:
        """The per-record gradients of all parameters."""

    def totals(self, inputs: Tensor, slopes: Slopes) -> Mapping[str, Tensor]:
        """The gradients of all parameters, summed over the batch."""
