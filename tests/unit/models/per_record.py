"""The slow way to per-record gradients: one float64 backward pass a record, by definitions written apart."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional
from torch.nn.utils import parameters_to_vector

from common.tensors import Layout

Loss = Callable[[dict[str, torch.Tensor], torch.Tensor, torch.Tensor], torch.Tensor]


def cross_entropy(scores: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(scores[None], label[None])


def softmax(parameters: dict[str, torch.Tensor], record: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    return cross_entropy(parameters["weight"] @ record, label)


def svm(parameters: dict[str, torch.Tensor], record: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    scores = parameters["weight"] @ record
    others = torch.cat([scores[:label], scores[label + 1 :]])
    return torch.relu(1 + others.max() - scores[label])


def logistic(parameters: dict[str, torch.Tensor], record: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    score = (parameters["weight"] @ record)[0]
    return functional.softplus(score) - label * score


def cnn(parameters: dict[str, torch.Tensor], record: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    hidden = record[None]
    for name in ("conv1", "conv2"):
        hidden = functional.conv2d(hidden, parameters[f"{name}.weight"], parameters[f"{name}.bias"])
        hidden = functional.max_pool2d(torch.relu(hidden), 2)
    return cross_entropy(parameters["full.weight"] @ hidden.flatten() + parameters["full.bias"], label)


LOSSES: dict[str, Loss] = {"cnn": cnn, "logistic": logistic, "softmax": softmax, "svm": svm}


def of_module(module: torch.nn.Module) -> Loss:
    """The cross-entropy of a network, in float64."""
    double = copy.deepcopy(module).double()
    for layer in double.modules():
        layer._forward_hooks.clear()

    def loss(parameters: dict[str, torch.Tensor], record: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return cross_entropy(torch.func.functional_call(double, parameters, (record[None],))[0], label)

    return loss


def losses_and_gradients(
    loss: Loss, layout: Layout, flat: NDArray[np.float32], inputs: NDArray[np.generic], labels: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """[batch] and [batch, d], one record after the other."""
    losses, rows = [], []
    for record, label in zip(inputs, labels, strict=True):
        parameters = {
            name: torch.tensor(flat[start : start + int(np.prod(shape))].reshape(shape), dtype=torch.float64)
            for (name, shape), start in zip(layout.shapes, layout.offsets, strict=True)
        }
        for parameter in parameters.values():
            parameter.requires_grad_()
        value = loss(parameters, torch.tensor(record, dtype=torch.float64), torch.tensor(int(label)))
        gradients = torch.autograd.grad(value, list(parameters.values()))
        losses.append(value.item())
        rows.append(parameters_to_vector(gradients).numpy())
    return np.array(losses), np.array(rows).reshape(len(labels), layout.size)


def clipped(rows: NDArray[np.float64], bound: float) -> NDArray[np.float64]:
    """[d] the sum of the rows, each cut to a length of at most `bound`."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.where(norms > bound, rows * bound / np.maximum(norms, 1e-300), rows).sum(axis=0)
