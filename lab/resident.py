"""A node under the virtual clock: its machine, what it is doing, and what waits for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from common.errors import WireError
from common.machine import Machine
from common.mailbox import Mailbox
from common.messages import Message
from common.node import Effect, Halt, Node, NodeId, Seconds
from common.wire import Envelope
from lab.agenda import Action, Timer


@dataclass(slots=True, eq=False)
class Resident:
    """`is_live`: things can happen to it: it has neither halted nor is it held. `is_up`: its link stands.

    `due`: wake-ups that it has no time for yet; `said`: what it will do when it has finished its work, if it was asked.
    `held`: what would have happened to it, had it not been frozen. `cuts`: how many things have taken its link away;
    `unsent`: what it said meanwhile.
    """

    id: NodeId
    node: Node
    machine: Machine
    mailbox: Mailbox
    is_busy: bool = False
    is_up: bool = True
    is_live: bool = True
    halt: Halt | None = None
    said: Sequence[Effect] | None = None
    wakes: dict[str, Timer] = field(default_factory=dict)
    due: dict[str, int | None] = field(default_factory=dict)
    held: list[tuple[Action[Resident], Any]] = field(default_factory=list)
    cuts: int = 0
    unsent: list[tuple[object, Message]] = field(default_factory=list)

    def receive(self, sender: NodeId, number: int, now: Seconds, message: Message) -> str:
        """A message waits until there is time for it; what is wrong if it may not."""
        try:
            self.mailbox.put(sender, Envelope("simulated", "simulated", number, now, message))
        except WireError as error:
            return str(error)
        return ""

    def end(self, halt: Halt) -> None:
        """Nothing happens to it any more."""
        self.halt, self.is_live = halt, False
        self.held.clear()
