"""Who takes part: one seat for each edge that said Hello, and the one piece of work it has in hand."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from common.events import Event
from common.messages import Bye, Hello
from common.node import NodeId, Seconds


@dataclass(frozen=True, slots=True)
class Work:
    """What an edge was asked: the ticket that makes the answer count once, and the first version sent with it.

    `reach`: norm of an honest answer at most (module `reach`), None if there is no bound.
    """

    kind: Literal["model", "probe"]
    ticket: int
    version: int
    sent: Seconds
    reach: float | None = None

    def within(self, reach: float) -> Work:
        """The same work with a bound on its answer."""
        return Work(self.kind, self.ticket, self.version, self.sent, reach)  # `replace` takes twice as long


class Presence(Enum):
    """Where an edge is, as far as the cloud knows."""

    ONLINE = "online"
    LOST = "lost"  # its link broke; it may come back and finish its work
    GONE = "gone"  # it said Bye


class Welcome(Enum):
    """What a Hello turned out to be."""

    NEW = "new"  # an edge not seen before
    REBORN = "reborn"  # a known edge, but another process
    BACK = "back"  # the same process after its link was broken
    KNOWN = "known"  # the same process, here all the time: an impatient repeat


@dataclass(slots=True)
class Seat:
    """One edge. `ticket` is the last number handed out, `work` what it has not answered yet.

    `is_silent`: it was waited for in vain, and has not spoken since. `bye`: what it said when it left.
    """

    edge: NodeId
    boot: str
    samples: int
    event: Event
    ticket: int = 0
    work: Work | None = None
    presence: Presence = Presence.ONLINE
    is_silent: bool = False
    bye: Bye | None = None

    def hand(self, kind: Literal["model", "probe"], version: int, now: Seconds) -> Work:
        """A new ticket for a new piece of work."""
        self.ticket += 1
        self.work = Work(kind, self.ticket, version, now)
        return self.work


class Roster:
    """The seats, in order of arrival."""

    STATE = ("_seats", "present")

    def __init__(self) -> None:
        self._seats: dict[NodeId, Seat] = {}
        self.present = 0
        """How many edges are here now."""

    def find(self, edge: NodeId) -> Seat | None:
        """The seat of an edge that said Hello."""
        return self._seats.get(edge)

    def online(self) -> list[Seat]:
        """The seats of the edges that are here now."""
        return [seat for seat in self._seats.values() if seat.presence is Presence.ONLINE]

    def awaited(self) -> list[Seat]:
        """The seats of those whose answers are worth waiting for: here, and not silent for too long already."""
        return [seat for seat in self.online() if not seat.is_silent]

    def have_all_been_heard(self, heard: Container[NodeId]) -> bool:
        """Whether nobody is worth waiting for any more; looks no further than the first who is."""
        return all(
            seat.edge in heard
            for seat in self._seats.values()
            if seat.presence is Presence.ONLINE and not seat.is_silent
        )

    def silence(self, heard: Container[NodeId]) -> None:
        """The patience with everybody else is over: nobody waits for them until they speak again."""
        for seat in self.awaited():
            seat.is_silent = seat.edge not in heard

    def departures(self) -> list[tuple[NodeId, Bye]]:
        """What those said who are not here any more, in order of arrival."""
        return [(seat.edge, seat.bye) for seat in self._seats.values() if seat.bye is not None]

    def is_gone(self) -> bool:
        """Whether there were edges and every one of them said Bye."""
        return bool(self._seats) and all(seat.presence is Presence.GONE for seat in self._seats.values())

    def welcome(self, edge: NodeId, hello: Hello, *, keeps: bool = False) -> tuple[Seat, Welcome]:
        """Seats an edge that said Hello.

        A new process gets no claim on what its predecessor had in hand, for that answer may never come, unless it
        has the answer itself (`keeps`: to the ticket that it names). Its own count of tickets is respected, because
        it ignores lower ones (it may have served an earlier cloud).

        That the predecessor is gone was made sure before: of two processes with one id the shell lets one speak.

        Returns:
            The seat, and what the Hello was.
        """
        seat = self._seats.get(edge)
        if seat is None:
            seat = self._seats[edge] = Seat(edge, hello.boot, hello.samples, hello.event, hello.ticket)
            self.present += 1
            return seat, Welcome.NEW
        kind = Welcome.KNOWN if seat.presence is Presence.ONLINE else Welcome.BACK
        if seat.boot != hello.boot:
            if not (keeps and seat.work is not None and seat.work.ticket == hello.ticket):
                seat.work = None
            seat.boot, seat.samples, seat.event = hello.boot, hello.samples, hello.event
            kind = Welcome.REBORN
        seat.ticket = max(seat.ticket, hello.ticket)
        self.hear(seat)
        return seat, kind

    def hear(self, seat: Seat) -> None:
        """An edge that speaks is here."""
        self._move(seat, Presence.ONLINE)
        seat.is_silent, seat.bye = False, None

    def leave(self, edge: NodeId, bye: Bye) -> Seat | None:
        """Notes a Bye; one without a ledger is the last will of a broken link, after which the edge may return.

        Returns:
            The seat; None if there is none, or if a process that has a successor said it.
        """
        seat = self._seats.get(edge)
        if seat is None or bye.boot not in (None, seat.boot):
            return None
        seat.bye = bye
        if bye.releases is None:
            if seat.presence is Presence.ONLINE:
                self._move(seat, Presence.LOST)
        else:
            self._move(seat, Presence.GONE)
            seat.work = None
        return seat

    def _move(self, seat: Seat, presence: Presence) -> None:
        self.present += (presence is Presence.ONLINE) - (seat.presence is Presence.ONLINE)
        seat.presence = presence
