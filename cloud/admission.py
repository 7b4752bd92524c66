"""Who may take part, and which answers count: what the experiment prescribes against what an edge says.

Each edge chooses how strong its noise is, within the bounds of `Event`; all else about a release is the same for all
edges. An edge that says otherwise would falsify what the run promises, or stop the arithmetic that reads its event;
so it is turned away, and the run goes on with the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from cloud.reach import Reach, fault_of_answer, fault_of_noise, fault_of_update
from cloud.roster import Seat, Work
from common.events import Adjacency, Event, Mechanism, Sampling
from common.messages import Answer, Hello, Model, Probe, Update
from common.node import NodeId

LAST_TICKET = 2**52
"""Of an edge that joins: those that it is given after that have to be numbers of a message as well."""
Parameter = Literal["noise_multiplier", "epsilon"]
PARAMETERS: Mapping[Mechanism, Parameter] = MappingProxyType(
    {"gaussian": "noise_multiplier", "spherical-laplace": "epsilon"}
)
"""What says how strong a mechanism's noise is."""


@dataclass(frozen=True)
class Form:
    """What all events of one kind of release have in common; `parameter`: the number each edge chooses, if any."""

    mechanism: Mechanism
    parameter: Parameter | None
    samplings: tuple[Sampling, ...]
    adjacency: Adjacency
    dimension: int | None

    def fault(self, event: Event) -> str | None:
        """What is wrong with an event, in words; None if it has this form."""
        found = {"mechanism": event.mechanism, "adjacency": event.adjacency, "dimension": event.dimension}
        for name, value in found.items():
            if value != (expected := getattr(self, name)):
                return f"event: {name} {value}: expected {expected}"
        if event.sampling not in self.samplings:
            return f"event: sampling {event.sampling}: expected {' or '.join(self.samplings)}"
        for parameter in PARAMETERS.values():
            value, is_wanted = getattr(event, parameter), parameter == self.parameter
            if (value is not None) != is_wanted:
                return f"event: {parameter} {value}: expected {'a number' if is_wanted else 'none'}"
        return None


@dataclass(frozen=True)
class Admission:
    """The rules of a run: digest of the experiment, its edges, the forms of their releases, and how far they may go.

    `noisiest`: bounds on the number that tells how strong noise is: a noise multiplier at most, an epsilon at least.
    """

    digest: str
    edges: frozenset[NodeId]
    training: Form
    probing: Form
    reach: Reach
    noisiest: Mapping[str, float] = field(default_factory=dict)

    def fault_of(self, edge: NodeId, hello: Hello) -> str | None:
        """Why this edge cannot take part, in words; None if it can."""
        if hello.digest != self.digest:
            return f"experiment digest {hello.digest[:12]}: expected {self.digest[:12]}, the cloud's"
        if edge not in self.edges:
            return f"edge id {edge}: expected one of the experiment's {len(self.edges)} edges"
        if hello.ticket > LAST_TICKET:
            return f"ticket {hello.ticket}: expected at most {LAST_TICKET}"
        return self.training.fault(hello.event) or fault_of_noise(hello.event, self.noisiest)

    def fault_in(self, seat: Seat, work: Work, version: int, message: Update | Answer) -> str | None:
        """What is wrong with an answer, in words; None if it may count. `version`: of the parameters now."""
        expected = "update" if work.kind == "model" else "answer"
        if message.ticket != work.ticket or message.kind != expected:
            return f"{message.kind} with ticket {message.ticket}: expected {expected} with ticket {work.ticket}"
        if not work.version <= message.version <= version:
            return f"version {message.version}: expected {work.version} to {version}"
        if message.kind == "answer":
            return self.probing.fault(message.event) or fault_of_answer(message, seat.samples)
        if message.event is not seat.event and message.event != seat.event:
            return f"event {message.event}: expected {seat.event}, as in this edge's Hello"
        return fault_of_update(message.tensors.flat, work.reach)

    def bounded(self, seat: Seat, work: Work, message: Model | Probe) -> Work:
        """The work with a bound on its answer, once it is sent; of several models sent, the widest bound counts."""
        if not isinstance(message, Model):
            return work
        reach = self.reach.of(seat.event, seat.samples, message)
        return work if reach is None else work.within(max(reach, work.reach or 0.0))
