"""From a target for the total of one edge to its plan: the noise of training, and of probes if any are asked.

Probes get a share of the budget, in the square of the shift (`calibration.shift_within`), and with it their noise:

    z_q = k sqrt(P / share) / shift          k = 2 where a record is replaced, else 1

Then training gets the least noise with which all its updates and all probes together stay within the target, as the
accountant counts them. What a probe saves by looking at a sample of the records goes to training in this way.

Symbols: z_q -> noise_multiplier of a probe, P -> probes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from common.events import LARGEST, SMALLEST
from common.experiment import Experiment
from common.privacy.calibration import Ask, calibrate, fresh, shift_within, with_strength
from common.privacy.declaration import path_of
from common.privacy.plan import PrivacyPlan, plan_for
from common.privacy.probes import ProbePlan, check_probes


@dataclass(frozen=True)
class Work:
    """What the target has to last for.

    Attributes:
        updates: training releases.
        probes: answers to probes, beside them.
        share: of the budget, for probes; in (0, 1).
        sample: records a probe looks at, if there are more.
    """

    updates: int
    probes: int = 0
    share: float = 0.1
    sample: int | None = None


def plan_to_target(
    experiment: Experiment, edge: str, records: int, dimension: int, work: Work, *, ask: Ask = fresh
) -> tuple[PrivacyPlan, ProbePlan | None]:
    """The plans of training and of probes (None for none) of an edge whose experiment states a target.

    Args:
        experiment: with a target for this edge.
        edge: its id.
        records: how many it holds.
        dimension: parameters of the model.
        work: what the target has to last for.
        ask: remembers what was calibrated.

    Raises:
        ConfigError: one fault for each thing that is wrong with the declaration, or a target that no noise meets.
    """
    target, path = experiment.privacy_of(edge).target_epsilon, path_of(experiment, edge, "target_epsilon")
    plan = plan_for(experiment, edge, records, dimension, strength=1.0)
    assert target is not None  # `plan_for` has refused a strength without one
    probing = _probing(plan, target, work) if work.probes else None
    beside = {probing.event: work.probes} if probing is not None else {}
    event = calibrate(plan.event, work.updates, target, plan.dp_delta, beside=beside, name=path, ask=ask)
    floor, multiplier = plan.noise_multiplier_floor, event.noise_multiplier
    if floor is not None and multiplier is not None and multiplier < floor:
        event = with_strength(event, floor)  # costs less than the target
    return replace(plan, event=event), probing


def _probing(plan: PrivacyPlan, target: float, work: Work) -> ProbePlan:
    check_probes(work.updates, work.probes, work.share, plan.dp_delta)
    factor = 2 if plan.event.adjacency == "replace_one" else 1
    multiplier = factor * math.sqrt(work.probes / work.share) / shift_within(target, plan.dp_delta)
    return plan.probe_plan(min(max(multiplier, SMALLEST), LARGEST), work.sample)
