"""A run under the virtual clock with trouble: the same scenario, the same nodes, the same checks, in seconds."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from typing import TextIO

from common.node import Seconds
from lab.chaos.disturber import Disturber
from lab.chaos.judge import judge
from lab.chaos.nursery import Nursery
from lab.chaos.order import Order, plan_of
from lab.chaos.story import Deed, Story
from lab.garbage import settled
from lab.pages import Pages
from lab.simulator import Simulator
from lab.virtual import cautions_of, repeatable

_STRIDE = 20  # events between two looks at whether the first update was applied
_AGAIN = 0.1  # virtual seconds until it is looked again whether a node that was asked to end has done so


def simulate(order: Order, stream: TextIO) -> int:
    """Simulates the scenario; 0 if everything was done and everything held.

    Raises:
        ConfigError, DataError: nothing was started.
        RecordError: results cannot be written.
    """
    plan = plan_of(order)
    for caution in (*plan.cautions, *cautions_of(plan.experiment)):
        print(f"warning: {caution}", file=stream)
    story = Story(plan.scenario, plan.run, "virtual clock", [Deed(step) for step in plan.steps])
    clock = _Clock()
    with ExitStack() as closing:
        pages = Pages(plan.folder.path, plan.run, clock.look, block=1)
        closing.callback(pages.close)
        nursery = Nursery(repeatable(plan.experiment), plan.run, plan.folder, pages, order.ask)
        closing.callback(nursery.close)
        simulator = nursery.populate()
        with settled():
            is_over = _follow(simulator, Disturber(simulator, nursery.profiles, nursery.bear), story, clock)
    story.seconds = round(simulator.now - clock.origin, 2)
    late = f"run: not over after {plan.scenario.limit:g} virtual seconds: expected it to end"
    story.close(*judge(plan.folder, [] if is_over else [late]))
    story.write(plan.folder.path)
    story.tell(plan.folder.path, stream)
    return story.code


@dataclass
class _Clock:
    """The scenario's clock, which begins with the first update that is applied."""

    origin: Seconds = 0.0
    has_begun: bool = False

    def look(self, row: Mapping[str, object]) -> None:
        """Sees the cloud's rows."""
        if not self.has_begun and row["kind"] == "update" and row["applied"]:
            self.has_begun, self.origin = True, float(str(row["time"]))


@dataclass(order=True)
class _Due:
    """A step's beginning, or its end, at a virtual time."""

    time: Seconds
    place: int
    deed: Deed = field(compare=False)
    is_end: bool = field(compare=False, default=False)


def _follow(simulator: Simulator, disturber: Disturber, story: Story, clock: _Clock) -> bool:
    """Runs to the end, and does on the way what there is to do; False if the time was not enough."""
    limit = story.scenario.limit
    while not clock.has_begun:
        if simulator.run(_STRIDE):
            return True
        if simulator.now > limit:
            return False
    places = count()
    due = [_Due(clock.origin + deed.step.at, next(places), deed) for deed in story.deeds]
    heapq.heapify(due)
    while due and due[0].time <= clock.origin + limit:
        one = heapq.heappop(due)
        if simulator.run(until=one.time):
            return True
        now = round(simulator.now - clock.origin, 2)
        deed = one.deed
        if not one.is_end:
            deed.begun = now
            deed.note(disturber.begin(deed.step))
            if (over := disturber.over(deed.step)) < float("inf"):
                heapq.heappush(due, _Due(max(clock.origin + over, simulator.now), next(places), deed, is_end=True))
        elif not disturber.has_ended(deed.step):
            heapq.heappush(due, _Due(simulator.now + _AGAIN, next(places), deed, is_end=True))
        else:
            deed.ended = now
            deed.note(disturber.end(deed.step))
    return simulator.run(until=clock.origin + limit)
