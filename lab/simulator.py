"""A shell with a clock of its own: runs the nodes of a testbed in one process, as fast as they can decide.

Time passes only where a `Profile` says so: while an edge works, and while a message travels. Whatever else happens at
the same moment happens in the order in which it was caused, so that a run is a function of its experiment and seed.

It is the product's shell in all that a node can see: one event at a time, the newest model only (`Mailbox`), effects
released when the work is done, nothing to or from an edge that is away, and what was said to all waits for those that
come back. A message is not encoded: float32 parameters arrive as they left, unless a number among them is not finite;
then they are refused where they arrive, as those on a broker.

An edge at work hears of nothing until it has finished, so what it will say then is settled. It is asked shortly before
that is due, together with the edges that finish next: the same code many times over runs faster than in turns with all
other. Until then only the model is kept, one copy of each version however many edges work on it.
"""

from __future__ import annotations

import gc
import heapq
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from common.fleet import Profile
from common.line import Line
from common.machine import Machine
from common.mailbox import Mailbox
from common.messages import Bye, Message, Model, Probe, Refusal, Update
from common.node import CLOUD, CONNECTED, EDGES, Effect, Halt, Measure, Node, NodeId, Record, Seconds, Send, Wake
from common.tensors import Tensors
from common.wire import Envelope, fault_of_values
from lab.agenda import Agenda, Timer

AHEAD = 128
"""Edges at work that are asked together."""
HEADER = 400
"""Bytes of a message besides its parameters, about."""

_HEAVY = (Update, Model, Probe)  # what carries tensors
_ALIVE = 100_000  # things made and not yet gone, at which it is time to look for garbage

Keep = Callable[[NodeId, str, Mapping[str, object], Seconds], None]
"""Takes one row of one node's records: node, kind, row, time."""


@contextmanager
def settled() -> Iterator[None]:
    """Has the interpreter look for garbage less often, and not among the many things that a run was made of."""
    first, *others = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_ALIVE, *others)
    try:
        yield
    finally:
        gc.set_threshold(first, *others)
        gc.unfreeze()


@dataclass(slots=True, eq=False)
class _Process:
    """A node, its machine, and what it is doing.

    `due`: wake-ups that it has no time for yet; `said`: what it will do when it has finished its work, if it was asked.
    """

    id: NodeId
    node: Node
    machine: Machine
    mailbox: Mailbox
    is_busy: bool = False
    is_up: bool = True
    halt: Halt | None = None
    said: Sequence[Effect] | None = None
    wakes: dict[str, Timer] = field(default_factory=dict)
    due: dict[str, int | None] = field(default_factory=dict)


