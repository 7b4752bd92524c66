"""One private look at the loss: collects the edges' noisy answers and averages them.

Source: `docs/algorithms/mapa.md`, the probe: an edge releases (mean of min(loss, cap) / cap, w * share of
    per-sample gradient norms <= bound), each plus Gaussian noise of std z_q * sqrt(1 + w^2) / n_k.

Symbols: w -> WEIGHT, n_k -> samples, z_q -> noise_multiplier of the answer's event.
"""

from __future__ import annotations

import math

from cloud.controller import Ask
from cloud.roster import Roster, Seat
from common.messages import Answer
from common.node import NodeId
from common.privacy.probes import WEIGHT, answer_std


class Probing:
    """The answers to one `Ask`, made when the parameters had this `version`."""

    STATE = ("ask", "version", "is_expired", "_tickets", "_answers")

    def __init__(self, ask: Ask, version: int) -> None:
        self.ask = ask
        self.version = version
        self.is_expired = False
        self._tickets: dict[NodeId, int] = {}
        self._answers: dict[NodeId, tuple[int, Answer]] = {}

    @property
    def count(self) -> int:
        """How many edges answered."""
        return len(self._answers)

    def wants(self, edge: NodeId) -> bool:
        """Whether to ask this edge: each is asked once, since each answer costs it privacy."""
        return edge not in self._tickets

    def asked(self, seat: Seat) -> None:
        """The seat's last ticket carries this probe."""
        self._tickets[seat.edge] = seat.ticket

    def forget(self, edge: NodeId) -> None:
        """A new process runs this edge: what its predecessor was asked, and did not answer, it may be asked again."""
        if edge not in self._answers:
            self._tickets.pop(edge, None)

    def covers(self, edge: NodeId, ticket: int) -> bool:
        """Whether this ticket carried this probe, not an earlier one."""
        return self._tickets.get(edge) == ticket

    def add(self, seat: Seat, answer: Answer) -> None:
        """Takes an answer to this probe."""
        self._answers[seat.edge] = (seat.samples, answer)

    def expire(self, roster: Roster) -> None:
        """The deadline passed: the answers that are here will do, or the first one that comes."""
        self.is_expired = True
        if self._answers:
            roster.silence(self._answers)

    def is_complete(self, roster: Roster) -> bool:
        """Whether nobody is worth waiting for: an answer is here, and all awaited ones are or the deadline passed."""
        if not self._answers:
            return False
        return self.is_expired or roster.have_all_been_heard(self._answers)

    def result(self) -> tuple[float, float, float]:
        """The mean over the edges, weighted by their public numbers of records, in order of their names.

        Returns:
            loss (units of the loss), share (0..1 but for the noise), std of the noise in `loss`.
        """
        records = sum(samples for samples, _ in self._answers.values())
        loss = share = variance = 0.0
        for edge in sorted(self._answers):
            samples, answer = self._answers[edge]
            weight = samples / records
            loss += weight * answer.values[0] * self.ask.cap
            share += weight * answer.values[1] / WEIGHT
            variance += (weight * self.ask.cap * answer_std(answer.event, samples)) ** 2
        return loss, share, math.sqrt(variance)
