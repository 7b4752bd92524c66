"""Answers to probes, from the edge's node to wire bytes, against an attacker who knows all records but one."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from broken_edges import event_of, toy
from numpy.typing import NDArray

from common import wire
from common.events import Event, Sampling
from common.messages import Answer, Hello, Probe
from common.node import CLOUD, Send
from common.privacy.accountant import total
from common.privacy.ledger import Ledger
from common.privacy.probes import ProbePlan
from common.seeds import stream
from common.tensors import Tensors
from edge.algorithms.asynchronous import AsynchronousEdge, Settings
from edge.learner import Learner, Probes, Randomness, Shard
from lab.attacks.bounds import epsilon_at_least
from lab.attacks.crafting import vacated

RECORDS, TRIALS, DP_DELTA = 8, 500, 1e-5
OWN = toy(event_of("gaussian", "all", "add_remove", 1.0), RECORDS, RECORDS, label=1)
PARAMETERS = Tensors(OWN.model.layout, np.array([5.0], dtype=np.float32))
"""At these a record of label 0 has loss 5.007 and a gradient of norm 0.993; one of label 1 next to none of either."""


@dataclass(frozen=True)
class Case:
    """What edges hold with the canary and without, and above which norm a gradient counts as large."""

    sampling: Sampling
    present: Shard
    absent: Shard
    bound: float


CANARY = replace(OWN.shard, labels=np.array([0] + [1] * (RECORDS - 1)))
CASES = [Case("all", CANARY, OWN.shard, 0.5), Case("poisson", CANARY, vacated(CANARY, [0]), 1.0)]
"""(1, 0) against (0, 1/2), and (1, 1/2) against nothing: both as far apart as one record can move an answer."""


class HardlyAnyNoise(ProbePlan):
    """Answers with a hundredth of the noise that its event says."""

    def answer(self, losses, norms, cap, bound, rng):  # type: ignore[no-untyped-def]
        assert self.event.noise_multiplier is not None
        quiet = self.event.model_copy(update={"noise_multiplier": self.event.noise_multiplier / 100})
        _, values = ProbePlan(quiet, self.records).answer(losses, norms, cap, bound, rng)
        return self.event, values


def answers(case: Case, shard: Shard, plan: ProbePlan, name: str) -> NDArray[np.float64]:
    """[trials] how far each answer lies along the way from the one edge's to the other's, as seen on the wire."""
    randomness = Randomness(stream(1, case.sampling, name, "sampling"), stream(1, case.sampling, name, "noise"))
    learner = Learner(OWN.model, shard, OWN.plan, Ledger(), randomness, probes=Probes(plan, TRIALS))
    hello = Hello(digest="0" * 64, boot="audit", samples=RECORDS, event=OWN.plan.event)
    node = AsynchronousEdge(hello, learner, Settings(), DP_DELTA)
    node.start(0.0)
    values = []
    for ticket in range(1, TRIALS + 1):
        probe = Probe(ticket=ticket, version=1, cap=5.0, bound=case.bound, tensors=PARAMETERS)
        (said,) = [effect.message for effect in node.on_message(CLOUD, probe, 1.0) if isinstance(effect, Send)]
        sent = wire.encode(wire.Envelope("audit", "audit", ticket, 0.0, said))
        seen = wire.decode(sent, wire.Limits.of(OWN.model.layout), OWN.model.layout).message
        assert isinstance(seen, Answer)
        values.append(seen.values)
    way = np.array([1.0, -0.5 if case.sampling == "all" else 0.5])
    return np.round(np.array(values) @ way, 6)


def measured(case: Case, kind: type[ProbePlan], noise_multiplier: float) -> tuple[float, float]:
    """The epsilon that is claimed for an answer, and the lower bound that the attacker reaches."""
    rate = 1.0 if case.sampling == "all" else 0.5
    noise = {"mechanism": "gaussian", "noise_multiplier": noise_multiplier, "dimension": 2}
    event = Event.model_validate(noise | {"sampling": case.sampling, "sampling_rate": rate})
    plan = kind(event, RECORDS)

    def bound(hits: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.float64]:
        return epsilon_at_least(hits, others, TRIALS, confidence=0.999, dp_delta=DP_DELTA)

    present, absent = (answers(case, getattr(case, side), plan, f"choose {side}") for side in ("present", "absent"))
    thresholds = np.quantile(np.concatenate([present, absent]), np.linspace(0.01, 0.99, 99))
    counts = [np.array([(values >= least).sum() for least in thresholds]) for values in (present, absent)]
    chosen = thresholds[int(bound(*counts).argmax())]
    present, absent = (answers(case, getattr(case, side), plan, f"count {side}") for side in ("present", "absent"))
    claimed = total({event: 1}, DP_DELTA).epsilon
    assert claimed is not None
    return claimed, float(bound((present >= chosen).sum(), (absent >= chosen).sum()))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.sampling)
def test_an_answer_tells_no_more_than_is_claimed(case: Case) -> None:
    claimed, found = measured(case, ProbePlan, 1.0)
    assert 0 < found <= claimed


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.sampling)
def test_an_answer_with_hardly_any_noise_is_found(case: Case) -> None:
    claimed, found = measured(case, HardlyAnyNoise, 4.0)
    assert found > claimed
