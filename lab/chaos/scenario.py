"""A scenario: an experiment, and what is done to whom while it runs.

    experiment: experiments/demo.yaml
    set: {data.edges: 3}
    steps:
      - {at: 1, do: kill, who: edge-0001, for: 2}
      - {at: 2, do: slow, who: edges, delay: 0.1, for: 3}
    random: {every: 2, do: [kill, pause], who: [any], most: 5}

Times are seconds from the first update that was applied: real ones on containers, virtual ones in the simulator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, FiniteFloat, StringConstraints, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from common.errors import ConfigError, Fault
from common.experiment import edge_ids, faults_of, read_yaml
from common.section import Positive, Section, Slug

Do = Literal["kill", "crash", "stop", "restart", "pause", "disconnect", "slow", "skew", "fill"]
Who = Annotated[str, StringConstraints(pattern=r"^(cloud|broker|edges|any|edge-[0-9]{4})$")]
ANY, EDGES = "any", "edges"


@dataclass(frozen=True)
class Rule:
    """What a kind of trouble needs: whom it can hit, and whether it goes on for a time.

    `lasts`: "yes", it has to say how long; "edges", an edge may stay away for good; "no", it is over at once.
    """

    who: frozenset[str]
    lasts: Literal["yes", "edges", "no"]
    text: str


_ANYBODY, _EDGE = frozenset({"cloud", "broker", "edge"}), frozenset({"edge"})
RULES: Mapping[str, Rule] = {
    "kill": Rule(_ANYBODY, "edges", "ended by SIGKILL, and started again"),
    "crash": Rule(_ANYBODY, "no", "its process dies; its restart policy brings it back"),
    "stop": Rule(_EDGE | {"broker"}, "yes", "asked to end by SIGTERM, and started again"),
    "restart": Rule(_EDGE | {"broker"}, "no", "asked to end by SIGTERM, and started again at once"),
    "pause": Rule(_ANYBODY, "yes", "frozen; its connections stand"),
    "disconnect": Rule(_ANYBODY, "yes", "taken out of the network without a word"),
    "slow": Rule(_EDGE, "yes", "its line has more delay and less rate"),
    "skew": Rule(_EDGE | {"cloud"}, "no", "killed, and started again with a clock that is wrong from now on"),
    "fill": Rule(frozenset({"cloud", "edges"}), "yes", "the disk on which it writes is full"),
}


class Step(Section):
    """One trouble. `delay`: seconds each way; `rate`: bytes per second; `by`: seconds that a clock is off."""

    at: FiniteFloat = Field(ge=0, le=86_400)
    do: Do
    who: Who
    lasts: Positive | None = Field(default=None, alias="for")
    delay: FiniteFloat | None = Field(default=None, ge=0, le=60)
    rate: Positive | None = None
    by: FiniteFloat | None = Field(default=None, ge=-1e9, le=1e9)

    @model_validator(mode="after")
    def _makes_sense(self) -> Step:
        if faults := list(self._faults()):
            raise ValidationError.from_exception_data("Step", faults)
        return self

    def _faults(self) -> Iterator[InitErrorDetails]:
        rule, kind = RULES[self.do], "edge" if self.who.startswith("edge-") or self.who == ANY else self.who
        groups = {*rule.who, *({EDGES} if "edge" in rule.who else ())}
        if kind not in groups:
            yield _fault(f"one of {', '.join(sorted(groups))}, to {self.do}", self.who, "who")
        if self.lasts is None and (rule.lasts == "yes" or (rule.lasts == "edges" and kind in ("cloud", "broker"))):
            yield _fault(f"seconds: to {self.do} {self.who} for good would end the run", None, "for")
        if self.lasts is not None and rule.lasts == "no":
            yield _fault(f"none: to {self.do} is over at once", self.lasts, "for")
        if (self.delay is None and self.rate is None) == (self.do == "slow"):
            expected = "delay, or rate, or both" if self.do == "slow" else f"neither delay nor rate, to {self.do}"
            yield _fault(expected, None if self.delay is None else self.delay, "delay")
        if (self.by is None) == (self.do == "skew"):
            yield _fault("seconds that the clock is off" if self.do == "skew" else f"none, to {self.do}", self.by, "by")

    @property
    def over(self) -> float:
        """When it is over, in seconds; infinite if never."""
        if self.lasts is not None:
            return self.at + self.lasts
        return float("inf") if self.do == "kill" else self.at

    def hits(self, edges: int) -> tuple[str, ...]:
        """The nodes that it hits, of a run with so many edges."""
        return edge_ids(edges) if self.who == EDGES else (self.who,)

    def text(self) -> str:
        """In words."""
        details = {"for": self.lasts, "delay": self.delay, "rate": self.rate, "by": self.by}
        said = [f"{name} {value:g}" for name, value in details.items() if value is not None]
        return " ".join([self.do, self.who, *said])


class Chance(Section):
    """Trouble by chance: one every so many seconds (a mean, half as much more or less), `most` of them in all."""

    every: Positive
    do: tuple[Do, ...] = Field(strict=False, min_length=1)
    who: tuple[Who, ...] = Field(default=(ANY,), strict=False, min_length=1)
    most: int = Field(ge=1, le=10_000)
    lasts: tuple[Positive, Positive] = Field(default=(1.0, 5.0), alias="for", strict=False)
    delay: tuple[Positive, Positive] = Field(default=(0.02, 0.5), strict=False)
    by: tuple[FiniteFloat, FiniteFloat] = Field(default=(-3600.0, 3600.0), strict=False)

    @model_validator(mode="after")
    def _has_choice(self) -> Chance:
        faults = [
            _fault("the smaller number first", list(getattr(self, name)), alias)
            for name, alias in (("lasts", "for"), ("delay", "delay"), ("by", "by"))
            if getattr(self, name)[0] > getattr(self, name)[1]
        ]
        if not self.pairs():
            faults.append(_fault("something that can be done to somebody in who", list(self.do), "do"))
        if faults:
            raise ValidationError.from_exception_data("Chance", faults)
        return self

    def pairs(self) -> list[tuple[str, str]]:
        """What can be done to whom."""
        found: list[tuple[str, str]] = []
        for do in self.do:
            for who in self.who:
                kind = "edge" if who.startswith("edge-") or who == ANY else who
                if kind in RULES[do].who or (kind == EDGES and "edge" in RULES[do].who):
                    found.append((do, who))
        return found


class Scenario(Section):
    """A whole file. `disk`: megabytes of each volume; `limit`: seconds in which the run has to end."""

    name: Slug
    experiment: str
    overrides: dict[str, object] = Field(default_factory=dict, alias="set")
    seed: int = Field(default=1, ge=0, lt=2**63)
    steps: tuple[Step, ...] = Field(default=(), strict=False)
    chance: Chance | None = Field(default=None, alias="random")
    disk: int = Field(default=64, ge=8, le=4096)
    limit: Positive = 600.0

    @model_validator(mode="after")
    def _does_something(self) -> Scenario:
        if not self.steps and self.chance is None:
            raise ValidationError.from_exception_data("Scenario", [_fault("one at least, or random", [], "steps")])
        return self


def read_scenario(path: Path) -> Scenario:
    """Reads a scenario file; its name is that of the file, unless it says another.

    Raises:
        ConfigError: with one fault for each thing that is wrong.
    """
    content = {"name": path.stem, **read_yaml(path)}
    try:
        return Scenario.model_validate(content)
    except ValidationError as error:
        raise ConfigError(
            [Fault(f"{path}: {each.path}", each.value, each.expected) for each in faults_of(error)]
        ) from error


def _fault(expected: str, value: object, *path: str | int) -> InitErrorDetails:
    error = PydanticCustomError("scenario", "{expected}", {"expected": expected})
    return InitErrorDetails(type=error, loc=path, input=value)
