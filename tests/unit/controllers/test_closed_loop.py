"""The closed loop, told what its probes show."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from settings import Script, setting

from cloud.algorithms.mapa import Settings, build
from cloud.closed_loop import ClosedLoop
from cloud.controller import Ask
from common.errors import LocalProtocolError

DOUBLING = {"kind": "doubling", "trials": 6, "stages": 4}


def doubling(probes: int = 24, **search: Any) -> ClosedLoop:
    content = {"clip_factor": 0.7, "gate": 0.3, "margin": 1.0, "visible": 0.02, "search": {**DOUBLING, **search}}
    controller = build(setting(probes=probes), Settings.model_validate(content))
    assert isinstance(controller, ClosedLoop)
    return controller


def secant(probes: int = 24, updates: int = 1000, **search: Any) -> ClosedLoop:
    content = {"search": {"kind": "secant", "segments": 10, "cooldown": 0.0, **search}}
    controller = build(setting(probes=probes, updates=updates), Settings.model_validate(content))
    assert isinstance(controller, ClosedLoop)
    return controller


# (loss, share of norms below the bound); the second looks at the best parameters are the sixth and the tenth
SCRIPT = [
    (2.3, 0.1),
    (2.0, 0.1),
    (1.7, 0.1),
    (1.4, 0.5),
    (2.4, 0.9),
    (1.4, 0.5),
    (1.35, 0.9),
    (1.25, 0.1),
    (1.6, 0.9),
    (1.30, 0.2),
]
GOLDEN = [
    (1.0, 1.0, 66, 0.03165010051),
    (1.0, 2.0, 66, 0.06330020102),
    (1.0, 4.0, 66, 0.126600402),
    (0.7, 8.0, 66, 0.3617154344),
    (0.49, 2.0, 49, 0.4),
    (0.343, 1.68, 98, 0.336),
    (0.343, 1.4112, 196, 0.28224),
    (0.2401, 0.592704, 393, 0.1185408),
]


def test_golden_log_of_the_doubling_search() -> None:
    script = Script(doubling(), SCRIPT)
    script.go(1000)
    np.testing.assert_allclose(script.segments, GOLDEN, rtol=1e-9)
    assert script.rollbacks == [(264, 198), (607, 411)]
    row = script.controller.describe()
    assert (row["best_loss"], row["probes"], row["multiplier"]) == pytest.approx((1.275, 10, 0.592704))
    assert row["clip_norm"] == pytest.approx(0.2401)
    assert [int(ask.flat[0]) for ask in script.asked] == [0, 66, 132, 198, 264, 198, 313, 411, 607, 411]
    assert [ask.bound for ask in script.asked[:5]] == pytest.approx([0.25, 0.7, 0.7, 0.7, 0.49])
    assert {ask.cap for ask in script.asked} == {2.5 * math.log(10)}


def test_a_second_look_saves_from_a_lucky_first_one() -> None:
    script = Script(doubling(), [(2.0, 0.0), (1.0, 0.0), (1.3, 0.0), (1.5, 0.0), (1.2, 0.0)])
    script.go(199)
    assert script.rollbacks == []  # 1.3 is worse than 1.0 alone, not than the mean of 1.0 and 1.5
    assert script.controller.describe()["best_loss"] == pytest.approx(1.2)


def test_a_diverging_start_is_tried_again_from_the_first_parameters() -> None:
    script = Script(doubling(), [(2.3, 0.0), *[(5.7, 0.0), (2.3, 0.0)] * 3, (2.0, 0.0)])
    script.go(264)
    assert script.rollbacks == [(66, 0), (132, 0), (198, 0)]
    assert [segment[1] for segment in script.segments] == [1, 1 / 4, 1 / 16, 1 / 64, 1 / 32]


def test_exploration_that_never_gets_worse_steps_back_once() -> None:
    losses = [(2.3 - 0.3 * trial, 0.0) for trial in range(7)]
    script = Script(doubling(), losses)
    script.go(396)
    assert [segment[1] for segment in script.segments] == [1, 2, 4, 8, 16, 32, 32]
    assert script.segments[-1][2] == 40  # (1000 - 396) / 15


def test_spent_probes_end_the_exploration_and_the_run_goes_on_without() -> None:
    script = Script(doubling(probes=3), [(2.3, 0.0), (2.0, 0.9), (1.8, 0.9)])
    script.go(1000)
    row = script.controller.describe()
    assert row["probes"] == 3
    assert row["clip_norm"] == pytest.approx(0.49)
    assert row["multiplier"] == pytest.approx(2 * 0.84**3)
    assert row["length"] == 428  # the last of four stages over the 802 updates left


def test_without_a_probe_for_the_second_look_the_first_decides() -> None:
    script = Script(doubling(probes=2), [(2.0, 0.0), (2.6, 0.0)])
    script.go(66)
    assert script.rollbacks == [(66, 0)]


def test_a_run_shorter_than_its_exploration() -> None:
    controller = build(setting(updates=2), Settings.model_validate({"search": {"kind": "doubling", "trials": 8}}))
    script = Script(controller, [(2.0, 0.0), (1.0, 0.0)])
    script.go(2)
    assert len(script.asked) == 2  # none after the last update


def test_fast_forward_lowers_a_clip_norm_far_above_the_gradients() -> None:
    shares = [1.0, 1.0, 0.9, 0.1]
    script = Script(secant(), [(2.0 + 0.1 * index, share) for index, share in enumerate(shares)])
    assert script.controller.clip_norm == 1 / 64
    assert [ask.bound for ask in script.asked] == [1 / 4, 1 / 16, 1 / 64, 1 / 256]
    assert script.controller.describe()["best_loss"] == pytest.approx(2.15)
    assert len(Script(secant(), [(2.0, 1.0)] * 8).asked) == 8
    assert len(Script(secant(probes=3), [(2.0, 1.0)] * 3).asked) == 3


def test_parameters_that_overflowed_are_left_without_a_probe() -> None:
    script = Script(secant(), [(2.0, 0.0)])
    controller = script.controller
    script.go(3)  # in mid-segment
    flat = controller.diverged()
    assert flat is not None
    assert flat.tolist() == [0.0, 0.0, 0.0]
    assert controller.stage == 2
    assert controller.describe()["multiplier"] == pytest.approx(20 / 4)


def test_an_overflow_in_the_last_segment_lowers_its_rate() -> None:
    controller = secant(probes=1)
    ask = controller.begin(np.zeros(3, np.float32))
    assert isinstance(ask, Ask)
    controller.answered(2.0, 0.0, 0.0)
    while not controller._search.is_last:
        assert controller.applied(np.ones(3, np.float32)) is None
    before = controller.rate()
    flat = controller.diverged()
    assert flat is not None
    assert flat.tolist() == [0.0, 0.0, 0.0]
    assert controller.rate() < before / 9


@pytest.mark.parametrize("answer", [(math.nan, 0.5), (math.inf, 0.5), (1.0, math.nan)])
def test_an_answer_that_is_no_number_is_a_bug(answer: tuple[float, float]) -> None:
    controller = secant()
    assert isinstance(controller.begin(np.zeros(3, np.float32)), Ask)
    with pytest.raises(LocalProtocolError, match="probe answer"):
        controller.answered(*answer, 0.1)


def test_an_answer_nobody_asked_for_is_a_bug() -> None:
    with pytest.raises(LocalProtocolError, match="none was asked"):
        secant().answered(1.0, 0.5, 0.1)


def test_what_is_asked_is_a_copy() -> None:
    flat = np.zeros(3, np.float32)
    controller = secant(updates=10)
    first = controller.begin(flat)
    controller.answered(2.0, 0.0, 0.1)
    flat[:] = 7
    second = controller.applied(flat)
    flat[:] = 9
    assert first is not None
    assert second is not None
    assert (first.flat[0], second.flat[0]) == (0, 7)


def test_rates_fall_to_zero_over_the_last_part() -> None:
    controller = secant(cooldown=0.5, updates=100)
    rates = []
    controller.begin(np.zeros(3, np.float32))
    controller.answered(2.0, 0.0, 0.1)
    for _ in range(102):
        rates.append(controller.rate())
        if controller.applied(np.zeros(3, np.float32)) is not None:
            controller.answered(2.0, 0.0, 10.0)  # so noisy that nothing follows from it
    assert rates[:51] == [rates[0]] * 51
    assert rates[75] == pytest.approx(rates[0] / 2)
    assert rates[99] == pytest.approx(rates[0] / 50)
    assert rates[101] > 0


def test_a_stage_is_counted_at_each_change() -> None:
    controller = secant()
    assert "best_loss" not in controller.describe()  # nothing is known yet
    controller.begin(np.zeros(3, np.float32))
    assert "best_loss" not in controller.describe()
    script = Script(secant(), [(2.0, 0.0)] * 11)
    assert script.controller.describe()["best_loss"] == 2.0
    assert script.controller.stage == 1
    script.go(300)
    assert script.controller.stage == 4
