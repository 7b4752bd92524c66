"""Who a process is."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass

from common.node import NodeId, Seconds


@dataclass(frozen=True)
class Identity:
    """The run, the node's id, and the id of this process. Boot ids sort by the start of their processes."""

    run: str
    node_id: NodeId
    boot: str

    @property
    def began(self) -> Seconds:
        """When a process of a `fresh` identity took it, in unix seconds."""
        return int(self.boot.partition("-")[0], 16) / 1e9

    @classmethod
    def fresh(cls, run: str, node_id: NodeId) -> Identity:
        """The identity of a process that starts now."""
        return cls(run, node_id, f"{time.time_ns():016x}-{secrets.token_hex(4)}")
