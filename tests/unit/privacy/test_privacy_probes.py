"""Probes: the plan is golden, the answer is bounded and noisy as promised."""

from __future__ import annotations

import math

import numpy as np
import pytest

from common.errors import ConfigError, SensitivityError
from common.events import Event
from common.privacy import lattice
from common.privacy.accountant import total
from common.privacy.probes import ProbePlan, answer_std, plan_probes
from common.seeds import stream

EXACT = ProbePlan(Event(mechanism="none"), 4)
NOISY = ProbePlan(Event(mechanism="gaussian", noise_multiplier=12.0, dimension=2), 4)
LOSSES = np.array([0.5, 1.0, 3.0, 0.1])
NORMS = np.array([1.0, 2.0, 3.0, 0.5])


def test_the_plan_is_golden() -> None:
    training, probe = plan_probes(2.0, 12 / 287, 2000, 24, 0.1)
    assert training == pytest.approx(2.08917425, rel=1e-8)
    assert probe == pytest.approx(15.49122055, rel=1e-7)


def test_the_total_stays_where_it_was() -> None:
    def event(noise_multiplier: float, rate: float) -> Event:
        return Event(mechanism="gaussian", noise_multiplier=noise_multiplier, sampling="poisson", sampling_rate=rate)

    training, probe = plan_probes(2.0, 0.04, 1000, 24, 0.1)
    before = total({event(2.0, 0.04): 1000}, 1e-5, "rdp").epsilon
    after = total({event(training, 0.04): 1000, event(probe, 1.0): 24}, 1e-5, "rdp").epsilon
    forgotten = total({event(2.0, 0.04): 1000, event(probe, 1.0): 24}, 1e-5, "rdp").epsilon
    assert before is not None
    assert after == pytest.approx(before, rel=2e-3)
    assert forgotten is not None
    assert forgotten > 1.03 * before


@pytest.mark.parametrize("share", [0.2, 0.99])
def test_without_sampling_the_share_is_exact(share: float) -> None:
    """Renyi budgets are then 1/z^2 each: z grows by 1/sqrt(1 - share)."""
    training, probe = plan_probes(3.0, 1.0, 100, 10, share)
    assert training == pytest.approx(3.0 / math.sqrt(1 - share), rel=1e-8)
    assert (10 / probe**2) / (10 / probe**2 + 100 / training**2) == pytest.approx(share)


@pytest.mark.parametrize("noise_multiplier", [0.05, 100.0])
def test_extreme_noise_can_be_planned_for(noise_multiplier: float) -> None:
    training, probe = plan_probes(noise_multiplier, 0.04, 1000, 24, 0.1)
    assert training > noise_multiplier
    assert 0 < probe < math.inf


def test_every_bad_argument_is_named() -> None:
    with pytest.raises(ConfigError) as caught:
        plan_probes(2.0, 0.1, 0, 0, 1.0, dp_delta=0.0)
    assert [fault.path for fault in caught.value.faults] == [
        "probes: steps",
        "probes: probes",
        "probes: share",
        "privacy.dp_delta",
    ]


def test_an_exact_answer_by_hand() -> None:
    event, (loss, share) = EXACT.answer(LOSSES, NORMS, 2.0, 2.0, stream(1, "probe"))
    assert event == EXACT.event
    assert loss == pytest.approx((0.25 + 0.5 + 1.0 + 0.05) / 4)
    assert share == pytest.approx(0.5 * 3 / 4)


@pytest.mark.parametrize(
    ("loss", "norm", "expected"),
    [(math.nan, math.nan, (1.0, 0.0)), (math.inf, math.inf, (1.0, 0.0)), (-math.inf, -1.0, (0.0, 0.5))],
)
def test_a_record_gone_wild_stays_within_its_bounds(loss: float, norm: float, expected: tuple[float, float]) -> None:
    plan = ProbePlan(Event(mechanism="none"), 1)
    answer = plan.answer(np.array([loss]), np.array([norm]), 2.0, 1.0, stream(1, "probe"))[1]
    assert answer == expected


def test_one_record_moves_the_answer_no_further_than_stated() -> None:
    extremes = [0.0, 2.0, 1e30, -5.0, math.nan, math.inf]
    answers = []
    for loss in extremes:
        for norm in extremes:
            losses, norms = LOSSES.copy(), NORMS.copy()
            losses[0], norms[0] = loss, norm
            answers.append(np.array(EXACT.answer(losses, norms, 2.0, 2.0, stream(1, "probe"))[1]))
    widest = max(float(np.linalg.norm(one - other)) for one in answers for other in answers)
    assert widest == pytest.approx(math.sqrt(1.25) / 4)  # reached, and not passed


