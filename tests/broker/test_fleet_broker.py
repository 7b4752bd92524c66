"""Edges on a real broker that pretend to be other machines: as slow, as far away and as often gone as profiled."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from harness import experiment
from toys import LAYOUT, Life, Place, Pupil, Teacher, wait_for

from common.address import Address
from common.fleet import Churn, Device, Fleet, Link, Profile
from common.machine import Machine
from common.membership import SETTLE
from common.messages import Bye, Message, Model, Stop
from common.node import CLOUD, CONNECTED, EDGES, INTERRUPTED, Effect, Halt, NodeId, Send, Wake
from common.records import read
from common.tensors import Layout

pytestmark = pytest.mark.broker
WORK: Mapping[str, float] = {"model": 12.0}


class Office(Teacher):
    """A cloud: work for whoever is free, until it has so many updates; counts how stale each is."""

    def __init__(self, edges: int, updates: int, layout: Layout = LAYOUT) -> None:
        super().__init__(edges, 10**9, layout)
        self.updates, self.version = updates, 0
        self.versions: dict[tuple[NodeId, int], int] = {}
        self.rows: list[tuple[NodeId, int, float]] = []
        self.ready: set[NodeId] = set()

    def on_message(self, sender: NodeId, message: Message, now: float) -> Sequence[Effect]:
        before = len(self.accepted)
        effects = super().on_message(sender, message, now)
        if len(self.accepted) > before:
            _, ticket, _ = self.accepted[-1]
            self.rows.append((sender, self.version - self.versions[sender, ticket], now))
            self.version += 1
        if self.version == self.updates:
            return [Send(EDGES, Stop(reason="done")), Halt("done")]
        if len(self.ready) < self.edges:  # all begin together
            self.ready.add(sender)
            effects = [self.model(edge, 1) for edge in self.ready] if len(self.ready) == self.edges else []
        for effect in effects:
            if isinstance(effect, Send):
                self.versions.setdefault((str(effect.to), self.tickets[str(effect.to)]), self.version)
        return effects

    def gaps(self) -> list[float]:
        times = [time for _, _, time in self.rows]
        return [later - earlier for earlier, later in pairwise(times)]


class Student(Pupil):
    """An edge that does each piece of work once, repeats itself when nothing comes, and ends when asked to."""

    done = 0

    def reply(self, sender: NodeId, message: Message) -> Sequence[Effect]:
        if isinstance(message, Model):
            if message.ticket <= self.done:
                return []
            self.done = message.ticket
        return super().reply(sender, message)

    def wake(self, name: str) -> Sequence[Effect]:
        return [Halt("asked")] if name == INTERRUPTED else super().wake(name)


def run(
    place: Place, profiles: Sequence[Profile | None], updates: int, layout: Layout = LAYOUT
) -> tuple[Office, list[Student], list[Life]]:
    cloud, edges = Office(len(profiles), updates, layout), [Student(layout) for _ in profiles]
    lives = [place.live(cloud, CLOUD, layout=layout)]
    for number, (edge, profile) in enumerate(zip(edges, profiles, strict=True)):
        name = f"edge-{number}"
        machine = None if profile is None else Machine(profile, WORK, 1, name)
        lives.append(place.live(edge, name, layout=layout, machine=machine))
    assert [life.end() for life in lives] == [0] * len(lives)
    return cloud, edges, lives


def median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


def test_a_device_that_is_five_times_as_fast_makes_five_times_the_updates(place: Place) -> None:
    cloud, _, lives = run(place, [Profile(Device(speed=600)), Profile(Device(speed=120))], 60)
    made = Counter(edge for edge, _, _ in cloud.rows)
    assert 3.5 < made["edge-0"] / made["edge-1"] < 6.5
    tallies = [life.rows("machine")[0] for life in lives[1:]]
    assert all(tally["steps"] >= made[f"edge-{number}"] for number, tally in enumerate(tallies))


@pytest.mark.parametrize(
    ("profile", "least", "most"),
    [
        (None, 0.0, 0.03),
        (Profile(), 0.0, 0.03),
        (Profile(link=Link(bandwidth=20_000)), 0.06, 0.12),
        (Profile(Device(speed=240), Link(latency=0.03)), 0.11, 0.16),
    ],
)
def test_a_turnaround_takes_what_the_profile_says(
    place: Place, profile: Profile | None, least: float, most: float
) -> None:
    cloud, _, _ = run(place, [profile], 8)
    assert least <= min(cloud.gaps())
    assert median(cloud.gaps()) < most


def test_latency_makes_the_updates_of_the_others_stale(place: Place) -> None:
    near, far = Profile(Device(speed=600)), Profile(Device(speed=600), Link(latency=0.04))
    cloud, _, _ = run(place, [near, far], 40)
    staleness = {name: [stale for edge, stale, _ in cloud.rows if edge == name] for name in ("edge-0", "edge-1")}
    assert median(staleness["edge-0"]) <= 1
    assert median(staleness["edge-1"]) >= 3, "(20 + 2 x 40 ms) / 20 ms: about 5"


def test_edges_that_take_turns_are_as_stale_as_there_are_others(place: Place) -> None:
    fleet = Fleet(cyclic=0.3)
    cloud, _, _ = run(place, [fleet.profile(index, 3) for index in range(3)], 15)
    assert [stale for _, stale, _ in cloud.rows] == [0, 1, 2] + [2] * 12
    assert [edge for edge, _, _ in cloud.rows[3:]] == [edge for edge, _, _ in cloud.rows[:-3]]


def test_a_large_model_crosses_a_thin_line_whole_and_late(place: Place) -> None:
    layout = Layout.of({"w": (400_000,)})
    cloud, _, _ = run(place, [Profile(link=Link(latency=0.01, bandwidth=6e6, loss=0.1, jitter=0.5))], 2, layout)
    assert [(ticket, value) for _, ticket, value in cloud.accepted] == [(1, 2.0), (2, 3.0)]
    assert cloud.gaps()[0] > 0.53, "1.6 MB down and up at 6 MB/s"


def test_edges_come_and_go_and_no_update_counts_twice(place: Place) -> None:
    cloud = Teacher(edges=3, rounds=25)
    profile = Profile(Device(speed=400), Link(latency=0.005), Churn(up=0.4, down=0.15))
    names = [f"edge-{number}" for number in range(3)]
    edges = [Student() for _ in names]
    lives = [place.live(cloud, CLOUD)]
    for edge, name in zip(edges, names, strict=True):
        lives.append(place.live(edge, name, machine=Machine(profile, WORK, 1, name), patience_lost=0.5))
    assert [life.end() for life in lives] == [0, 0, 0, 0]
    assert len(set(cloud.accepted)) == len(cloud.accepted) == 75
    lost = Counter(sender for sender, message in cloud.heard if message == Bye(reason="connection lost"))
    for edge, name, life in zip(edges, names, lives[1:], strict=True):
        states = [row["state"] for row in life.rows("connection")]
        assert states == ["up", *["away", "up"] * states.count("away")][: len(states)]
        assert lost[name] >= states.count("up") - 1 >= 1, "each absence was seen"
        assert edge.woken.count(CONNECTED) == states.count("up") - 1


def test_an_absence_lasts_as_long_as_it_was_drawn(place: Place) -> None:
    dice = Machine(Profile(churn=Churn(up=0.5, down=0.4)), {}, 8, "edge-0")
    drawn = [(dice.stay(), dice.absence()) for _ in range(2)]
    machine = Machine(Profile(churn=Churn(up=0.5, down=0.4)), {}, 8, "edge-0")
    life = place.joined(Student(), "edge-0", machine=machine)
    wait_for(lambda: len(life.rows("connection")) >= 5)
    times = [row["time"] for row in life.rows("connection")]
    times[0] += SETTLE  # the edge looks for its place first
    told = [row["seconds"] for row in life.rows("connection") if row["state"] == "away"]
    for (stay, absence), left, back, up, said in zip(drawn, times[1::2], times[2::2], times[::2], told, strict=False):
        assert left - up == pytest.approx(stay, abs=0.1)
        assert back - left == pytest.approx(absence, abs=0.15)
        assert said == pytest.approx(absence, abs=0.01)
    life.shell.interrupt()
    assert life.end(3.0) == 0


class Chief(Teacher):
    """A cloud that stops all when it is interrupted, and leaves a little later."""

    def wake(self, name: str) -> Sequence[Effect]:
        if name == INTERRUPTED:
            return [Send(EDGES, Stop(reason="enough")), Wake("home", 0.3)]
        return [Halt("home")] if name == "home" else []


@pytest.mark.parametrize("how", ["interrupt", "stop"])
def test_whoever_wants_it_to_end_does_not_wait_for_the_device(place: Place, how: str) -> None:
    cloud, edge, pulses = Chief(edges=1, rounds=2), Student(), []
    machine = Machine(Profile(Device(speed=0.01), Link(latency=0.01)), WORK, 1, "edge-0")
    whole = place.joined(cloud, CLOUD)
    life = place.joined(edge, "edge-0", machine=machine, pulse=lambda: pulses.append(time.monotonic()))
    wait_for(lambda: "model" in edge.kinds() and pulses)
    assert not cloud.accepted, "the answer is ready, but the device is not"
    began = time.monotonic()
    (life if how == "interrupt" else whole).shell.interrupt()
    assert life.end(5.0) == 0
    assert time.monotonic() - began < 1.5
    wait_for(lambda: len(cloud.accepted) == 1)
    assert edge.woken.count(INTERRUPTED) == (how == "interrupt")
    if how == "interrupt":
        whole.shell.interrupt()
    assert whole.end(5.0) == 0


def test_who_is_away_can_be_ended_at_once(place: Place) -> None:
    class Short(Student):
        def wake(self, name: str) -> Sequence[Effect]:
            return [Send(CLOUD, Bye(reason="asked", releases=1)), Halt("asked")] if name == INTERRUPTED else []

    edge = Short()
    machine = Machine(Profile(churn=Churn(up=0.8, down=1e5)), WORK, 1, "edge-0")
    life = place.joined(edge, "edge-0", machine=machine, patience_lost=0.1)
    wait_for(lambda: any(row["state"] == "away" for row in life.rows("connection")))
    time.sleep(0.3)
    began = time.monotonic()
    life.shell.interrupt()
    assert life.end(5.0) == 0
    assert time.monotonic() - began < 2.0


def test_the_last_words_of_who_is_away_wait_until_it_is_back(place: Place) -> None:
    class Brief(Student):
        def wake(self, name: str) -> Sequence[Effect]:
            return [Send(CLOUD, Bye(reason="spent", releases=1)), Halt("spent")] if name == "over" else []

    cloud, seed = Chief(1, 1), next(seed for seed in range(1000) if _leaves(seed, 0.2, 1.0))
    whole = place.joined(cloud, CLOUD)
    machine = Machine(Profile(churn=Churn(up=1.0, down=1.0)), WORK, seed, "edge-0")
    edge = Brief()
    edge.first = (Wake("over", 0.5),)
    life = place.live(edge, "edge-0", machine=machine)
    assert life.end(15.0) == 0
    assert [row["state"] for row in life.rows("connection")] == ["up", "away"]
    wait_for(lambda: ("edge-0", Bye(reason="spent", releases=1)) in cloud.heard)
    whole.shell.interrupt()
    assert whole.end(5.0) == 0


def _leaves(seed: int, up: float, down: float) -> bool:
    """Whether an edge of this seed leaves at about `up` seconds for about `down` seconds."""
    machine = Machine(Profile(churn=Churn(up=1.0, down=1.0)), WORK, seed, "edge-0")
    return abs(machine.stay() - up) < 0.1 and abs(machine.absence() - down) < 0.3


def test_a_machine_that_is_slower_than_its_profile_says_so_once(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    class Slow(Student):
        def reply(self, sender: NodeId, message: Message) -> Sequence[Effect]:
            time.sleep(0.02)
            return super().reply(sender, message)

    cloud, edge = Teacher(edges=1, rounds=4), Slow()
    place.live(cloud, CLOUD)
    life = place.live(edge, "edge-0", machine=Machine(Profile(Device(speed=1e6)), WORK, 1, "edge-0"))
    assert life.end() == 0
    (row,) = life.rows("slower")
    assert row["took"] >= 0.02 > row["profile"]
    (tally,) = life.rows("machine")
    assert tally["slower"] == tally["steps"] == 4
    assert caplog.text.count("slower than its profile") == 1


def test_the_programs_of_an_experiment_with_a_fleet_keep_to_it(shared_broker: Address, tmp_path: Path) -> None:
    fleet = {
        "devices": {"fast": {"speed": 480}, "slow": {"speed": 96}},
        "links": {"near": {"latency": 0.001}},
        "edges": [{"device": "fast"}, {"device": "slow", "link": "near"}],
    }
    plan = experiment(
        algorithm={"name": "asgd", "batch_size": 12},
        privacy={"mechanism": "none"},
        data__edges=2,
        stop__updates=60,
        fleet=fleet,
    )
    file, out = tmp_path / "plan.yaml", tmp_path / "run"
    file.write_text(yaml.safe_dump(plan.model_dump(mode="json")))
    common = ["--experiment", str(file), "--broker", str(shared_broker), "--run", out.parent.name, "--out", str(out)]
    edges = [["edge", "--id", name, "--ledger", str(tmp_path)] for name in ("edge-0001", "edge-0002")]
    processes = [subprocess.Popen([sys.executable, "-m", *role, *common]) for role in (["cloud"], *edges)]
    try:
        assert [process.wait(60.0) for process in processes] == [0, 0, 0]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    rows = list(read(out / "cloud" / "records.jsonl"))
    made = Counter(row["edge"] for row in rows if row["kind"] == "update")
    assert 3.5 < made["edge-0001"] / made["edge-0002"] < 6.5
    for name in ("edge-0001", "edge-0002"):
        (tally,) = [row for row in read(out / "edges" / name / "records.jsonl") if row["kind"] == "machine"]
        assert tally["steps"] >= made[name]
        assert tally["slower"] <= 0.3 * tally["steps"]
