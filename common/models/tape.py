"""Any torch module as a `Circuit`: one forward and one backward pass note what its layers' gradients are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from common.errors import SensitivityError
from common.models.circuit import Slopes
from common.models.inspection import check_module, check_passage
from common.models.layers import RULES, Gradients


@dataclass(frozen=True)
class Passage:
    """What one layer saw: its input, and its output as autograd knows it, even if that is written over later."""

    name: str
    layer: nn.Module
    entered: Tensor
    version: int
    left: GradientEdge


class Tape:
    """A `Circuit` of the layers in `layers.RULES` and of layers without parameters."""

    def __init__(self, module: nn.Module, shape: tuple[int, ...], classes: int, *, channels_last: bool = False) -> None:
        """Takes `module` over, with hooks on its layers for good.

        Args:
            module: maps float32 [batch, *shape] to scores [batch, classes], each record by itself.
            shape: of one record.
            classes: number of scores.
            channels_last: keep pictures in channels-last layout, which is faster for some networks on a CPU.

        Raises:
            ConfigError: a layer that mixes records, has no rule or is not used once; scores of a wrong shape.
        """
        check_module(module)
        self.shape = shape
        self.classes = classes
        self._module = module.eval()
        self._channels_last = channels_last
        self._owned = dict(module.named_parameters())
        self._layers = frozenset(
            name
            for name, layer in module.named_modules()
            if type(layer) in RULES and next(layer.parameters(recurse=False), None) is not None
        )
        self._passages: list[Passage] | None = None
        for name in self._layers:
            self._watch(name, module.get_submodule(name))
        for parameter in self._owned.values():
            parameter.requires_grad_()
        check_passage(self._rehearse, shape, classes, self._layers)

    @property
    def parameters(self) -> Mapping[str, tuple[int, ...]]:
        """Shapes of the module's parameters."""
        return {name: tuple(parameter.shape) for name, parameter in self._owned.items()}

    def bind(self, memory: Mapping[str, Tensor]) -> None:
        """Makes the module's parameters views of `memory`."""
        for name, parameter in self._owned.items():
            parameter.data = memory[name]

    def scores(self, inputs: Tensor) -> Tensor:
        """[batch, classes] without a trace for gradients."""
        with torch.inference_mode():
            scores: Tensor = self._module(self._laid_out(inputs))
        return scores

    def totals(self, inputs: Tensor, slopes: Slopes) -> Mapping[str, Tensor]:
        """Plain autograd."""
        scores: Tensor = self._module(self._laid_out(inputs))
        sums = torch.autograd.grad(scores, list(self._owned.values()), slopes(scores.detach()))
        return dict(zip(self._owned, sums, strict=True))

    def gradients(self, inputs: Tensor, slopes: Slopes) -> Mapping[str, Gradients]:
        """By the layers' rules, from a backward pass to the layers' outputs only.

        Raises:
            SensitivityError: this time a layer was not used once, or its input was written over afterwards.
        """
        scores, passages = self._play(inputs)
        used = [passage.name for passage in passages]
        if len(used) != len(self._layers) or self._layers.difference(used):
            raise SensitivityError(f"layers used: {used}: expected each of {sorted(self._layers)} once")
        changed = [passage.name for passage in passages if passage.entered._version != passage.version]
        if changed:
            raise SensitivityError(f"inputs of {changed}: written over in place: expected left as they were")
        lefts = torch.autograd.grad(scores, [passage.left for passage in passages], slopes(scores.detach()))
        found: dict[str, Gradients] = {}
        with torch.no_grad():
            for passage, left in zip(passages, lefts, strict=True):
                own = RULES[type(passage.layer)](passage.layer, passage.entered, left)
                found.update({f"{passage.name}.{name}".lstrip("."): gradients for name, gradients in own.items()})
        return found

    def _play(self, inputs: Tensor) -> tuple[Tensor, Sequence[Passage]]:
        passages: list[Passage] = []
        self._passages = passages
        try:
            scores: Tensor = self._module(self._laid_out(inputs))
        finally:
            self._passages = None
        return scores, passages

    def _watch(self, name: str, layer: nn.Module) -> None:
        def note(layer: nn.Module, entered: tuple[Tensor, ...], left: Tensor) -> None:
            if self._passages is not None:
                source = entered[0].detach()
                self._passages.append(Passage(name, layer, source, source._version, get_gradient_edge(left)))

        layer.register_forward_hook(note)

    def _laid_out(self, inputs: Tensor) -> Tensor:
        if not self._channels_last:
            return inputs
        batch, channels, height, width = inputs.shape
        if channels == 1:
            # the same memory in either layout; only the strides tell torch which one is meant
            return inputs.as_strided((batch, 1, height, width), (height * width, 1, width, 1))
        return inputs.contiguous(memory_format=torch.channels_last)

    def _rehearse(self, records: NDArray[np.float32]) -> tuple[Tensor, list[str]]:
        scores, passages = self._play(torch.from_numpy(records))
        return scores.detach(), [passage.name for passage in passages]
