"""What someone on the wire sees of an edge: every release, read from the bytes that would leave it.

The whole shipped road is in between: a `Model` message goes into the edge's node, which draws, clips, sums, charges
its ledger, adds noise and answers; the answer is encoded as for the broker, and decoded again.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from common import wire
from common.errors import LocalProtocolError
from common.messages import Directive, Hello, Model, Update
from common.node import CLOUD, Send
from common.privacy.ledger import Ledger
from common.tensors import Layout, Tensors
from edge.algorithms.asynchronous import AsynchronousEdge
from edge.build import Holding
from edge.learner import Learner, Randomness

_NAME = "audit"
_DIGEST = "0" * 64


class Wiretap:
    """An edge of its own, which is asked again and again for a release at the same parameters."""

    def __init__(self, learner: Learner, own: Holding, flat: NDArray[np.float32], clip_norm: float) -> None:
        """Starts the edge.

        Args:
            learner: the edge's records with everything that is done to them.
            own: what the edge holds, for its settings and layout.
            flat: [dimension] parameters that the cloud sends.
            clip_norm: the bound that the cloud asks for.
        """
        hello = Hello(digest=_DIGEST, boot=_NAME, samples=len(own.shard), event=own.plan.event)
        self._node = AsynchronousEdge(hello, learner, own.settings, own.plan.dp_delta)
        self._node.start(0.0)
        self._layout: Layout = own.model.layout
        self._limits = wire.Limits.of(self._layout)
        self._directive = Directive(clip_norm=clip_norm)
        self._tensors = Tensors(self._layout, flat)
        self._tickets = 0

    def releases(self, count: int) -> Iterator[NDArray[np.float64]]:
        """The next `count` releases [dimension], as they were on the wire."""
        for _ in range(count):
            yield self._release()

    def _release(self) -> NDArray[np.float64]:
        self._tickets += 1
        asked = Model(ticket=self._tickets, version=self._tickets, directive=self._directive, tensors=self._tensors)
        for effect in self._node.on_message(CLOUD, asked, float(self._tickets)):
            if isinstance(effect, Send) and isinstance(effect.message, Update):
                sent = wire.encode(wire.Envelope(_NAME, _NAME, self._tickets, 0.0, effect.message))
                seen = wire.decode(sent, self._limits, self._layout).message
                assert isinstance(seen, Update)  # what was encoded
                return seen.tensors.flat.astype(np.float64)
        raise LocalProtocolError(f"edge under audit: no update for ticket {self._tickets}: expected one for each model")


def shipped(own: Holding, randomness: Randomness, l2: float) -> Learner:
    """The learner as every edge has it, with a ledger in memory: an audit charges nobody's budget."""
    return Learner(own.model, own.shard, own.plan, Ledger(), randomness, probes=own.probes, l2=l2)
