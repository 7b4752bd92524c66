"""Inverts the gradient of the five-layer network: finds a picture whose gradient matches the recorded one.

Sources: Zhu, Liu and Han 2019 (DLG: optimise the picture), Zhao, Mopuri and Bilen 2020 (iDLG: the label first, from
the last layer), Geiping, Bauermeister, Droege and Moeller 2020 (cosine distance, total variation, pixels in a box).
Deviations: Adam on the pixels themselves, its rate falling along a cosine. Without noise the distance is the mean
absolute difference over the mean absolute gradient, which has no floor and therefore ends at the exact record; with
noise it is the cosine distance, which averages the noise out and needs no scale. Where the search gets stuck (the
network has kinks, and so has the distance), it starts again from its best picture with noise on it.

Symbols: x -> pixels, y -> label, p - e_y -> the last layer's bias gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from common.models.cnn import SMALLEST
from common.tensors import Tensors
from lab.attacks.similarity import Picture

START = 0.3
"""Grey of the first picture."""
RATE = 0.1
SOLVED = 0.05
"""A distance without noise at which the record is found: what remains is the step of the optimiser."""
_EXACT_STARTS, _NOISY_STARTS = 6, 2
_SHAKE = 0.3
"""Standard deviation of what is added to the best picture for a new start."""


@dataclass(frozen=True)
class Search:
    """How to look: `exact` if the gradient has no noise; `steps` of each start; `rng` for the starts."""

    exact: bool
    steps: int
    rng: np.random.Generator


@dataclass(frozen=True)
class _Found:
    """A picture [1, *shape], how far its gradient is from the recorded one, and the same with its roughness added."""

    pixels: Tensor
    distance: float
    objective: float


@dataclass(frozen=True)
class _Objective:
    """What is to be small: `distance` of a picture's gradient, and `smoothness` times the picture's variation."""

    twin: FiveLayersTwin
    label: int
    distance: Callable[[Tensor], Tensor]
    smoothness: float

    def of(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """The distance alone, and the whole."""
        apart = self.distance(self.twin.gradient(pixels, self.label, differentiable=True))
        return apart, apart + self.smoothness * _variation(pixels)


class FiveLayersTwin:
    """The five-layer network with gradients of its gradients, which the shipped one has no need of."""

    def __init__(self, parameters: Tensors, shape: tuple[int, ...]) -> None:
        """Takes the parameters that the cloud sent, and the shape of one record (channels, height, width)."""
        self.shape = shape
        self._named = {name: torch.from_numpy(array.copy()).requires_grad_() for name, array in parameters.items()}
        _, height, width = shape
        rows, columns = (max(side, SMALLEST) - side for side in (height, width))
        self._frame = (columns // 2, columns - columns // 2, rows // 2, rows - rows // 2)

    def scores(self, pixels: Tensor) -> Tensor:
        """[batch, classes] of pictures [batch, *shape]."""
        named, hidden = self._named, functional.pad(pixels, self._frame)
        for name in ("conv1", "conv2"):
            convolved = functional.conv2d(hidden, named[f"{name}.weight"], named[f"{name}.bias"])
            hidden = functional.relu(functional.max_pool2d(convolved, 2))
        return functional.linear(hidden.flatten(1), named["full.weight"], named["full.bias"])

    def gradient(self, pixels: Tensor, label: int, *, differentiable: bool = False) -> Tensor:
        """[d] of one picture [1, *shape], in the order of the wire."""
        loss = functional.cross_entropy(self.scores(pixels), torch.tensor([label]))
        parts = torch.autograd.grad(loss, list(self._named.values()), create_graph=differentiable)
        return torch.cat([part.flatten() for part in parts])


def label_of(gradient: Tensors) -> int:
    """The label of the one record behind a gradient.

    A class's row of the last layer is its entry of p - e_y times inputs that no ReLU lets be negative: only the true
    label's has a negative sum, whatever the record.
    """
    sums = gradient["full.weight"].sum(axis=1, dtype=np.float64) + gradient["full.bias"]
    return int(sums.argmin())


def invert(
    parameters: Tensors, gradient: Tensors, shape: tuple[int, ...], search: Search
) -> tuple[Picture, int | None]:
    """The record behind a gradient of the five-layer network at these parameters, and its label.

    Args:
        parameters: what the gradient was computed at.
        gradient: of one record.
        shape: of one record.
        search: how to look.
    """
    if not gradient.flat.any():
        return np.zeros(shape), None
    label, target = label_of(gradient), torch.from_numpy(gradient.flat.copy())
    objective = _Objective(
        FiveLayersTwin(parameters, shape),
        label,
        _absolute(target) if search.exact else _cosine(target),
        # chosen by trial on digits and MNIST; a cosine with noise in it needs more of it on a large picture
        0.2 if search.exact else max(shape[1:]) / 128,
    )
    best: _Found | None = None
    for _ in range(_EXACT_STARTS if search.exact else _NOISY_STARTS):
        found = _descend(objective, _start(shape, best, search.rng), search.steps)
        if best is None or found.objective < best.objective:
            best = found
        if search.exact and best.distance < SOLVED:
            break
    assert best is not None  # there is at least one start
    return best.pixels[0].numpy().astype(np.float64), label


def _start(shape: tuple[int, ...], best: _Found | None, rng: np.random.Generator) -> Tensor:
    if best is None:
        return torch.full((1, *shape), START)
    shaken = best.pixels + torch.from_numpy((_SHAKE * rng.standard_normal((1, *shape))).astype(np.float32))
    return shaken.clamp_(0.0, 1.0)


def _descend(objective: _Objective, pixels: Tensor, steps: int) -> _Found:
    """The best picture on the way down from `pixels` [1, *shape]."""
    best = _Found(pixels.clone(), math.inf, math.inf)
    pixels.requires_grad_()
    optimizer = torch.optim.Adam([pixels], lr=RATE)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = RATE * (0.5 + 0.5 * math.cos(math.pi * step / steps) + 0.01)
        apart, whole = objective.of(pixels)
        (pixels.grad,) = torch.autograd.grad(whole, pixels)
        if float(whole.detach()) < best.objective:
            best = _Found(pixels.detach().clone(), float(apart.detach()), float(whole.detach()))
        optimizer.step()
        with torch.no_grad():
            pixels.clamp_(0.0, 1.0)
    return best


def _absolute(target: Tensor) -> Callable[[Tensor], Tensor]:
    size = target.abs().sum()
    return lambda gradient: (gradient - target).abs().sum() / size


def _cosine(target: Tensor) -> Callable[[Tensor], Tensor]:
    direction = target / target.norm()
    return lambda gradient: 1.0 - gradient @ direction / gradient.norm().clamp_min(1e-12)


def _variation(pixels: Tensor) -> Tensor:
    """Mean absolute difference of neighbours, across and down."""
    return pixels.diff(dim=-1).abs().mean() + pixels.diff(dim=-2).abs().mean()
