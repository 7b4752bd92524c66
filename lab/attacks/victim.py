"""An edge with one record, which is asked for one release: the bytes of the question and of the answer.

The whole shipped road is in between: a `Model` message goes into the edge's node, which clips, charges its ledger,
adds noise and answers. The batch is the shard, and the shard is the record, so that the release is about it alone.

| mechanism | noise where an epsilon is given |
|---|---|
| paper | MAPA's literal reading: exponential radius of mean 2C/epsilon. What epsilon it has is not established |
| rigorous | spherical Laplace: radius of law Gamma(d, 2C/epsilon), pure epsilon for one record replaced by another |
| gaussian | normal, of the same standard deviation per coordinate as `rigorous`: 2C sqrt(d + 1)/epsilon |

Without an epsilon the release is that of ASGD: the plain gradient, neither clipped nor noised.
Symbols: C -> clip_norm, d -> dimension.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cloud.build import first_clip_norm
from common import wire
from common.data import describe
from common.errors import LocalProtocolError, WireError
from common.events import Mechanism
from common.experiment import Experiment, parse
from common.messages import Directive, Hello, Message, Model, Update
from common.models import build_model
from common.models.spec import ModelSpec
from common.node import CLOUD, Send
from common.privacy.ledger import Ledger
from common.privacy.plan import plan_for
from common.seeds import stream
from common.tensors import Tensors
from edge.algorithms.asynchronous import AsynchronousEdge, Settings
from edge.learner import Learner, Randomness, Shard

Noise = Literal["paper", "rigorous", "gaussian"]
EDGE = "edge-0001"
_NAME = "inversion"


class Victim:
    """One edge of one model with one mechanism; a new record is a new edge."""

    def __init__(self, base: Experiment, model: str, noise: Noise, epsilon: float | None) -> None:
        """Sets the experiment up.

        Args:
            base: whose data, seed, clip norm and l2 are used.
            model: name of the model.
            noise: the mechanism where there is an epsilon.
            epsilon: of one release; None for a plain gradient.

        Raises:
            ConfigError: the model does not fit the data, or the epsilon is out of range.
            DataError: the data set is missing.
        """
        classes = classes_for(base, model)
        self.model: ModelSpec = build_model(
            base.model.model_copy(update={"name": model}), describe(base.data).shape, classes
        )
        self.experiment = _declared(base, model, _privacy(base, noise, epsilon, self.model.layout.size), noise)
        self._names = (_NAME, model, "none" if epsilon is None else repr(epsilon))
        clip_norm = first_clip_norm(self.experiment)
        parameters = self.model.init(stream(base.seed, "model"))
        self.asked = Model(ticket=1, version=1, directive=Directive(clip_norm=clip_norm), tensors=parameters)

    @property
    def question(self) -> bytes:
        """What the cloud sends: its `Model` message on the wire."""
        return _sent(self.asked)

    def answer(self, record: NDArray[np.generic], scale: float, label: int, number: int) -> bytes:
        """What an edge with this record sends: its `Update` message on the wire.

        Args:
            record: [*shape], raw.
            scale: of the record.
            label: of the record, as the model has it.
            number: tells records apart, whose edges do not share noise.
        """
        shard = Shard(self.model.prepare(record[np.newaxis], scale), np.array([label], dtype=np.int64))
        plan = plan_for(self.experiment, EDGE, 1, self.model.layout.size)
        draw, noise = (stream(self.experiment.seed, *self._names, number, use) for use in ("draw", "noise"))
        randomness = Randomness(draw, noise)
        learner = Learner(self.model, shard, plan, Ledger(), randomness, l2=self.experiment.model.l2)
        hello = Hello(digest=self.experiment.digest(), boot=_NAME, samples=1, event=plan.event)
        node = AsynchronousEdge(hello, learner, Settings(), plan.dp_delta)
        node.start(0.0)
        for effect in node.on_message(CLOUD, self.asked, 1.0):
            if isinstance(effect, Send) and isinstance(effect.message, Update):
                return _sent(effect.message)
        raise LocalProtocolError("edge under attack: no update for its model: expected one")


@dataclass(frozen=True)
class Sight:
    """What a cloud sees of one answer: the parameters it had sent, the gradient that came, and which noise is in it."""

    parameters: Tensors
    gradient: Tensors
    mechanism: Mechanism


def seen(question: bytes, answer: bytes, l2: float) -> Sight:
    """What the cloud makes of an answer; the l2 term, which it knows, is taken off the gradient.

    Raises:
        WireError: the bytes are not these messages.
    """
    asked = wire.decode(question, wire.Limits()).message
    if not isinstance(asked, Model):
        raise WireError(f"question to an edge: {asked.kind}: expected a model")
    layout = asked.tensors.layout
    answered = wire.decode(answer, wire.Limits.of(layout), layout).message
    if not isinstance(answered, Update):
        raise WireError(f"answer of an edge: {answered.kind}: expected an update")
    flat = answered.tensors.flat - np.float32(l2) * asked.tensors.flat
    return Sight(asked.tensors, Tensors(layout, flat), answered.event.mechanism)


def classes_for(base: Experiment, model: str) -> int:
    """How many classes this model is asked to tell apart: two for the logistic one, lower against upper half."""
    return 2 if model == "logistic" else describe(base.data).classes


def _sent(message: Message) -> bytes:
    return wire.encode(wire.Envelope(_NAME, _NAME, 1, 0.0, message))


def _privacy(base: Experiment, noise: Noise, epsilon: float | None, dimension: int) -> dict[str, Any]:
    shared = {"sampling": "all", "randomness": "reproducible", "dp_delta": base.privacy.dp_delta}
    if epsilon is None:
        return {**shared, "mechanism": "none"}
    shared["clip_norm"] = base.privacy.clip_norm
    if noise == "gaussian":
        multiplier = 2 * math.sqrt(dimension + 1) / epsilon
        return {**shared, "mechanism": "gaussian", "noise_multiplier": multiplier}
    return {**shared, "mechanism": "spherical-laplace", "epsilon": epsilon}


def _declared(base: Experiment, model: str, privacy: dict[str, Any], noise: Noise) -> Experiment:
    is_private = privacy["mechanism"] != "none"
    data = base.data.model_dump() | {"edges": 1}
    if model == "logistic" and describe(base.data).classes != 2:
        data["classes"] = "halves"
    return parse(
        {
            "name": base.name,
            "seed": base.seed,
            "data": data,
            "model": {"name": model, "l2": base.model.l2},
            "algorithm": {
                "name": "audp" if is_private else "asgd",
                "rigour": "paper" if is_private and noise == "paper" else "rigorous",
                "batch_size": 1,
            },
            "privacy": privacy,
            "stop": {"updates": 1},
        }
    )
