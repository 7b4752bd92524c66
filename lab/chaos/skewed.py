"""A node whose clock is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from common.messages import Message
from common.node import Effect, Node, NodeId, Seconds


@dataclass(frozen=True)
class Skewed:
    """`by`: seconds by which its shell's clock is ahead."""

    node: Node
    by: Seconds

    def start(self, now: Seconds) -> Sequence[Effect]:
        """As the node."""
        return self.node.start(now + self.by)

    def on_message(self, sender: NodeId, message: Message, now: Seconds) -> Sequence[Effect]:
        """As the node."""
        return self.node.on_message(sender, message, now + self.by)

    def on_wake(self, name: str, now: Seconds) -> Sequence[Effect]:
        """As the node."""
        return self.node.on_wake(name, now + self.by)
