"""Totals against published values, exact formulas and the traps of the library below."""

from __future__ import annotations

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting import rdp

from common.errors import UnsupportedEvent
from common.events import Adjacency, Event, Sampling
from common.privacy.accountant import Method, pure_epsilon, total

DP_DELTA = 1e-5


def gaussian(
    noise_multiplier: float, rate: float = 1.0, sampling: Sampling = "poisson", adjacency: Adjacency = "add_remove"
) -> Event:
    return Event(
        mechanism="gaussian",
        noise_multiplier=noise_multiplier,
        sampling=sampling,
        sampling_rate=rate,
        adjacency=adjacency,
    )


def laplace(epsilon: float, rate: float = 1.0, sampling: Sampling = "poisson", add_remove: bool = False) -> Event:
    adjacency: Adjacency = "add_remove" if add_remove else "replace_one"
    return Event(
        mechanism="spherical-laplace", epsilon=epsilon, sampling=sampling, sampling_rate=rate, adjacency=adjacency
    )


def epsilon_of(events: dict[Event, int], method: Method = "pld", dp_delta: float = DP_DELTA) -> float:
    found = total(events, dp_delta, method)
    assert found.epsilon is not None
    return found.epsilon


@pytest.mark.parametrize(
    ("noise_multiplier", "rate", "count", "by_rdp", "by_pld"),
    [
        (4.0, 0.01, 10_000, 1.035, 0.947),
        (1.1, 0.004266666666666667, 14_063, 2.596655529521983, 2.381778812581751),
        (1.0, 0.04, 1_000, 9.297364485826064, 8.49201219574066),
        (2.0, 0.06, 300, 2.588, 2.36),
        (10.0, 1.0, 100, 4.729, 4.377),
        (1.0, 1.0, 1, 4.729, 4.377),
        (0.6, 0.001, 10_000, 3.322, 2.456),
    ],
)
def test_gaussian_totals_are_golden(
    noise_multiplier: float, rate: float, count: int, by_rdp: float, by_pld: float
) -> None:
    events = {gaussian(noise_multiplier, rate): count}
    assert epsilon_of(events, "rdp") == pytest.approx(by_rdp, rel=2e-3)
    assert epsilon_of(events, "pld") == pytest.approx(by_pld, rel=2e-3)
    assert epsilon_of(events, "pld") < epsilon_of(events, "rdp")


@pytest.mark.parametrize(("rate", "count", "fine"), [(1e-4, 100_000, 0.1318750), (1e-5, 1_000_000, 0.0368910)])
def test_a_tiny_rate_is_not_drowned_by_the_grid(rate: float, count: int, fine: float) -> None:
    """Against a grid 30 times finer; the library's default of 1e-4 is above a step's whole loss here."""
    found = epsilon_of({gaussian(1.0, rate): count})
    assert fine * (1 - 1e-4) <= found <= 1.006 * fine


@pytest.mark.parametrize("method", ["pld", "rdp"])
@pytest.mark.parametrize("sampling", ["all", "fixed", "poisson"])
def test_replacing_a_record_moves_the_average_twice_as_far(sampling: Sampling, method: Method) -> None:
    found = epsilon_of({gaussian(2.0, 1.0, sampling, "replace_one"): 1}, method)
    assert found == pytest.approx(4.377178095681137 if method == "pld" else 4.728507067, rel=1e-6)
    assert found > epsilon_of({gaussian(2.0, 1.0, "all"): 1}, method)


def test_the_library_under_reports_replace_one_by_rdp() -> None:
    """Why the accountant never hands it that relation; if this fails, the library has mended it."""
    wrong = rdp.RdpAccountant(neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE)
    wrong.compose(dp_accounting.GaussianDpEvent(2.0))
    assert wrong.get_epsilon(DP_DELTA) < 2.2


def test_sampled_replace_one_by_rdp_is_refused() -> None:
    with pytest.raises(UnsupportedEvent, match="replace_one by RDP: expected method pld"):
        total({gaussian(2.0, 0.1, "poisson", "replace_one"): 5}, DP_DELTA, "rdp")


def test_fixed_batches_claim_no_amplification() -> None:
    fixed = {gaussian(4.0, 0.01, "fixed", "replace_one"): 10}
    assert epsilon_of(fixed) == pytest.approx(epsilon_of({gaussian(2.0, 1.0): 10}), rel=1e-9)


