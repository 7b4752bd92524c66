"""The models an experiment can name: `MODELS` is the whole table.

To add one: write a file of this package with `build(shape, classes) -> ModelSpec` and add its line below. For a
torch module made of the layers that `layers.RULES` knows, that is `Network(Tape(module, shape, classes))`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from common.errors import ConfigError, Fault
from common.experiment import ModelChoice
from common.models.spec import ModelSpec

# Modules by name, imported when chosen: a process with a linear model never loads the tensor library.
MODELS: dict[str, str] = {
    "cnn": "common.models.cnn",
    "logistic": "common.models.logistic",
    "softmax": "common.models.softmax",
    "svm": "common.models.svm",
}


def build_model(choice: ModelChoice, shape: tuple[int, ...], classes: int) -> ModelSpec:
    """The chosen model, sized by the data set.

    Args:
        choice: the experiment's `model` section; its `l2` is not used here, the edge adds that term after the noise.
        shape: of one record, (channels, height, width) or (features,).
        classes: number of labels.

    Raises:
        ConfigError: an unknown name, or a model that does not fit such records.
    """
    if choice.name not in MODELS:
        raise ConfigError(Fault("model.name", choice.name, f"one of {', '.join(sorted(MODELS))}"))
    build: Callable[[tuple[int, ...], int], ModelSpec] = import_module(MODELS[choice.name]).build
    return build(shape, classes)
