"""Does under the virtual clock what a step says.

| step | here |
|---|---|
| kill, crash | the process is dropped; a new one is built from what is on disk, as another process of this node |
| stop, restart | the node is asked to end; when it has, a new process is built |
| pause | nothing happens to the node; afterwards everything at once that would have, in order |
| disconnect | what is sent to it is lost; what it says waits, and leaves when its link is back |
| slow | its line becomes another one |
| skew | as kill, and from then on its node is given a wrong time |
| of the broker | all links are down, and what was said to all is lost; pause: nothing is carried for a while |
| fill | not simulated: there is no disk |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from common.fleet import Link, Profile
from common.node import CLOUD, INTERRUPTED, NodeId, Seconds
from lab.chaos.scenario import Step
from lab.chaos.story import NOT_DONE, NOT_SIMULATED
from lab.simulator import Simulator

BACK = {"crash": 1.0, "restart": 0.5, "skew": 0.5}
"""Seconds in which a node, or the broker, is there again by itself."""
_BROKER = "broker"

Birth = Callable[[NodeId, Seconds], None]
"""Builds another process of a node, whose clock is off by so many seconds, and adds it to the simulator."""


@dataclass
class Disturber:
    """One simulator, the links of its edges, and who builds processes anew."""

    simulator: Simulator
    profiles: dict[NodeId, Profile]
    birth: Birth
    _skews: dict[NodeId, Seconds] = field(default_factory=dict)
    _unborn: list[NodeId] = field(default_factory=list)
    _is_broker_down: bool = False

    def over(self, step: Step) -> Seconds:
        """When `end` is to be called, on the scenario's clock."""
        return step.at + BACK[step.do] if step.do in BACK else step.over

    def begin(self, step: Step) -> str:
        """Does it; what there is to say about it."""
        if step.do == "fill":
            return NOT_SIMULATED
        if step.who == _BROKER:
            self._break(step)
            return ""
        said = [text for who in step.hits(len(self.profiles)) if (text := self._do(step, who))]
        return "; ".join(said)

    def end(self, step: Step) -> str:
        """Makes it good again."""
        if step.do == "fill":
            return ""
        if step.who == _BROKER:
            self._heal(step)
            return ""
        said = [text for who in step.hits(len(self.profiles)) if (text := self._undo(step, who))]
        return "; ".join(said)

    def has_ended(self, step: Step) -> bool:
        """Whether those that were asked to end have done so."""
        if step.do not in ("stop", "restart") or step.who == _BROKER:
            return True
        return all(self.simulator.halted(who) is not None for who in step.hits(len(self.profiles)))

    def _do(self, step: Step, who: NodeId) -> str:
        simulator = self.simulator
        if simulator.halted(who) is not None:
            return f"{who}: {NOT_DONE}, it has ended"
        match step.do:
            case "kill" | "crash" | "skew":
                if step.by is not None:
                    self._skews[who] = step.by
                simulator.drop(who, for_good=self.over(step) == float("inf"))
            case "stop" | "restart":
                simulator.wake(who, INTERRUPTED)
            case "pause":
                simulator.hold(who)
            case "disconnect":
                simulator.cut(who)
            case "slow":
                simulator.slow(who, self._slower(step, who))
        return ""

    def _undo(self, step: Step, who: NodeId) -> str:
        simulator = self.simulator
        match step.do:
            case "kill" | "crash" | "skew" | "stop" | "restart":
                halt = simulator.halted(who)
                return self._bear(who) if halt is not None and halt.reason in ("killed", "interrupted") else ""
            case "pause":
                simulator.release(who)
            case "disconnect":
                simulator.mend(who, has_will=True)
            case "slow":
                simulator.slow(who, None)
        return ""

    def _bear(self, who: NodeId) -> str:
        if self._is_broker_down:
            self._unborn.append(who)
            return f"{who}: waits for the broker"
        self.birth(who, self._skews.get(who, 0.0))
        return f"{who}: started again"

    def _slower(self, step: Step, who: NodeId) -> Link:
        own = self.profiles[who].link
        rates = [rate for rate in (own.bandwidth, step.rate) if rate is not None]
        latency = own.latency + (step.delay or 0.0)
        return own.model_copy(update={"latency": latency, "bandwidth": min(rates, default=None)})

    def _everybody(self) -> Sequence[NodeId]:
        return (CLOUD, *self.profiles)

    def _break(self, step: Step) -> None:
        """Something befalls the broker."""
        if step.do == "pause":
            self.simulator.post.stall()
            return
        self._is_broker_down = True
        if step.do != "disconnect":
            self.simulator.post.forget()
        for who in self._everybody():
            self.simulator.cut(who)

    def _heal(self, step: Step) -> None:
        if step.do == "pause":
            self.simulator.post.resume()
            return
        self._is_broker_down = False
        for who in self._everybody():
            self.simulator.mend(who, has_will=step.do == "disconnect")
        unborn, self._unborn = self._unborn, []
        for who in unborn:
            self.birth(who, self._skews.get(who, 0.0))
