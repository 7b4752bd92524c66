"""Controllers that ask no probes know of no parameters that were good: an overflow ends their run."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from cloud_talk import Talk

from cloud.algorithms.controllers import NoisySettings, PlainSettings, build_asgd, build_audp, build_csgd
from cloud.algorithms.mapa import Settings, build
from cloud.controller import Controller, Setting

PUBLIC = Setting(
    updates=1000,
    edges=5,
    batch_size=12,
    dimension=2,
    kappa=2.0,
    staleness=4,
    smoothness=0.5,
    gap=1.0,
    clip_norm=1.0,
)
CONTROLLERS: dict[str, Callable[[], Controller]] = {
    "csgd": lambda: build_csgd(PUBLIC, PlainSettings()),
    "asgd": lambda: build_asgd(PUBLIC, PlainSettings()),
    "audp": lambda: build_audp(PUBLIC, NoisySettings()),
    "literal": lambda: build(PUBLIC, Settings(controller="literal")),
    "budgeted": lambda: build(PUBLIC, Settings(controller="budgeted")),
}


@pytest.mark.parametrize("name", sorted(CONTROLLERS))
def test_an_overflow_ends_the_run(name: str) -> None:
    talk = Talk(CONTROLLERS[name]())  # type: ignore[arg-type]
    talk.hello("edge-0001")
    talk.update("edge-0001", 1, 1, value=3e38)
    (end,) = talk.rows("end")
    assert end["failed"] is True
    assert end["reason"].startswith("diverged: the parameters overflow at update 1")
