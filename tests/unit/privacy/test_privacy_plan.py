"""One release from end to end, by hand and at the edges."""

from __future__ import annotations

import math

import numpy as np
import pytest
from declared import EDGE, declare

from common.errors import ConfigError, RemoteProtocolError, SensitivityError
from common.privacy import lattice
from common.privacy.clipping import clipped_sum
from common.privacy.noise import noise_of
from common.privacy.plan import PrivacyPlan, plan_for
from common.seeds import stream
from common.tensors import Flat

GAUSSIAN = {"mechanism": "gaussian", "noise_multiplier": 2.0}
LAPLACE = {"mechanism": "spherical-laplace", "epsilon": 0.5}
NONE = {"mechanism": "none"}


def plan_of(records: int = 10, rigour: str = "rigorous", **privacy: object) -> PrivacyPlan:
    return plan_for(declare(rigour, **privacy), EDGE, records, 3)


def flat(*values: float) -> Flat:
    return np.array(values, dtype=np.float32)


def test_the_release_is_average_plus_noise_on_the_lattice() -> None:
    plan = plan_of(**GAUSSIAN)
    bounded = plan.bound(flat(1.0, -2.0, 0.5), 2.0)
    assert bounded.average.tolist() == [0.25, -0.5, 0.125]
    assert (bounded.clip_norm, bounded.sensitivity) == (2.0, 1.0)
    release = plan.perturb(bounded, stream(3, "noise"))
    unit = 0.5 * (1 + 2 * 10 * 12 * 2.0**-53)  # clip_norm / batch_size, and what rounding a sum of ten adds
    grid = 2.0**-30  # of a noise std of 1
    std = 2.0 * (unit + grid * math.sqrt(3))
    expected = lattice.add(bounded.average, std / grid * stream(3, "noise").standard_normal(3), grid)
    assert release.flat.tolist() == expected.astype(np.float32).tolist()
    assert release.event == plan.event


@pytest.mark.parametrize(
    "privacy",
    [{"mechanism": "gaussian", "noise_multiplier": 2.0**19}, {"mechanism": "spherical-laplace", "epsilon": 2.0**-18}],
)
def test_the_noise_pays_for_the_lattice(privacy: dict[str, object]) -> None:
    """With noise this strong the grid is 2^-11 of what one record can do, so the noise grows by that times sqrt(3)."""
    plan = plan_of(**privacy)
    zero = plan.perturb(plan.bound(flat(0.0, 0.0, 0.0), 2.0), stream(3, "noise")).flat
    noise = noise_of(plan.event)
    assert noise is not None
    expected = noise.draw(3, noise.scale(0.5) * (1 + math.sqrt(3) * 2.0**-11), stream(3, "noise"))
    assert zero == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("sampling", ["all", "poisson"])
@pytest.mark.parametrize(
    "privacy",
    [{"mechanism": "gaussian", "noise_multiplier": 1e-6}, {"mechanism": "spherical-laplace", "epsilon": 1e6}],
)
def test_whether_a_release_is_made_does_not_depend_on_the_records(privacy: dict[str, object], sampling: str) -> None:
    """Not even where there is next to no noise: all records alike make the longest average that there can be."""
    plan = plan_of(records=100_000, sampling=sampling, **privacy)
    for share in (0.0, 1.0):
        total = flat(0.0, 0.0, share * 2.0 * 100_000)
        released = plan.perturb(plan.bound(total, 2.0), stream(3, "noise")).flat
        assert np.isfinite(released).all()


@pytest.mark.parametrize("privacy", [GAUSSIAN, LAPLACE])
def test_an_empty_batch_and_one_without_a_finite_gradient_are_pure_noise(privacy: dict[str, object]) -> None:
    plan = plan_of(**privacy)
    empty, broken = np.empty((0, 3)), np.full((5, 3), np.nan)
    noises = [
        plan.perturb(plan.bound(clipped_sum(rows, 1.0).astype(np.float32), 1.0), stream(3, "noise")).flat.tolist()
        for rows in (empty, broken)
    ]
    pure = plan.perturb(plan.bound(flat(0.0, 0.0, 0.0), 1.0), stream(3, "noise")).flat.tolist()
    assert noises == [pure, pure]
    assert any(pure)


def test_the_bounded_average_is_not_written_to() -> None:
    plan = plan_of(**GAUSSIAN)
    total = flat(1.0, 0.0, 0.0)
    bounded = plan.bound(total, 1.0)
    plan.perturb(bounded, stream(3, "noise"))
    assert bounded.average.tolist() == [0.25, 0.0, 0.0]
    assert total.tolist() == [1.0, 0.0, 0.0]