@pytest.mark.parametrize(("noise_multiplier", "rate"), [(1.0, 0.3), (2.0, 0.05)])
def test_sampled_replace_one_agrees_with_quadrature(noise_multiplier: float, rate: float) -> None:
    """One release, against the worst pair itself: the record at +1 or at -1, in the batch with probability q."""
    found = epsilon_of({gaussian(noise_multiplier, rate, "poisson", "replace_one"): 1})
    points = np.linspace(-15 * noise_multiplier, 15 * noise_multiplier, 400_001)

    def density(centre: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        spread = math.sqrt(2 * math.pi) * noise_multiplier
        return np.exp(-(((points - centre) / noise_multiplier) ** 2) / 2) / spread

    def leak(epsilon: float) -> float:
        one = (1 - rate) * density(0.0) + rate * density(1.0)
        other = (1 - rate) * density(0.0) + rate * density(-1.0)
        return float(np.maximum(one - math.exp(epsilon) * other, 0.0).sum() * (points[1] - points[0]))

    assert leak(found) <= DP_DELTA < leak(found * 0.995)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (laplace(0.5, sampling="all"), 0.5),
        (laplace(0.5), 0.5),
        (laplace(0.5, 0.1), math.log1p(0.1 * math.expm1(0.5))),
        (laplace(0.5, 0.1, "fixed"), math.log1p(0.1 * math.expm1(0.5))),
        (laplace(0.5, sampling="all", add_remove=True), 0.25),
        (laplace(0.5, 0.1, add_remove=True), math.log1p(0.1 * math.expm1(0.25))),
        (laplace(0.01, 0.1), 0.001004512017245109),
        (laplace(2000.0, 0.1), 2000.0 + math.log(0.1)),
    ],
)
def test_pure_epsilons(event: Event, expected: float) -> None:
    assert pure_epsilon(event) == pytest.approx(expected, rel=1e-12)
    assert epsilon_of({event: 7}, dp_delta=0.0) == pytest.approx(7 * expected, rel=1e-12)


def test_pure_and_gaussian_releases_add_up() -> None:
    probes = gaussian(30.0, sampling="all", adjacency="replace_one")
    mixed = epsilon_of({laplace(0.5): 3, probes: 4})
    assert mixed == pytest.approx(1.5 + epsilon_of({probes: 4}), rel=1e-12)
    assert epsilon_of({probes: 4}) == pytest.approx(dp_accounting.get_epsilon_gaussian(7.5, DP_DELTA))


def test_releases_with_and_without_sampling_compose() -> None:
    """Training and probes: above each alone, and below their sum."""
    training, probes = {gaussian(2.0, 0.04): 500}, {gaussian(15.0, sampling="all"): 24}
    together = epsilon_of(training | probes)
    assert max(epsilon_of(training), epsilon_of(probes)) < together < epsilon_of(training) + epsilon_of(probes)
    assert together < epsilon_of(training | probes, "rdp")


@pytest.mark.parametrize(
    ("event", "note"),
    [
        (Event(mechanism="none"), "no privacy"),
        (Event(mechanism="none", sampling="replacement"), "no privacy"),
        (Event(mechanism="paper", noise_multiplier=1.0), "dp: not established: the batch average"),
        (Event(mechanism="paper", epsilon=1.0), "exponential"),
        (gaussian(1.0, 0.1, "replacement", "replace_one"), "dp: not established: a batch drawn with replacement"),
        (laplace(1.0, 0.1, "replacement"), "dp: not established: a batch drawn with replacement"),
    ],
)
def test_no_epsilon_is_made_up(event: Event, note: str) -> None:
    for events in ({event: 3}, {event: 3, gaussian(1.0, 0.1): 2}):
        found = total(events, DP_DELTA)
        assert found.epsilon is None
        assert note in found.note


@pytest.mark.parametrize(
    ("events", "dp_delta", "text"),
    [
        ({gaussian(1.0): 1}, 0.0, "dp_delta: 0.0 with Gaussian noise: expected at least 1e-10"),
        ({gaussian(1.0): 1, laplace(1.0, add_remove=True): 1}, 0.0, "with Gaussian noise"),
        ({gaussian(1.0): 1}, 1.0, "dp_delta: 1.0: expected in"),
        ({gaussian(1.0): 1}, -0.1, "dp_delta: -0.1: expected in"),
        ({gaussian(1.0): 1, laplace(1.0): 1}, DP_DELTA, "add_remove and replace_one in one ledger"),
        ({gaussian(1.0, 0.1, "fixed"): 1}, DP_DELTA, "expected replace_one"),
        ({laplace(1.0, 0.1, "fixed", add_remove=True): 1}, DP_DELTA, "expected replace_one"),
        ({Event(mechanism="gaussian"): 1}, DP_DELTA, "noise_multiplier of"),
        ({Event(mechanism="spherical-laplace"): 1}, DP_DELTA, "epsilon of"),
    ],
)
def test_what_cannot_be_accounted_is_refused(events: dict[Event, int], dp_delta: float, text: str) -> None:
    with pytest.raises(UnsupportedEvent, match=text):
        total(events, dp_delta)


def test_nothing_costs_nothing() -> None:
    assert epsilon_of({}) == 0.0
    assert epsilon_of({gaussian(1.0): 0}) == 0.0


def test_hardly_any_noise_still_gets_a_number() -> None:
    assert epsilon_of({gaussian(0.02, 0.05): 100}) > 1000


def test_an_epsilon_beyond_all_numbers_is_not_printed() -> None:
    found = total({laplace(1e6): 10**303}, 0.0)
    assert found.epsilon is None
    assert "beyond what can be computed" in found.note


def test_the_note_says_what_was_counted() -> None:
    assert total({gaussian(1.0): 1}, DP_DELTA).note == "one record added or removed; Gaussian by PLD"
    events = {laplace(0.5): 3, gaussian(30.0, sampling="all", adjacency="replace_one"): 4}
    assert total(events, DP_DELTA, "rdp").note == "one record replaced; Gaussian by RDP + pure sum"
