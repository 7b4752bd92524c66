"""Destinations and topics: one table for both directions.

    fl/<run>/edge/<id>/up/<kind>      an edge to the cloud; also up/chunk and up/ack of large payloads
    fl/<run>/edge/<id>/down/<kind>    the cloud to one edge; also down/chunk and down/ack
    fl/<run>/edge/<id>/status         presence of an edge, retained, also its last will
    fl/<run>/public/state             Running or Stop, retained: the cloud to all edges
    fl/<run>/cloud/status             presence of the cloud, retained, also its last will

Who sent something follows from the topic, which the broker's access rules guard: an edge (user `%u`) writes below
its own `up` and `status`, reads its own `down` and `status` and what is public; all else is the cloud's. All is QoS 1.
The retained state outlives its run. Only another run of the same id could read it, so an id is used for one run: an
edge that joins late then learns from a retained Stop that there is nothing left to join.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from common.errors import LocalProtocolError
from common.messages import Running, Stop
from common.node import CLOUD, Group, NodeId

Part = Literal["message", "chunk", "ack", "status"]
_EDGE = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
_PARTS: dict[str, Part] = {"chunk": "chunk", "ack": "ack"}


@dataclass(frozen=True)
class Route:
    """Where a message goes. `peer`: the one node that reads it, None where many do."""

    topic: str
    retained: bool
    peer: NodeId | None


@dataclass(frozen=True)
class Origin:
    """What a topic tells of a payload: its sender, and whether it is a message or serves one."""

    sender: NodeId
    part: Part


class Topics:
    """The topics of one node in one run."""

    def __init__(self, run: str, node: NodeId) -> None:
        if not _NAME.fullmatch(run):
            raise ValueError(f"run id: {run!r}: expected {_NAME.pattern}")
        if not _EDGE.fullmatch(node):
            raise ValueError(f"node id: {node!r}: expected {_EDGE.pattern}")
        self._root, self._node = f"fl/{run}", node
        self._is_cloud = node == CLOUD
        self.node = node
        """Whose topics these are."""
        self.state = f"{self._root}/public/state"
        self.status = self._status_of(node)
        self._origins: dict[str, Origin] = {}

    @property
    def subscriptions(self) -> tuple[str, ...]:
        """The filters of everything this node reads, its own presence included."""
        if self._is_cloud:
            return (f"{self._root}/edge/+/up/+", f"{self._root}/edge/+/status", self.status)
        return (f"{self._root}/edge/{self._node}/down/+", self.status, self.state)

    def route(self, to: NodeId | Group, message: object) -> Route:
        """Where a message of this node to `to` goes.

        Raises:
            LocalProtocolError: this node may not say that to them.
        """
        kind = getattr(message, "kind", "")
        if isinstance(to, Group):
            if not self._is_cloud or not isinstance(message, Running | Stop):
                raise LocalProtocolError(f"{self._node} to all edges: {kind}: expected running or stop, by the cloud")
            return Route(self.state, retained=True, peer=None)
        return Route(self.lane(to, kind), retained=False, peer=to)

    def lane(self, to: NodeId, name: str) -> str:
        """The topic `name` (a kind of message, chunk or ack) from this node to `to`."""
        if self._is_cloud == (to == CLOUD):
            raise LocalProtocolError(f"{self._node} to {to}: expected an edge and the cloud to talk to each other")
        if self._is_cloud:
            return f"{self._root}/edge/{to}/down/{name}"
        return f"{self._root}/edge/{self._node}/up/{name}"

    def origin(self, topic: str) -> Origin | None:
        """Who wrote this topic and what is on it; None if no node of ours writes there."""
        known = self._origins.get(topic)
        if known is None:
            known = self._read(topic)
            if known is not None and len(self._origins) < 10_000:
                self._origins[topic] = known
        return known

    def _read(self, topic: str) -> Origin | None:
        match topic.removeprefix(f"{self._root}/").split("/") if topic.startswith(f"{self._root}/") else []:
            case ["public", "state"]:
                return Origin(CLOUD, "message")
            case ["cloud", "status"]:
                return Origin(CLOUD, "status")
            case ["edge", edge, *rest] if _EDGE.fullmatch(edge) and edge != CLOUD:
                return _of_edge(edge, rest)
        return None

    def _status_of(self, node: NodeId) -> str:
        return f"{self._root}/cloud/status" if node == CLOUD else f"{self._root}/edge/{node}/status"


def is_edge(sender: str) -> bool:
    """Whether this can be an edge's id."""
    return sender != CLOUD and _EDGE.fullmatch(sender) is not None


def _of_edge(edge: NodeId, rest: list[str]) -> Origin | None:
    match rest:
        case ["status"]:
            return Origin(edge, "status")
        case ["up", name]:
            return Origin(edge, _PARTS.get(name, "message"))
        case ["down", name]:
            return Origin(CLOUD, _PARTS.get(name, "message"))
    return None
