"""The fleet section: what is refused and how it is said, which edge has which machine, and how long things take."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from common.errors import ConfigError, Fault
from common.experiment import Experiment, parse
from common.fleet import RETRY, Cycle, Device, Fleet, Link, Profile
from lab.check import check_experiment

DEVICES = {"phone": {"speed": 400, "jitter": 0.2}, "server": {"speed": 20000}}
LINKS = {"mobile": {"latency": 0.05, "bandwidth": 250000, "loss": 0.02}, "wired": {"latency": 0.002}}
EDGES = [{"device": "phone", "link": "mobile", "count": 3}, {"device": "server", "link": "wired"}]
FLEET = {"devices": DEVICES, "links": LINKS, "edges": EDGES, "churn": {"up": 120, "down": 10}}


def experiment(**fleet: Any) -> Experiment:
    return parse(
        {
            "name": "small",
            "data": {"name": "digits", "edges": 6},
            "model": {"name": "softmax"},
            "algorithm": {"name": "asgd"},
            "privacy": {"mechanism": "none"},
            "stop": {"updates": 10},
            "fleet": fleet,
        }
    )


def faults(**fleet: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        experiment(**fleet)
    return [str(fault) for fault in caught.value.faults]


def rng() -> np.random.Generator:
    return np.random.default_rng(1)


@pytest.mark.parametrize(
    ("fleet", "path", "value", "expected"),
    [
        ({"devices": {"phone": {"speed": 0}}}, "fleet.devices.phone.speed", 0, "greater than 0"),
        ({"devices": {"phone": {"speed": -3.5}}}, "fleet.devices.phone.speed", -3.5, "greater than 0"),
        ({"devices": {"phone": {}}}, "fleet.devices.phone.speed", None, "a value (required key is missing)"),
        ({"devices": {"p": {"speed": 1, "ram": 4}}}, "fleet.devices.p.ram", 4, "no such key"),
        ({"links": {"mobile": {"loss": 1.0}}}, "fleet.links.mobile.loss", 1.0, "less than 1"),
        ({"links": {"mobile": {"loss": -0.1}}}, "fleet.links.mobile.loss", -0.1, "greater than or equal to 0"),
        ({"links": {"mobile": {"bandwidth": 0}}}, "fleet.links.mobile.bandwidth", 0, "greater than 0"),
        (
            {"links": {"mobile": {"latency": float("inf")}}},
            "fleet.links.mobile.latency",
            float("inf"),
            "a finite number",
        ),
        ({"churn": {"up": 0, "down": 5}}, "fleet.churn.up", 0, "greater than 0"),
        ({"cyclic": 0}, "fleet.cyclic", 0, "greater than 0"),
        (FLEET | {"edges": [{"device": "phone", "count": 0}]}, "fleet.edges.0.count", 0, "greater than or equal to 1"),
        (
            FLEET | {"edges": [{"device": "phone"}, {"device": "tablet"}]},
            "fleet.edges.1.device",
            "tablet",
            "one of fleet.devices (phone, server)",
        ),
        (
            FLEET | {"edges": [{"device": "phone", "link": "tin-can"}]},
            "fleet.edges.0.link",
            "tin-can",
            "one of fleet.links (mobile, wired)",
        ),
        ({"edges": [{"device": "phone"}]}, "fleet.edges.0.device", "phone", "one of fleet.devices (none is given)"),
        (
            {"devices": {"phone": {"speed": 1}}},
            "fleet.edges",
            [],
            "a list that says which edge has which device and link",
        ),
        (
            {"cyclic": 1.0, "links": LINKS},
            "fleet.links",
            "given",
            "none beside cyclic, in which every step takes the same time",
        ),
    ],
)
def test_a_fault_names_its_place_what_stands_there_and_what_should(
    fleet: dict[str, Any], path: str, value: object, expected: str
) -> None:
    assert str(Fault(path, value, expected)) in faults(**fleet)


def test_every_fault_of_the_places_is_told_at_once() -> None:
    found = faults(**(FLEET | {"edges": [{"device": "a"}, {"device": "phone", "link": "b"}, {"device": "c"}]}))
    assert [text.split(":")[0] for text in found] == [
        "fleet.edges.0.device",
        "fleet.edges.1.link",
        "fleet.edges.2.device",
    ]


def test_a_fleet_in_order_changes_nothing_that_both_halves_agree_on() -> None:
    plain, shaped = experiment(), experiment(**FLEET)
    assert plain.fleet == Fleet()
    assert shaped.digest() == plain.digest()


def test_edges_take_the_places_in_turn() -> None:
    fleet = experiment(**FLEET).fleet
    speeds = [fleet.profile(index, 6).device.speed for index in range(6)]  # type: ignore[union-attr]
    assert speeds == [400, 400, 400, 20000, 400, 400]
    assert [fleet.profile(index, 6).link.latency for index in (0, 3, 4)] == [0.05, 0.002, 0.05]
    assert fleet.places == 4
    assert fleet.describe(6) == ("5 x phone on mobile, 1 x server on wired; away for 10 s after 120 s (means)")


def test_without_a_fleet_there_is_nothing_to_wait_for() -> None:
    profile = Fleet().profile(0, 6)
    assert profile == Profile()
    assert (profile.finish(1e9, 7.0, rng()), profile.passing(rng()), profile.sending(10**9)) == (None, 0.0, 0.0)
    assert Fleet().describe(6) == ""


def test_a_step_takes_overhead_and_records_over_speed() -> None:
    profile = Profile(Device(speed=400, overhead=0.25))
    assert profile.finish(100, 10.0, rng()) == 10.0 + 0.25 + 100 / 400


def test_jitter_spreads_a_step_evenly_and_no_further_than_it_says() -> None:
    profile, dice = Profile(Device(speed=1.0, jitter=0.2)), rng()
    times = np.array([profile.finish(10, 0.0, dice) for _ in range(4000)])
    assert times.min() >= 8.0
    assert times.max() <= 12.0
    assert abs(times.mean() - 10.0) < 0.1
    assert abs(times.std() - 4.0 / np.sqrt(12)) < 0.05
    assert np.array([Profile(Device(speed=1.0)).finish(10, 0.0, dice) for _ in range(10)]).std() == 0, "the control"


def test_loss_costs_the_time_of_repeats() -> None:
    profile, dice = Profile(link=Link(latency=0.1, loss=0.5)), rng()
    times = np.array([profile.passing(dice) for _ in range(4000)])
    tries = (times - 0.1) / RETRY
    assert np.allclose(tries, np.round(tries))
    assert abs(tries.mean() - 1.0) < 0.1, "as many repeats as losses: p/(1-p)"


@pytest.mark.parametrize("count", [1, 2, 5, 1000])
def test_in_a_cycle_every_edge_has_its_own_moment(count: int) -> None:
    fleet = Fleet(cyclic=2.0)
    for index in {0, count // 2, count - 1}:
        profile = fleet.profile(index, count)
        ends = [profile.finish(12, 0.0, rng())]
        assert 1.0 <= ends[0] <= 3.0
        for _ in range(50):
            ends.append(profile.finish(12, ends[-1], rng()))
        assert np.allclose(np.diff(ends), 2.0), "one step in each turn"
        assert np.isclose((ends[-1] - 2.0 * index / count + 1.0) % 2.0, 1.0), "at its own moment"


def test_who_is_a_little_late_or_early_keeps_its_turn() -> None:
    cycle = Cycle(period=1.0, phase=0.25)
    for begin in (999.76, 1000.2, 1000.25, 1000.74):
        assert np.isclose(cycle.finish(begin), 1001.25)
    assert np.isclose(cycle.finish(1000.76), 1002.25), "half a turn late: the next one"


def test_the_cycle_is_described() -> None:
    assert Fleet(cyclic=0.5).describe(3) == "one step of each edge in 0.5 s, in turn"


def test_check_tells_the_fleet_and_the_places_that_nobody_takes() -> None:
    checked = check_experiment(experiment(**FLEET))
    assert "  fleet      5 x phone on mobile, 1 x server on wired; away" in checked.text()
    assert not [text for text in checked.cautions if "fleet" in text]
    many = check_experiment(experiment(**(FLEET | {"edges": [{"device": "phone", "count": 7}]})))
    assert "fleet.edges: places for 7 edges, of which 6 take part" in many.cautions
    assert "fleet" not in check_experiment(experiment()).text()
