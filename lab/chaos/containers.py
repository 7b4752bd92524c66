"""Does to containers what a step says, and makes it good again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from docker.errors import APIError
from docker.models.containers import Container

from lab.chaos.engine import Engine
from lab.chaos.project import Project
from lab.chaos.scenario import EDGES, Step
from lab.told import told

RETURN = 8.0
"""Seconds that a restart policy has to bring back a process that died; then it is started by hand."""
PATIENCE = 30.0
"""Seconds that a node which is asked to end may take, as in docker-compose.yml."""
_ATTEMPTS, _PAUSE = 5, 0.2
_KILL = "kill -9 -1"
"""All processes of the container but the first, which passes their end on."""


@dataclass
class Containers:
    """The nodes of one project. `sleep`: waits so many seconds."""

    project: Project
    engine: Engine
    edges: int
    sleep: Callable[[float], None] = time.sleep
    _aliases: dict[str, list[str]] = field(default_factory=dict)
    _asked: dict[str, float] = field(default_factory=dict)
    _started: dict[str, str] = field(default_factory=dict)
    _slow: dict[str, tuple[float, float | None]] = field(default_factory=dict)

    def begin(self, step: Step) -> str:
        """Does it; what was done, or why it could not be, in words.

        Raises:
            DeployError: the engine failed.
        """
        if step.do == "fill":
            return self._fill(step)
        said = [f"{who}: {text}" for who, text in self._each(step, self._do) if text]
        return "; ".join(said)

    def end(self, step: Step) -> str:
        """Makes it good again; what was found on the way, in words.

        Raises:
            DeployError: the engine failed.
        """
        if step.do == "fill":
            for volume in _volumes(step):
                self.engine.run("keeper", "rm", "-f", _filling(volume))
        said = [f"{who}: {text}" for who, text in self._each(step, self._undo) if text]
        return "; ".join(said)

    def is_due(self, step: Step, now: float) -> bool:
        """Whether it is time for `end`; `now`: on the scenario's clock. Who was asked to end may take its time."""
        if step.over > now:
            return False
        if step.do == "crash":
            return all(self._is_settled(who, self.engine.node(who)) for who in step.hits(self.edges))
        hit = step.hits(self.edges) if step.do in ("stop", "restart") else ()
        latest = time.monotonic() - PATIENCE
        return all(self._asked.get(who, 0.0) < latest or self._state(self.engine.node(who)) == "exited" for who in hit)

    def _is_settled(self, who: str, node: Container) -> bool:
        """Whether a node whose process died is back, or will not come back by itself."""
        if self._asked.get(who, 0.0) < time.monotonic() - RETURN or self._is_back(who, node):
            return True
        return node.status == "exited" and node.attrs["HostConfig"]["RestartPolicy"]["Name"] in ("", "no")

    def _is_back(self, who: str, node: Container) -> bool:
        return self._state(node) == "running" and node.attrs["State"]["StartedAt"] != self._started.get(who)

    def is_over(self) -> bool:
        """Whether the cloud's container has ended."""
        return self._state(self.engine.node("cloud")) in ("exited", "dead")

    def _each(self, step: Step, act: Callable[[Step, str, Container], str]) -> Iterator[tuple[str, str]]:
        for who in step.hits(self.edges):
            with told("docker", f"to {step.do} {who}"):
                yield who, act(step, who, self.engine.node(who))

    def _do(self, step: Step, who: str, node: Container) -> str:
        if self._state(node) != "running":
            return f"not done, it is {self._state(node)}"
        match step.do:
            case "kill":
                node.kill()
            case "crash":
                self._started[who], self._asked[who] = node.attrs["State"]["StartedAt"], time.monotonic()
                node.exec_run(["sh", "-c", _KILL])
            case "stop" | "restart":
                node.kill(signal="SIGTERM")
                self._asked[who] = time.monotonic()
            case "pause":
                node.pause()
            case "disconnect":
                self._aliases[who] = list(self.engine.cut(node))
            case "slow":
                self._slow[str(node.name)] = (step.delay or 0.0, step.rate)
                self._tell_relay()
            case "skew":
                clock = self.project.clocks / str(node.id)[:12]
                clock.write_text(str(step.by), encoding="ascii")
                clock.chmod(0o644)
                node.kill()
                node.wait(timeout=30)
                node.start()
        return ""

    def _undo(self, step: Step, who: str, node: Container) -> str:
        match step.do:
            case "pause" if self._state(node) == "paused":
                node.unpause()
            case "disconnect" if who in self._aliases:
                self._joined(node, self._aliases.pop(who))
            case "slow":
                self._slow.pop(str(node.name), None)
                self._tell_relay()
            case "crash" if self._is_back(who, node):
                return "back by its restart policy"
            case "stop" | "restart" if self._state(node) == "running":
                node.kill()
                node.wait(timeout=30)
                return f"killed after {PATIENCE:g} s, {self._start(step, node)}"
            case "kill" | "stop" | "restart" | "crash" | "fill":
                return self._start(step, node)
        return ""

    def _start(self, step: Step, node: Container) -> str:
        """Starts what has ended by our doing. A cloud or an edge that came to its own good end stays so."""
        if self._state(node) != "exited":
            return ""
        code = node.attrs["State"]["ExitCode"]
        if code == 0 and step.who != "broker":
            return ""
        node.start()
        return f"started again (exit code {code})" if step.do in ("fill", "crash") else "started again"

    def _joined(self, node: Container, aliases: list[str]) -> None:
        """Back into the network, though the engine now and then is not done with taking it out."""
        for attempt in range(_ATTEMPTS):
            try:
                self.engine.join(node, aliases)
            except APIError:
                if attempt == _ATTEMPTS - 1:
                    raise
                self.sleep(_PAUSE)
            else:
                return

    def _fill(self, step: Step) -> str:
        said = []
        for volume in _volumes(step):
            more = f"cat /dev/zero >> {_filling(volume)}"  # the first time, the kernel may still find some pages
            self.engine.run("keeper", "sh", "-c", f"{more}; {more}; {more}")
            free = self.engine.run("keeper", "df", "-P", f"/volumes/{volume}").split()[-3]
            said.append(f"{volume}: {free} blocks left")
        return "; ".join(said)

    def _tell_relay(self) -> None:
        text: Mapping[str, object] = self._slow
        self.engine.run("relay", "sh", "-c", 'printf %s "$0" > /tmp/new && mv /tmp/new /tmp/slow', json.dumps(text))

    @staticmethod
    def _state(node: Container) -> str:
        node.reload()
        return str(node.status)


def _volumes(step: Step) -> tuple[str, ...]:
    return ("records", "ledger") if step.who == EDGES else ("results",)


def _filling(volume: str) -> str:
    return f"/volumes/{volume}/.filling"