def test_the_noise_is_the_one_of_the_event() -> None:
    exact = np.array(EXACT.answer(LOSSES, NORMS, 2.0, 2.0, stream(1, "probe"))[1])
    noise = np.array([NOISY.answer(LOSSES, NORMS, 2.0, 2.0, stream(seed, "probe"))[1] for seed in range(500)]) - exact
    std = answer_std(NOISY.event, 4)
    assert std == pytest.approx(12.0 * math.sqrt(1.25) / 4)
    assert noise.std() == pytest.approx(std, rel=5 / math.sqrt(2000))
    assert abs(noise.mean()) < 5 * std / math.sqrt(1000)
    assert noise.std() != pytest.approx(1.2 * std, rel=5 / math.sqrt(2000))  # control
    assert answer_std(EXACT.event, 4) == 0.0


def test_the_noise_is_on_the_lattice_and_pays_for_it() -> None:
    unit = math.sqrt(1.25) / 4
    grid = 2.0**-29  # 12 units are 3.35, and the grid is 2^-30 of that, rounded down to a power of two
    std = 12.0 * (unit + grid * math.sqrt(2))
    exact = np.array(EXACT.answer(LOSSES, NORMS, 2.0, 2.0, stream(1, "probe"))[1])
    expected = lattice.add(exact, std / grid * stream(1, "probe").standard_normal(2), grid)
    assert list(NOISY.answer(LOSSES, NORMS, 2.0, 2.0, stream(1, "probe"))[1]) == expected.tolist()


def test_the_answer_is_a_matter_of_the_seed() -> None:
    first, again, other = (NOISY.answer(LOSSES, NORMS, 2.0, 2.0, stream(1, name)) for name in ("a", "a", "b"))
    assert first == again != other


def test_what_has_no_bound_is_refused() -> None:
    with pytest.raises(SensitivityError, match=r"losses: shape \(3,\): expected \(4,\)"):
        EXACT.answer(LOSSES[:3], NORMS, 2.0, 2.0, stream(1, "probe"))
    with pytest.raises(SensitivityError, match="norms: shape"):
        EXACT.answer(LOSSES, NORMS[:3], 2.0, 2.0, stream(1, "probe"))
    for cap in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(SensitivityError, match=r"cap: .*: expected finite and positive"):
            EXACT.answer(LOSSES, NORMS, cap, 2.0, stream(1, "probe"))


def test_a_sampled_answer_has_the_noise_of_its_sample() -> None:
    event = Event(mechanism="gaussian", noise_multiplier=12.0, dimension=2, sampling="poisson", sampling_rate=0.25)
    plan = ProbePlan(event, 400)
    assert plan.expected == 100
    assert answer_std(event, 400) == pytest.approx(12.0 * np.sqrt(1.25) / 100)
    nothing = np.zeros(90), np.full(90, np.inf)
    answers = np.array([plan.answer(*nothing, 2.0, 2.0, stream(seed, "probe"))[1] for seed in range(800)])
    assert answers.std() == pytest.approx(answer_std(event, 400), rel=0.08)
    assert answers.std() != pytest.approx(answer_std(event, 200), rel=0.08)  # the control


def test_a_sample_is_drawn_at_the_rate_of_the_event() -> None:
    event = Event(mechanism="gaussian", noise_multiplier=12.0, dimension=2, sampling="poisson", sampling_rate=0.25)
    rng = stream(1, "draws")
    drawn = [ProbePlan(event, 400).draw(rng) for _ in range(300)]
    assert np.mean([indices.size for indices in drawn]) == pytest.approx(100, abs=2.5)
    assert len({indices.size for indices in drawn}) > 10
    assert ProbePlan(Event(mechanism="none"), 5).draw(rng).tolist() == [0, 1, 2, 3, 4]


def test_sampled_answers_are_checked_too() -> None:
    event = Event(mechanism="none", dimension=2, sampling="poisson", sampling_rate=0.5)
    for losses, norms in ((5, 3), (3, 5), (9, 9)):
        with pytest.raises(SensitivityError):
            ProbePlan(event, 8).answer(np.zeros(losses), np.zeros(norms), 2.0, 2.0, stream(1, "probe"))
