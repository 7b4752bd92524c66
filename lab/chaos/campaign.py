"""A run in containers with trouble, from the first container to the last."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TextIO

from common.errors import DeployError
from lab.chaos.containers import Containers
from lab.chaos.engine import Engine
from lab.chaos.judge import judge
from lab.chaos.order import Order, Plan, plan_of
from lab.chaos.project import Project
from lab.chaos.story import Deed, Story
from lab.signals import Signals
from lab.told import told

GRACE = 20.0
"""Seconds that edges may take for their accounts, once the cloud has ended."""
_LOOK = 0.2
_INTERRUPTED = 130


def campaign(order: Order, stream: TextIO) -> int:
    """Runs the scenario in containers; 0 if everything was done and everything held, 130 if a person stopped it.

    Raises:
        ConfigError, DataError: nothing was started.
        DeployError: the engine failed; nothing is left of it that could be removed.
        RecordError: results cannot be written.
    """
    plan = plan_of(order)
    for caution in plan.cautions:
        print(f"warning: {caution}", file=stream)
    story = Story(plan.scenario, plan.run, "containers", [Deed(step) for step in plan.steps])
    name = f"chaos-{plan.run}"[:40].strip("-")
    project = Project(name, order.project.absolute(), plan.folder.path / "containers", order.environment)
    has_relay = any(step.do == "slow" for step in plan.steps)
    project.prepare(plan.experiment, plan.run, plan.scenario.disk, has_relay=has_relay)
    engine = Engine(name, order.environment)
    try:
        if left := engine.left():
            cure = f"docker compose --project-name {name} down --volumes"
            raise DeployError(f"docker: {', '.join(left)}: expected nothing of that name ({cure})")
        with Signals().listening() as signals:
            _Run(plan, story, project, engine, stream, lambda: signals.count > 0).go()
            is_interrupted = signals.count > 0
    finally:
        engine.close()
    story.write(plan.folder.path)
    story.tell(plan.folder.path, stream)
    return _INTERRUPTED if is_interrupted else story.code


@dataclass
class _Run:
    """One run, as it goes on."""

    plan: Plan
    story: Story
    project: Project
    engine: Engine
    stream: TextIO
    is_urgent: Callable[[], bool]
    begun: float = 0.0

    def go(self) -> None:
        """Starts it, does what the steps say, waits for its end, and looks at what is left."""
        faults: list[str] = []
        try:
            self._say("starting containers")
            self.project.up()
            self._follow(faults)
            self._wait_for_edges()
            self._collect()
        finally:
            self._say("removing containers")
            self.project.down()
            if left := self.engine.left():
                faults.append(f"left: {', '.join(left)}: expected nothing of the project")
        if self.is_urgent():
            self.story.faults.append("interrupted: nothing was checked")
        else:
            self.story.close(*judge(self.plan.folder, faults))

    def _follow(self, faults: list[str]) -> None:
        nodes = Containers(self.project, self.engine, self.plan.experiment.data.edges)
        latest = time.monotonic() + self.plan.scenario.limit
        while not self._has_begun() and not nodes.is_over():
            if self._is_late(latest, faults):
                return
            time.sleep(_LOOK)
        self.begun = time.monotonic()
        waiting, going = list(self.story.deeds), list[Deed]()
        while True:
            now = self._clock()
            for deed in [each for each in going if nodes.is_due(each.step, now)]:
                self._end(nodes, deed, going)
            for deed in self._ready(waiting, going):
                waiting.remove(deed)
                self._begin(nodes, deed, going)
            is_held = any(deed.step.who == "cloud" for deed in going)
            if (not is_held and nodes.is_over()) or self._is_late(latest, faults):
                break
            time.sleep(_LOOK)
        self.story.seconds = self._clock()
        for deed in list(going):
            self._end(nodes, deed, going)

    def _ready(self, waiting: Sequence[Deed], going: Sequence[Deed]) -> list[Deed]:
        """What is due, and hits nobody whom another step holds still, or is about to hit first."""
        edges = self.plan.experiment.data.edges
        held = {who for deed in going for who in deed.step.hits(edges)}
        ready = []
        for deed in waiting:
            if deed.step.at > self._clock():
                break
            hits = set(deed.step.hits(edges))
            if not hits & held:
                ready.append(deed)
            held |= hits
        return ready

    def _begin(self, nodes: Containers, deed: Deed, going: list[Deed]) -> None:
        if nodes.is_over() and not any(other.step.who == "cloud" for other in going):
            return
        deed.begun = round(self._clock(), 2)
        deed.note(nodes.begin(deed.step))
        self._say(f"{deed.begun:6.1f} s  {deed.step.text()}", *deed.said)
        going.append(deed)

    def _end(self, nodes: Containers, deed: Deed, going: list[Deed]) -> None:
        going.remove(deed)
        if deed.step.over < float("inf"):
            said = nodes.end(deed.step)
            deed.ended = round(self._clock(), 2)
            deed.note(said)
            if said or deed.step.lasts is not None:
                self._say(f"{deed.ended:6.1f} s  over: {deed.step.text()}", *([said] if said else []))

    def _clock(self) -> float:
        return time.monotonic() - self.begun

    def _is_late(self, latest: float, faults: list[str]) -> bool:
        if time.monotonic() > latest and not self.is_urgent():
            faults.append(f"run: not over after {self.plan.scenario.limit:g} s: expected it to end")
        return time.monotonic() > latest or self.is_urgent()

    def _has_begun(self) -> bool:
        """Whether an update was applied."""
        path = f"/volumes/results/{self.plan.run}/cloud/records.jsonl"
        return self.engine.run("keeper", "grep", "-m1", "-c", '"kind":"update"', path).strip() == "1"

    def _wait_for_edges(self) -> None:
        latest = time.monotonic() + GRACE
        while any(one.status in ("running", "restarting") for one in self.engine.containers("edge")):
            if time.monotonic() > latest or self.is_urgent():
                return
            time.sleep(_LOOK)

    def _collect(self) -> None:
        """Copies records, ledgers and logs here."""
        folder = self.plan.folder
        self.engine.copy("keeper", f"/volumes/results/{self.plan.run}", folder.path)
        self.engine.copy("keeper", f"/volumes/records/{self.plan.run}", folder.path)
        self.engine.copy("keeper", "/volumes/ledger", folder.path / "ledgers")
        for service in self.project.nodes:
            for number, one in enumerate(self.engine.containers(service), 1):
                path = folder.log(f"edge-{number:04d}" if service == "edge" else service)
                if service == "broker":
                    path = folder.path / "broker" / "output.log"
                path.parent.mkdir(parents=True, exist_ok=True)
                with told("docker", f"the log of {one.name}"):
                    path.write_bytes(one.logs())

    def _say(self, text: str, *more: str) -> None:
        print("; ".join([text, *more]), file=self.stream, flush=True)