def test_without_privacy_the_average_leaves_as_it_is() -> None:
    plan = plan_of(**NONE)
    release = plan.perturb(plan.bound(flat(400.0, 0.0, -4.0), None), stream(3, "noise"))
    assert release.flat.tolist() == [100.0, 0.0, -1.0]
    assert (plan.private, plan.clip_each, release.event.mechanism) == (False, False, "none")
    plan.accept(None)


@pytest.mark.parametrize("privacy", [GAUSSIAN, LAPLACE])
def test_the_literal_reading_clips_the_average(privacy: dict[str, object]) -> None:
    """And one record turns it around: 2C apart, not 2C/b."""
    plan = plan_of(rigour="paper", **privacy)
    assert (plan.private, plan.clip_each, plan.event.mechanism) == (True, False, "paper")
    one, other = (plan.bound(flat(sign * 1e6, 0.0, 0.0), 1.0) for sign in (1.0, -1.0))
    assert one.average.tolist() == [1.0, 0.0, 0.0]
    assert np.linalg.norm(one.average - other.average) == pytest.approx(2.0)
    assert one.sensitivity == 0.5  # what the paper claims


@pytest.mark.parametrize("clip_norm", [None, 0.0, -1.0, math.inf, math.nan, 1e-30, 1e30, 2.5])
def test_a_clip_norm_that_no_edge_should_follow_is_refused(clip_norm: float | None) -> None:
    plan = plan_of(**GAUSSIAN, clip_norm_ceiling=2.0)
    for ask in (lambda: plan.accept(clip_norm), lambda: plan.bound(flat(0.0, 0.0, 0.0), clip_norm)):
        with pytest.raises(RemoteProtocolError, match=r"clip_norm: .*: expected (a number from|at most 2\.0 \(ceil)"):
            ask()
    plan.accept(2.0)


@pytest.mark.parametrize(
    ("total", "text"),
    [
        (flat(math.nan, 0.0, 0.0), "not finite"),
        (flat(math.inf, 0.0, 0.0), "not finite"),
        (flat(0.0, 0.0), r"shape \(2,\): expected \(3,\)"),
        (flat(11.0, 0.0, 0.0), "longer than possible: expected at most 2.5025$"),
    ],
)
def test_a_sum_that_cannot_be_right_is_refused(total: Flat, text: str) -> None:
    with pytest.raises(SensitivityError, match=text):
        plan_of(**GAUSSIAN).bound(total, 1.0)


def test_the_text_of_a_refusal_tells_nothing_about_the_sum() -> None:
    texts = set()
    for length in (11.0, 12345.0):
        with pytest.raises(SensitivityError) as caught:
            plan_of(**GAUSSIAN).bound(flat(length, 0.0, 0.0), 1.0)
        texts.add(str(caught.value))
    assert len(texts) == 1


def test_the_allowance_covers_the_rounding_of_a_sum() -> None:
    """All gradients point the same way: one more moves the rounded sum by more than its norm."""
    records, moved = 12_000, 0.0
    for clip_norm in np.linspace(1.0, 1.01, 100):
        sums = np.cumsum(np.full(records, clip_norm))
        moved = max(moved, float(np.diff(sums).max()) / clip_norm)
    assert 1 < moved <= 1 + plan_of(records, sampling="all", **GAUSSIAN).rounding_allowance
    narrow = np.cumsum(np.full(records, 1.01, dtype=np.float32), dtype=np.float32)  # the control: sums in float32
    assert np.diff(narrow.astype(np.float64)).max() / 1.01 > 1 + plan_of(records, **GAUSSIAN).rounding_allowance


@pytest.mark.parametrize("privacy", [GAUSSIAN, LAPLACE])
def test_the_noise_pays_for_the_rounding_of_the_sum(privacy: dict[str, object]) -> None:
    """With ten million records in a batch it is two percent."""
    records = 10**7
    plan = plan_for(declare(sampling="all", **privacy), EDGE, records, 3)
    noise = noise_of(plan.event)
    assert noise is not None
    ideal = noise.draw(3, noise.scale(1 / records), stream(3, "noise"))
    paid = plan.perturb(plan.bound(flat(0.0, 0.0, 0.0), 1.0), stream(3, "noise")).flat / ideal
    assert paid == pytest.approx(np.full(3, 1 + 2e14 * 2.0**-53), rel=1e-6)


