"""What a torch module must be before its gradients may be called private; refused at start-up, with the layer's name.

A layer that mixes records (BatchNorm) makes one record's gradient depend on the others, so that clipping each no
longer bounds what one record can change. A layer without a rule, or used twice, would give wrong norms.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from common.errors import ConfigError, Fault
from common.models.layers import RULES
from common.seeds import stream

_MIXES = "no layer that mixes records; use GroupNorm"
_TRACKS = "no layer that keeps running statistics of records; use GroupNorm"


def check_module(module: nn.Module) -> None:
    """Looks at the layers one by one.

    Raises:
        ConfigError: with one fault for each layer or parameter that cannot be used.
    """
    faults = []
    for name, layer in module.named_modules():
        expected = _objection(layer)
        if expected is not None:
            faults.append(Fault(f"model layer {name or '(root)'}", type(layer).__name__, expected))
    seen: dict[int, str] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        first = seen.setdefault(id(parameter), name)
        if first != name:
            faults.append(Fault(f"model parameter {name}", f"shared with {first}", "a parameter of its own"))
        if parameter.dtype != torch.float32 or parameter.device.type != "cpu":
            faults.append(Fault(f"model parameter {name}", f"{parameter.dtype} on {parameter.device}", "float32, cpu"))
    if not seen:
        faults.append(Fault("model", type(module).__name__, "at least one layer with parameters"))
    if faults:
        raise ConfigError(faults)


def check_passage(
    rehearse: Callable[[NDArray[np.float32]], tuple[Tensor, list[str]]],
    shape: tuple[int, ...],
    classes: int,
    layers: frozenset[str],
) -> None:
    """Sends two made-up records through: the layers each once, one row of scores a record, no record in another's.

    Args:
        rehearse: maps [2, *shape] to scores and the names of the layers in the order of their use.
        shape: of one record as the module takes it.
        classes: number of scores.
        layers: names of all layers with parameters.

    Raises:
        ConfigError: naming the layer, or the shape of the scores.
    """
    records = stream(0, "model", "inspection", "records").random((3, *shape), dtype=np.float32)
    try:
        scores, used = rehearse(records[[0, 1]])
        others, _ = rehearse(records[[0, 2]])
    except (RuntimeError, ValueError, IndexError) as error:
        raise ConfigError(Fault("model", str(error), f"a module that takes records of shape {list(shape)}")) from error
    faults = [
        Fault(f"model layer {name or '(root)'}", f"used {used.count(name)} times", "once in each forward pass")
        for name in sorted(layers)
        if used.count(name) != 1
    ]
    if tuple(scores.shape) != (2, classes):
        faults.append(Fault("model", f"scores of shape {list(scores.shape)}", f"[batch, {classes}]"))
    elif not torch.allclose(scores[0], others[0], rtol=1e-4, atol=1e-5):
        faults.append(Fault("model", "a record's scores change with the rest of its batch", _MIXES))
    if faults:
        raise ConfigError(faults)


def _objection(layer: nn.Module) -> str | None:
    """What should have been there instead of this layer, or None if it is fine."""
    if isinstance(layer, nn.modules.batchnorm._BatchNorm):
        return _MIXES
    if isinstance(layer, nn.modules.batchnorm._NormBase) and layer.track_running_stats:
        return _TRACKS
    if isinstance(layer, nn.modules.dropout._DropoutNd) and layer.p > 0:
        return "no dropout: its random choices belong to no named stream, and the noise already regularises"
    if next(layer.parameters(recurse=False), None) is not None and type(layer) not in RULES:
        known = ", ".join(rule.__name__ for rule in RULES)
        return (
            f"a layer with a rule for per-record gradients ({known}) or without parameters; use GroupNorm to normalise"
        )
    if isinstance(layer, nn.Conv2d) and layer.padding_mode != "zeros":
        return f"padding_mode zeros, not {layer.padding_mode}"
    return None
