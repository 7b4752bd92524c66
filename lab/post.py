"""What lies between the nodes under the virtual clock: lines, and a broker that keeps what was last said to all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from common.line import Line
from common.messages import Bye, Message, Model, Probe
from common.node import CLOUD, NodeId, Seconds
from common.tensors import Tensors
from lab.agenda import Action, Agenda
from lab.resident import Resident

HEADER = 400
"""Bytes of a message besides its parameters, about."""


class Post:
    """Carries messages, and has `arrive(receiver, (sender, message))` happen when they arrive."""

    def __init__(self, agenda: Agenda[Resident], arrive: Action[Resident]) -> None:
        self.messages = 0
        self._agenda, self._arrive = agenda, arrive
        self._state: Message | None = None
        self._snapshots: dict[str, tuple[int, object, Tensors]] = {}
        self._stalled: list[tuple[Line[Any], Resident, NodeId, Message]] | None = None

    def to_all(self, edges: Iterable[Resident], message: Message) -> None:
        """From the cloud, and kept for those that are not there."""
        self._state = message
        for edge in edges:
            self.carry(edge.machine.down, edge, CLOUD, message)

    def greet(self, edge: Resident) -> None:
        """An edge that connects finds what was last said to all."""
        if self._state is not None:
            self.carry(edge.machine.down, edge, CLOUD, self._state)

    def tell_will(self, cloud: Resident, edge: Resident) -> Seconds:
        """The broker tells the cloud of a link that broke, behind what is still on its way; when."""
        gone = max(self._agenda.now, edge.machine.up.newest)
        self._agenda.at(gone, self._arrive, cloud, (edge.id, Bye(reason="connection lost")))
        return gone

    def keeping(self, message: Message) -> Message:
        """The message with parameters that stay: a node may go on writing into those that it handed out."""
        if not isinstance(message, Model | Probe):
            return message
        source = message.tensors.flat.base
        known = self._snapshots.get(message.kind)
        if known is None or known[0] != message.version or known[1] is not source:
            known = self._snapshots[message.kind] = (message.version, source, message.tensors.copy())
        return type(message)(**{**vars(message), "tensors": known[2]})

    def forget(self) -> None:
        """The broker starts anew: it has lost what was said to all."""
        self._state = None

    def stall(self) -> None:
        """The broker is frozen: what is sent from now on waits."""
        self._stalled = []

    def resume(self) -> None:
        """The broker goes on."""
        stalled, self._stalled = self._stalled or [], None
        for letter in stalled:
            self.carry(*letter)

    def close(self) -> None:
        """Nothing is carried any more, and whom it was carried for is let go."""
        del self._arrive

    def carry(self, line: Line[Any], receiver: Resident, sender: NodeId, message: Message) -> None:
        """Puts a message on a line. It arrives behind all that was put there before it."""
        if self._stalled is not None:
            self._stalled.append((line, receiver, sender, message))
            return
        self.messages += 1
        at = self._agenda.now
        if not line.is_instant:
            tensors: Tensors | None = getattr(message, "tensors", None)
            at = line.arrival(HEADER + (0 if tensors is None else tensors.flat.nbytes), at)
        self._agenda.at(at, self._arrive, receiver, (sender, message))