class Simulator:
    """Nodes, an agenda and what lies between them."""

    def __init__(self, seed: int, keep: Keep, evaluate: Callable[[Tensors], Mapping[str, float]] | None = None) -> None:
        """`keep` gets every row of the records; `evaluate` scores parameters where a node asks for it."""
        self.messages = 0
        self._seed, self._keep, self._evaluate = seed, keep, evaluate
        self._agenda: Agenda[_Process] = Agenda()
        self._letters = count()
        self._processes: dict[NodeId, _Process] = {}
        self._edges: list[_Process] = []
        self._state: Message | None = None
        self._snapshots: dict[str, tuple[int, object, Tensors]] = {}
        self._working: list[tuple[Seconds, int, _Process, NodeId, Message]] = []
        self._running = 0

    @property
    def now(self) -> Seconds:
        """The time on the clock."""
        return self._agenda.now

    def add(
        self, node_id: NodeId, node: Node, profile: Profile | None = None, work: Mapping[str, float] | None = None
    ) -> None:
        """Starts a node.

        Args:
            node_id: who it is.
            node: what decides.
            profile: its machine; none: everything takes no time.
            work: records that it goes through for a message of each kind.
        """
        machine = Machine(profile or Profile(), work or {}, self._seed, node_id)
        process = _Process(node_id, node, machine, Mailbox("simulated"))
        self._processes[node_id] = process
        self._running += 1
        if node_id != CLOUD:
            self._edges.append(process)
            self._stay(process)
        self._perform(process, node.start(self.now))
        if node_id != CLOUD and self._state is not None:
            self._carry(process.machine.down, process, CLOUD, self._state)

    def halted(self, node_id: NodeId) -> Halt | None:
        """How the node ended; None while it runs."""
        return self._processes[node_id].halt

    def wake(self, node_id: NodeId, name: str) -> None:
        """A wake-up from outside, at once."""
        self._wake(self._processes[node_id], name, None)

    def run(self, most: int | None = None) -> bool:
        """Goes on until every node has halted; False if `most` events have happened before that."""
        take, left = self._agenda.take, math.inf if most is None else most
        while self._running:
            if left <= 0:
                return False
            left -= 1
            entry = take()
            if entry is None:
                return True
            _, _, action, process, subject = entry
            if process.halt is None:
                action(process, subject)
        self._agenda.clear()  # its actions lead back here: whoever forgets this simulator shall get its memory back
        return True

    # What can happen

    def _arrive(self, process: _Process, subject: Any) -> None:
        """A message reaches a node: it reads it now, or when it has time. Nothing reaches one that is away."""
        sender, message = subject
        if not process.is_up or (isinstance(message, _HEAVY) and self._is_refused(process, sender, message)):
            return
        if process.is_busy:
            process.mailbox.put(sender, Envelope("simulated", "simulated", next(self._letters), self.now, message))
        else:
            self._read(process, sender, message)

    def _is_refused(self, process: _Process, sender: NodeId, message: Update | Model | Probe) -> bool:
        """Whether numbers of a message are not finite: that is recorded, and the edge that sent it is told."""
        fault = fault_of_values(message.tensors.flat)
        if fault is None:
            return False
        self._keep(process.id, "dropped", {"sender": sender, "reason": fault, "count": 1}, self.now)
        if process.id == CLOUD:
            self._send(process, sender, Refusal(reason=fault))
        return True

    def _read(self, process: _Process, sender: NodeId, message: Message) -> None:
        now = self._agenda.now
        finish = None if process.id == CLOUD else process.machine.finish(message, now)
        if finish is not None and finish > now:
            process.is_busy = True
            self._agenda.at(finish, self._finish, process, None)
            heapq.heappush(self._working, (finish, next(self._letters), process, sender, message))
        else:
            self._perform(process, process.node.on_message(sender, message, now))

    def _ask(self) -> None:
        """Has the edges that finish next decide."""
        for _ in range(min(AHEAD, len(self._working))):
            finish, _, process, sender, message = heapq.heappop(self._working)
            process.said = process.node.on_message(sender, message, finish)

    def _finish(self, process: _Process, _subject: Any) -> None:
        """The work on a message is done: its effects happen, then whatever has come up meanwhile."""
        if process.said is None:
            self._ask()
        effects, process.said = process.said, None
        assert effects is not None  # it is among those that finish next
        process.is_busy = False
        self._perform(process, effects)
        if process.due:
            due, process.due = process.due, {}
            for name, token in due.items():
                timer = process.wakes.get(name)
                if process.halt is None and (token is None or (timer is not None and timer.token == token)):
                    self._wake(process, name, token)
        while process.halt is None and not process.is_busy and (item := process.mailbox.take()) is not None:
            self._read(process, *item)

    def _ring(self, process: _Process, subject: Any) -> None:
        """A wake-up is due, unless it was put off."""
        timer, place = subject
        if self._agenda.rings(timer, place, self._ring, process):
            self._wake(process, timer.name, timer.token)

    def _wake(self, process: _Process, name: str, token: int | None) -> None:
        """Wakes a node, or has it woken when it has time; `token`: of the wake-up that it asked for itself."""
        if process.is_busy:
            process.due[name] = token
            return
        if token is not None:
            del process.wakes[name]
        self._perform(process, process.node.on_wake(name, self.now))

    def _stay(self, process: _Process) -> None:
        """An edge that is there will leave, if its profile says so."""
        if (seconds := process.machine.stay()) < math.inf:
            self._agenda.at(self.now + seconds, self._leave, process, None)

    def _leave(self, process: _Process, _subject: Any) -> None:
        """An edge drops out, unless it is about to say goodbye; the broker tells the cloud by its last will."""
        if process.machine.is_over:
            return
        process.is_up = False
        cloud = self._processes[CLOUD]
        gone = max(self.now, process.machine.up.newest)  # behind what is still on its way
        self._agenda.at(gone, self._arrive, cloud, (process.id, Bye(reason="connection lost")))
        self._agenda.at(max(gone, self.now + process.machine.absence()), self._return, process, None)

    def _return(self, process: _Process, _subject: Any) -> None:
        """An edge is back: it finds what was last said to all, and is told that its link is up."""
        process.is_up = True
        if self._state is not None:
            self._carry(process.machine.down, process, CLOUD, self._state)
        self._wake(process, CONNECTED, None)
        self._stay(process)

    # Effects

    def _perform(self, process: _Process, effects: Sequence[Effect]) -> None:
        now = self._agenda.now
        for effect in effects:
            match effect:
                case Record():
                    self._keep(process.id, effect.kind, effect.row, now)
                case Send():
                    self._send(process, effect.to, effect.message)
                case Wake():
                    timer = process.wakes.get(effect.name)
                    if timer is None:
                        timer = process.wakes[effect.name] = Timer(effect.name)
                    self._agenda.set(timer, now + effect.after, self._ring, process)
                case Measure():
                    if self._evaluate is not None:
                        row = {"version": effect.version, **self._evaluate(effect.tensors)}
                        self._keep(process.id, "evaluation", row, now)
                case Halt():
                    process.halt = effect
                    self._running -= 1

    def _send(self, process: _Process, to: object, message: Message) -> None:
        if process.id != CLOUD:
            if process.is_up:
                self._carry(process.machine.up, self._processes[CLOUD], process.id, message)
        elif to is EDGES:
            self._state = message
            for edge in self._edges:
                self._carry(edge.machine.down, edge, CLOUD, message)
        elif (receiver := self._processes.get(str(to))) is not None:
            self._carry(receiver.machine.down, receiver, CLOUD, self._keeping(message))

    def _keeping(self, message: Message) -> Message:
        """The message with parameters that stay: a node may go on writing into those that it handed out."""
        if not isinstance(message, Model | Probe):
            return message
        source = message.tensors.flat.base
        known = self._snapshots.get(message.kind)
        if known is None or known[0] != message.version or known[1] is not source:
            known = self._snapshots[message.kind] = (message.version, source, message.tensors.copy())
        return type(message)(**{**vars(message), "tensors": known[2]})

    def _carry(self, line: Line[Any], receiver: _Process, sender: NodeId, message: Message) -> None:
        """Puts a message on a line. It arrives behind all that was put there before it."""
        self.messages += 1
        at = self._agenda.now
        if not line.is_instant:
            tensors: Tensors | None = getattr(message, "tensors", None)
            at = line.arrival(HEADER + (0 if tensors is None else tensors.flat.nbytes), at)
        self._agenda.at(at, self._arrive, receiver, (sender, message))
