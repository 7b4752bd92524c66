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

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

from common.fleet import Link, Profile
from common.machine import Machine
from common.mailbox import Mailbox
from common.messages import Message, Model, Probe, Refusal, Update
from common.node import CLOUD, CONNECTED, EDGES, Effect, Halt, Measure, Node, NodeId, Record, Seconds, Send, Wake
from common.tensors import Tensors
from common.wire import fault_of_values
from lab.agenda import Agenda, Timer
from lab.post import Post
from lab.resident import Resident

AHEAD = 128
"""Edges at work that are asked together."""

_HEAVY = (Update, Model, Probe)  # what carries tensors

Keep = Callable[[NodeId, str, Mapping[str, object], Seconds], None]
"""Takes one row of one node's records: node, kind, row, time."""


class Simulator:
    """Nodes, an agenda and what lies between them."""

    def __init__(self, seed: int, keep: Keep, evaluate: Callable[[Tensors], Mapping[str, float]] | None = None) -> None:
        """`keep` gets every row of the records; `evaluate` scores parameters where a node asks for it."""
        self._seed, self._keep, self._evaluate = seed, keep, evaluate
        self._agenda: Agenda[Resident] = Agenda()
        self.post = Post(self._agenda, self._arrive)
        """What lies between the nodes."""
        self._carry = self.post.carry
        self._letters = count()
        self._residents: dict[NodeId, Resident] = {}
        self._edges: list[Resident] = []
        self._working: list[tuple[Seconds, int, Resident, NodeId, Message]] = []
        self._running = 0
        self._awaited: set[NodeId] = set()

    @property
    def now(self) -> Seconds:
        """The time on the clock."""
        return self._agenda.now

    def add(
        self, node_id: NodeId, node: Node, profile: Profile | None = None, work: Mapping[str, float] | None = None
    ) -> None:
        """Starts a node, in the place of the one before it of that name, if it had one.

        Args:
            node_id: who it is.
            node: what decides.
            profile: its machine; none: everything takes no time.
            work: records that it goes through for a message of each kind.
        """
        machine = Machine(profile or Profile(), work or {}, self._seed, node_id)
        process = Resident(node_id, node, machine, Mailbox("simulated"))
        is_reborn = node_id in self._residents
        self._residents[node_id] = process
        self._running += node_id not in self._awaited
        self._awaited.discard(node_id)
        if node_id != CLOUD:
            if is_reborn:
                self._edges = [edge for edge in self._edges if edge.id != node_id]
            self._edges.append(process)
            self._stay(process)
        self._perform(process, node.start(self.now))
        if node_id != CLOUD:
            self.post.greet(process)

    def halted(self, node_id: NodeId) -> Halt | None:
        """How the node ended; None while it runs."""
        return self._residents[node_id].halt

    def wake(self, node_id: NodeId, name: str) -> None:
        """A wake-up from outside, at once."""
        self._wake(self._residents[node_id], name, None)

    def run(self, most: int | None = None, until: Seconds = math.inf) -> bool:
        """Goes on until every node has halted; False if `most` events, or all up to a time, have happened before."""
        take, left = self._agenda.take, math.inf if most is None else most
        is_timed = until < math.inf
        while self._running:
            if left <= 0 or (is_timed and self._agenda.waits(until)):
                return False
            left -= 1
            entry = take()
            if entry is None:
                return True
            _, _, action, process, subject = entry
            if process.is_live:
                action(process, subject)
            elif process.halt is None:
                process.held.append((action, subject))
        self._agenda.clear()  # its actions lead back here: whoever forgets this simulator shall get its memory back
        self.post.close()
        return True

    # What is done to nodes from outside

    def drop(self, node_id: NodeId, *, for_good: bool) -> None:
        """Ends a node's process without a word; unless for good, the run waits until it is added again."""
        process = self._residents[node_id]
        process.end(Halt("killed", 137))
        if for_good:
            self._running -= 1
        else:
            self._awaited.add(node_id)
        if node_id != CLOUD:
            self.post.tell_will(self._residents[CLOUD], process)

    def hold(self, node_id: NodeId) -> None:
        """Freezes a process."""
        self._residents[node_id].is_live = False

    def release(self, node_id: NodeId) -> None:
        """Lets it go on: what would have happened to it does so now."""
        process = self._residents[node_id]
        process.is_live = process.halt is None
        held, process.held = process.held, []
        for action, subject in held:
            self._agenda.at(self.now, action, process, subject)

    def cut(self, node_id: NodeId) -> None:
        """Takes a node's link away: nothing reaches it, and what it says waits."""
        process = self._residents[node_id]
        process.cuts, process.is_up = process.cuts + 1, False

    def mend(self, node_id: NodeId, *, has_will: bool) -> None:
        """Gives it back, if nothing else keeps it away; `has_will`: the broker then drops the old connection."""
        process = self._residents[node_id]
        if not process.cuts or process.halt is not None:
            return
        process.cuts -= 1
        if not process.cuts:
            if has_will and node_id != CLOUD:
                self.post.tell_will(self._residents[CLOUD], process)
            self._agenda.at(self.now, self._connect, process, None)

    def slow(self, node_id: NodeId, link: Link | None) -> None:
        """Gives an edge another line; None: its own."""
        self._residents[node_id].machine.move(link)

    # What can happen

    def _arrive(self, process: Resident, subject: Any) -> None:
        """A message reaches a node: it reads it now, or when it has time. Nothing reaches one that is away."""
        sender, message = subject
        if not process.is_up or (isinstance(message, _HEAVY) and self._is_refused(process, sender, message)):
            return
        if not process.is_busy:
            self._read(process, sender, message)
        elif fault := process.receive(sender, next(self._letters), self.now, message):
            self._keep(process.id, "dropped", {"sender": sender, "reason": fault, "count": 1}, self.now)

    def _is_refused(self, process: Resident, sender: NodeId, message: Update | Model | Probe) -> bool:
        """Whether numbers of a message are not finite: that is recorded, and the edge that sent it is told."""
        fault = fault_of_values(message.tensors.flat)
        if fault is None:
            return False
        self._keep(process.id, "dropped", {"sender": sender, "reason": fault, "count": 1}, self.now)
        if process.id == CLOUD:
            self._send(process, sender, Refusal(reason=fault))
        return True

    def _read(self, process: Resident, sender: NodeId, message: Message) -> None:
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
            if process.halt is None:
                process.said = process.node.on_message(sender, message, finish)

    def _finish(self, process: Resident, _subject: Any) -> None:
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

    def _ring(self, process: Resident, subject: Any) -> None:
        """A wake-up is due, unless it was put off."""
        timer, place = subject
        if self._agenda.rings(timer, place, self._ring, process):
            self._wake(process, timer.name, timer.token)

    def _wake(self, process: Resident, name: str, token: int | None) -> None:
        """Wakes a node, or has it woken when it has time; `token`: of the wake-up that it asked for itself."""
        if process.is_busy:
            process.due[name] = token
            return
        if token is not None:
            del process.wakes[name]
        self._perform(process, process.node.on_wake(name, self.now))

    def _stay(self, process: Resident) -> None:
        """An edge that is there will leave, if its profile says so."""
        if (seconds := process.machine.stay()) < math.inf:
            self._agenda.at(self.now + seconds, self._leave, process, None)

    def _leave(self, process: Resident, _subject: Any) -> None:
        """An edge drops out, unless it is about to say goodbye; the broker tells the cloud by its last will."""
        if process.machine.is_over or process.cuts:
            return
        process.is_up = False
        gone = self.post.tell_will(self._residents[CLOUD], process)
        self._agenda.at(max(gone, self.now + process.machine.absence()), self._return, process, None)

    def _return(self, process: Resident, _subject: Any) -> None:
        """An edge is back, and may leave again."""
        if not process.cuts:
            self._connect(process, None)
        self._stay(process)

    def _connect(self, process: Resident, _subject: Any) -> None:
        """A link is up: an edge finds what was last said to all; what waited leaves, and the node is told."""
        process.is_up = True
        if process.id != CLOUD:
            self.post.greet(process)
        unsent, process.unsent = process.unsent, []
        for to, message in unsent:
            self._send(process, to, message)
        self._wake(process, CONNECTED, None)

    # Effects

    def _perform(self, process: Resident, effects: Sequence[Effect]) -> None:
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
                    process.end(effect)
                    self._running -= 1

    def _send(self, process: Resident, to: object, message: Message) -> None:
        if not process.is_up:
            if process.cuts:
                process.unsent.append((to, self.post.keeping(message)))
        elif process.id != CLOUD:
            self._carry(process.machine.up, self._residents[CLOUD], process.id, message)
        elif to is EDGES:
            self.post.to_all(self._edges, message)
        elif (receiver := self._residents.get(str(to))) is not None:
            self._carry(receiver.machine.down, receiver, CLOUD, self.post.keeping(message))
