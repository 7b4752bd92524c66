"""The closed vocabulary of the wire: everything an edge and the cloud can say to each other.

Messages are frozen and refuse unknown fields. Who sent one is taken from the authenticated topic, never from
a field. `ticket` makes each piece of work exactly-once: the cloud numbers what it hands to an edge (1, 2, ...)
and the edge's answer echoes the number, so a second copy of an answer is recognised whatever its route.
`lineage` says whose numbers these are: a cloud that was restarted and goes on from its checkpoint keeps it, a new one
has a new one.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, SkipValidation, StringConstraints, TypeAdapter

from common.events import Event
from common.tensors import Tensors

Text = Annotated[str, StringConstraints(max_length=500)]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_.-]{0,63}$")]
Count = Annotated[int, Field(ge=0, le=2**53)]
Body = Annotated[Tensors, SkipValidation, Field(exclude=True, repr=False)]


class _Header(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True)


class Directive(_Header):
    """What the cloud asks of an edge's next step. A request: the edge's own plan may refuse it."""

    stage: Count = 1
    learning_rate: FiniteFloat = Field(default=0.0, ge=0)
    clip_norm: FiniteFloat | None = Field(default=None, gt=0)


class Hello(_Header):
    """Edge -> cloud, on joining: I run this experiment (`digest`) as process `boot`, with `samples` records.

    `event` describes one training release with this edge's own noise; `ticket` is the last ticket this
    process was given (0: none). `holds`: a process before this one was given it, by this lineage, and left its answer
    here.
    """

    kind: Literal["hello"] = "hello"
    digest: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    boot: Name
    samples: Annotated[int, Field(ge=1, le=2**53)]
    event: Event
    ticket: Count = 0
    holds: Name | None = None


class Model(_Header):
    """Cloud -> one edge: compute one update at these parameters.

    `boot`: the process that is asked; another one of this edge, which came later, leaves it alone.
    """

    kind: Literal["model"] = "model"
    ticket: Count
    lineage: Name | None = None
    boot: Name | None = None
    version: Count
    directive: Directive
    tensors: Body


class Update(_Header):
    """Edge -> cloud: a released gradient. `version` is echoed from the model it was computed on.

    `work`: examples processed, the expected number under random sampling (the drawn number is private).
    """

    kind: Literal["update"] = "update"
    ticket: Count
    lineage: Name | None = None
    version: Count
    work: Annotated[FiniteFloat, Field(ge=0)]
    status: Literal["released"] = "released"
    event: Event
    tensors: Body


class Probe(_Header):
    """Cloud -> one edge: a private look at the loss at these parameters (`algorithms.md` 1.4).

    Asks for mean(min(loss, cap))/cap and w * share of per-sample gradient norms <= bound, w = 1/2.
    """

    kind: Literal["probe"] = "probe"
    ticket: Count
    lineage: Name | None = None
    boot: Name | None = None
    version: Count
    cap: FiniteFloat = Field(gt=0)
    bound: FiniteFloat = Field(gt=0)
    tensors: Body


class Answer(_Header):
    """Edge -> cloud: the noisy answer to a probe, booked in the edge's ledger like any other release."""

    kind: Literal["answer"] = "answer"
    ticket: Count
    lineage: Name | None = None
    version: Count
    event: Event
    values: Annotated[tuple[FiniteFloat, FiniteFloat], Field(strict=False)]


class Report(_Header):
    """Edge -> cloud: public or released numbers only, such as the ledger's total so far."""

    kind: Literal["report"] = "report"
    iteration: Count
    metrics: Annotated[dict[Name, FiniteFloat], Field(max_length=32)]


class Bye(_Header):
    """Edge -> cloud: I, process `boot`, leave. The shell also makes one of the last will.

    `releases` and `epsilon` are those of this edge in this run, `ledger_releases` and `ledger_epsilon` those since its
    ledger was begun, all from the ledger. An epsilon is None where no privacy is claimed or established; `note` then
    says why. `simulated`: the noise came from a seed. `failed`: it leaves because something is wrong, not because the
    run or its budget is over.
    """

    kind: Literal["bye"] = "bye"
    reason: Text
    boot: Name | None = None
    failed: bool = False
    releases: Count | None = None
    epsilon: Annotated[FiniteFloat, Field(ge=0)] | None = None
    ledger_releases: Count | None = None
    ledger_epsilon: Annotated[FiniteFloat, Field(ge=0)] | None = None
    dp_delta: Annotated[FiniteFloat, Field(ge=0, lt=1)] | None = None
    simulated: bool = False
    note: Text = ""


class Stop(_Header):
    """Cloud -> edges: the run is over, or (to one edge) you are turned away. `boot` names one process."""

    kind: Literal["stop"] = "stop"
    reason: Text
    failed: bool = False
    boot: Name | None = None


class Running(_Header):
    """Cloud -> edges, retained: the run is open and this cloud process answers for it, with the state of `lineage`."""

    kind: Literal["running"] = "running"
    boot: Name
    lineage: Name | None = None
    digest: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class Refusal(_Header):
    """Cloud -> one edge: a payload was refused and did not count. `ticket`: of the answer refused, where it had one."""

    kind: Literal["refusal"] = "refusal"
    reason: Text
    ticket: Count | None = None


Message = Hello | Model | Update | Probe | Answer | Report | Bye | Stop | Running | Refusal
MESSAGE: TypeAdapter[Message] = TypeAdapter(Annotated[Message, Field(discriminator="kind")])
