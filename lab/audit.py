"""The audit: how much privacy loss an attacker can prove, beside the most that is claimed for the same releases.

The attacker (`lab.attacks`) is as strong as the definition of differential privacy allows: it chooses the parameters,
knows every other record, and reads the bytes that leave the edge. What it proves is a lower bound on the true epsilon;
what the accountant claims is an upper bound. A lower bound above the claim shows that code or claim is wrong. One
below it is no proof that they are right.

Two attacks: thousands of trials of one release (or a few) with one canary, and a few whole runs with many.
Nothing is claimed for `rigour: paper`. The audit then holds the measured bound against what would be claimed for the
mechanism that the paper's proof is about.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cloud.build import first_clip_norm
from common.errors import ConfigError
from common.events import Event
from common.experiment import Experiment
from common.privacy.accountant import total
from edge.build import Holding, hold
from edge.plans import updates_of
from lab.attacks.canary import craft
from lab.attacks.crowd import Crowd, Game
from lab.attacks.evidence import Evidence
from lab.attacks.trials import Build, Duel, Progress, Terms
from lab.attacks.wiretap import shipped
from lab.findings import Audit, Claim, Finding, Request, Whole

Told = Callable[[int, int], None]
"""Told how many releases were seen, and of how many."""


@dataclass
class _Count:
    """Adds up the releases seen by both attacks."""

    whole: int
    told: Told
    seen: int = 0

    def more(self, releases: int) -> None:
        self.seen += releases
        self.told(self.seen, self.whole)


def audit(experiment: Experiment, request: Request, told: Told = lambda _seen, _whole: None) -> Audit:
    """Attacks one edge of an experiment, built as for a run.

    Raises:
        ConfigError: the request or the experiment is wrong, or has no such edge.
        DataError: the data set is missing.
        RemoteProtocolError: the edge refuses the clip bound of the request.
    """
    request.check()
    own, l2 = hold(experiment, request.edge), experiment.model.l2
    most = first_clip_norm(experiment) if request.clip_norm is None else request.clip_norm
    updates = _updates(experiment, request)
    count = _Count(4 * (request.trials // 2) * request.steps + 2 * (request.runs // 2) * (updates or 0), told)
    one = attack(own, request, most=most, l2=l2, progress=count.more)
    whole = None
    if updates is not None and request.runs:
        whole = attack_run(own, request, updates, most=most, l2=l2, progress=count.more)
    return Audit(experiment.name, experiment.digest(), request, one, whole)


def attack(
    own: Holding,
    request: Request,
    *,
    most: float | None = None,
    l2: float = 0.0,
    build: Build = shipped,
    progress: Progress = lambda _more: None,
) -> Finding:
    """Attacks an edge with one canary.

    Args:
        own: the edge's records, model and plans.
        request: how hard; its edge and clip bound are not read.
        most: the clip bound to ask for at most; None for as much as the canary reaches.
        l2: weight of the regulariser.
        build: what makes the edge's learner; another one than the shipped one is a control.
        progress: told of more releases, now and then.
    """
    plan = own.plan
    case = craft(own, most, l2)
    evidence = Evidence(case, as_printed(plan.event) or plan.event)
    duel = Duel(case, evidence, Terms(request.steps, request.confidence, plan.dp_delta), build)
    measured = duel.measure(request.trials, request.seed, progress)
    claim = claim_for(plan.event, request.steps, plan.dp_delta)
    return Finding(plan.event, plan.dp_delta, case.clip_norm, case.reach, claim, measured)


def attack_run(
    own: Holding,
    request: Request,
    updates: int,
    *,
    most: float | None = None,
    l2: float = 0.0,
    build: Build = shipped,
    progress: Progress = lambda _more: None,
) -> Whole:
    """Attacks runs of `updates` releases with many canaries; the other arguments as of `attack`."""
    plan = own.plan
    game = Game(Crowd.gather(own, most, l2), Terms(updates, request.confidence, plan.dp_delta), build)
    guessed = game.play(request.runs, request.seed, progress)
    return Whole(claim_for(plan.event, updates, plan.dp_delta), guessed)


def claim_for(event: Event, releases: int, dp_delta: float) -> Claim:
    """What is claimed for so many releases of one kind."""
    cost, printed = total({event: releases}, dp_delta), as_printed(event)
    papers = None if printed is None else total({printed: releases}, dp_delta).epsilon
    return Claim(releases, cost.epsilon, papers, cost.note)


def as_printed(event: Event) -> Event | None:
    """What the paper takes its literal reading for; None for any other event."""
    if event.mechanism != "paper":
        return None
    return event.model_copy(update={"mechanism": "gaussian" if event.epsilon is None else "spherical-laplace"})


def _updates(experiment: Experiment, request: Request) -> int | None:
    """Releases of one run of this edge; None if the experiment does not say."""
    if request.updates is not None:
        return request.updates
    try:
        return updates_of(experiment, request.edge)
    except ConfigError:  # it ends by the clock: how far it comes nobody knows
        return None