def test_the_allowance_follows_the_largest_batch() -> None:
    def allowance(records: int, rigour: str = "rigorous", **privacy: object) -> float:
        return plan_of(records, rigour, **privacy).rounding_allowance * 2**53

    assert allowance(12_000, sampling="all", **GAUSSIAN) == pytest.approx(2 * 12_000 * 12_002)
    assert allowance(12_000, sampling="fixed", **GAUSSIAN) == pytest.approx(2 * 4 * 6)
    assert allowance(12_000, **GAUSSIAN) == pytest.approx(2 * 12_000 * 12_002)
    assert allowance(12_000, "paper", **GAUSSIAN) == 0
    assert allowance(12_000, **NONE) == 0


def test_a_sum_over_a_batch_of_fixed_size_is_shorter() -> None:
    plan = plan_of(**GAUSSIAN, sampling="fixed")
    plan.bound(flat(4.0, 0.0, 0.0), 1.0)
    with pytest.raises(SensitivityError, match=r"expected at most 1\.001"):
        plan.bound(flat(4.1, 0.0, 0.0), 1.0)


@pytest.mark.parametrize(
    ("sampling", "rate", "batch_size"),
    [("poisson", 0.4, 4), ("fixed", 0.4, 4), ("replacement", 0.4, 4), ("all", 1.0, 10)],
)
def test_the_batch_is_the_one_of_the_event(sampling: str, rate: float, batch_size: int) -> None:
    plan = plan_of(**GAUSSIAN, sampling=sampling)
    assert (plan.event.sampling, plan.sampling_rate, plan.batch_size) == (sampling, rate, batch_size)
    indices = plan.draw(stream(1, "batch"))
    assert indices.dtype == np.int64
    assert set(indices.tolist()) <= set(range(10))
    if sampling != "poisson":
        assert indices.size == batch_size


def test_another_noise_multiplier() -> None:
    plan = plan_of(**GAUSSIAN, noise_multiplier_floor=1.5)
    assert plan.with_noise_multiplier(3.0).event.noise_multiplier == 3.0
    for bad in (1.0, 0.0, 1.1e6, math.nan, math.inf):
        with pytest.raises(ConfigError, match=r"expected from 1e-06 to 1e\+06 and at least the floor, 1\.5"):
            plan.with_noise_multiplier(bad)
    with pytest.raises(ConfigError, match="expected gaussian, to set a noise multiplier"):
        plan_of(**LAPLACE).with_noise_multiplier(3.0)


def test_probes_are_paid_by_noisier_training() -> None:
    plan = plan_for(declare(batch_size=12, **GAUSSIAN), EDGE, 287, 650)
    noisier, probes = plan.with_probes(2000, 24, 0.1)
    assert noisier.event.noise_multiplier == pytest.approx(2.08917425)
    assert probes.event.noise_multiplier == pytest.approx(15.49122055)
    assert (probes.event.sampling, probes.event.adjacency, probes.records) == ("all", "add_remove", 287)


def test_probes_beside_other_mechanisms() -> None:
    plan, probes = plan_of(**LAPLACE).with_probes(2000, 24, 0.1)
    assert plan == plan_of(**LAPLACE)
    assert (probes.event.mechanism, probes.event.noise_multiplier) == ("gaussian", 15.0)
    assert probes.event.adjacency == "replace_one"
    assert plan_of(**NONE, dp_delta=0.0).with_probes(2000, 24, 0.1)[1].event.mechanism == "none"
    with pytest.raises(ConfigError, match=r"privacy\.dp_delta: 0\.0: expected between 0 and 1"):
        plan_of(**LAPLACE, dp_delta=0.0).with_probes(2000, 24, 0.1)


@pytest.mark.parametrize("sampling", ["fixed", "all"])
def test_without_amplification_probes_are_planned_without_it(sampling: str) -> None:
    plan, _ = plan_of(**GAUSSIAN, sampling=sampling).with_probes(100, 10, 0.2)
    assert plan.event.noise_multiplier == pytest.approx(2.0 / math.sqrt(0.8))


def test_probes_of_a_large_shard_look_at_a_sample() -> None:
    plan = plan_of(**GAUSSIAN)
    _, whole = plan.with_probes(2000, 24, 0.1, sample=plan.records)
    _, part = plan.with_probes(2000, 24, 0.1, sample=plan.records // 4)
    assert (whole.event.sampling, whole.event.sampling_rate) == ("all", 1.0)
    assert part.event.sampling == "poisson"
    assert part.expected == plan.records // 4
    assert part.event.noise_multiplier == whole.event.noise_multiplier
