"""Grids of settings: what is read, what is refused, and names that are files."""

from __future__ import annotations

from typing import Any

import pytest

from common.errors import ConfigError
from common.experiment import overridden
from lab.grid import LONGEST, MOST, grid_of, read_grid

CONTENT: dict[str, Any] = {
    "name": "g",
    "data": {"name": "digits"},
    "model": {"name": "softmax"},
    "algorithm": {"name": "audp"},
    "stop": {"updates": 1},
}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a.b=1,2.5,x", (1, 2.5, "x")),
        ("a.b=1", (1,)),
        ("a.b=null,true", (None, True)),
        ("a.b=[1, 2]", (1, 2)),
        ("a.b=[[1, 2], [3]]", ([1, 2], [3])),
        ("a.b={kind: iid},{kind: shards}", ({"kind": "iid"}, {"kind": "shards"})),
        ("a.b='x,y',z", ("x,y", "z")),
        ("a.b=1=2", ("1=2",)),
    ],
)
def test_values_are_yaml(text: str, values: tuple[Any, ...]) -> None:
    assert read_grid([text]).axes == (("a.b", values),)


@pytest.mark.parametrize(
    ("texts", "clue"),
    [
        (["a.b"], "'a.b': expected key.path=value,value"),
        (["=1,2"], "'=1,2': expected key.path=value,value"),
        (["a.b="], "'a.b=': expected key.path=value,value"),
        (["a.b= "], "--grid a.b: []: expected different values, at least one"),
        (["a.b=1,,2"], "--grid a.b: '1,,2': expected YAML values"),
        (["a.b=1,2]"], "--grid a.b: '1,2]': expected YAML values"),
        (["a.b={x"], "--grid a.b: '{x': expected YAML values"),
        (["a.b=1,2,1"], "--grid a.b: [1, 2, 1]: expected different values"),
        (["a.b=1,'1'"], "expected different values"),
        (["a.b=1,2,2.0"], "--grid a.b: [1, 2, 2.0]: expected different values"),
        (["a.b=1,2", "a.c=1", "a.b=3"], "--grid: 'a.b': expected each key once"),
        (["a.b=x/y,x:y"], "expected values that still differ as names of files"),
        (["a.b=x,X"], "expected values that still differ as names of files"),
        ([f"a.{key}={','.join(map(str, range(50)))}" for key in "bcd"], f"--grid: 125000: expected at most {MOST}"),
    ],
)
def test_what_is_no_grid_is_refused(texts: list[str], clue: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_grid(texts)
    assert clue in str(caught.value)


def test_the_last_axis_turns_fastest_and_seeds_come_last() -> None:
    grid = grid_of({"stop.updates": [5, 6]}, seeds=[1, 2])
    assert grid.size == 4
    assert grid.keys == ["stop.updates", "seed"]
    assert [point.name for point in grid.points()] == [
        "updates=5,seed=1",
        "updates=5,seed=2",
        "updates=6,seed=1",
        "updates=6,seed=2",
    ]


@pytest.mark.parametrize("value", [3, 2.0, 1e-05, 1e20, True, None, "x", "1", "a: b", [1, 2], {"radius": 30.0}])
def test_an_override_says_what_was_meant(value: Any) -> None:
    (point,) = grid_of({"algorithm.cloud.x": [value]}).points()
    found = overridden(CONTENT, point.overrides).algorithm.cloud["x"]
    assert found == value
    assert type(found) is type(value)


def test_no_axis_is_one_point() -> None:
    grid = read_grid([])
    (point,) = grid.points()
    assert (grid.size, point.name, point.overrides) == (1, "only", ())


def test_a_name_is_a_file_of_one_folder_whatever_keys_and_values_are() -> None:
    grid = read_grid(["../../etc=1,2", "a./b='/root','..'"])
    for point in grid.points():
        assert "/" not in point.name
        assert point.name not in (".", "..")
    many = grid_of({f"a.{'k' * 40}{number}": [number, "v" * 55] for number in range(5)})
    names = {point.name for point in many.points()}
    assert len(names) == 32
    assert max(map(len, names)) == LONGEST
