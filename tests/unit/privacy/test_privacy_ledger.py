"""The ledger: charges before releases, and refuses what passes the budget."""

from __future__ import annotations

import pytest

from common.errors import BudgetExhausted
from common.events import Event
from common.privacy.accountant import total
from common.privacy.ledger import Ledger

TRAINING = Event(mechanism="gaussian", noise_multiplier=2.0, sampling="poisson", sampling_rate=0.1)
PROBE = Event(mechanism="gaussian", noise_multiplier=15.0, dimension=2)


def test_counts_are_per_event() -> None:
    ledger = Ledger()
    for event in (TRAINING, PROBE, TRAINING.model_copy()):
        ledger.charge(event)
    assert dict(ledger.events) == {TRAINING: 2, PROBE: 1}
    assert ledger.releases == 3
    assert ledger.total(1e-5) == total({TRAINING: 2, PROBE: 1}, 1e-5)
    assert ledger.total(1e-5, "rdp") == total({TRAINING: 2, PROBE: 1}, 1e-5, "rdp")


def test_the_budget_covers_releases_of_every_kind() -> None:
    ledger = Ledger(max_releases=2)
    ledger.charge(TRAINING)
    ledger.charge(PROBE)
    with pytest.raises(BudgetExhausted, match=r"releases: 3: expected at most 2 \(max_releases\)"):
        ledger.charge(TRAINING)
    assert ledger.releases == 2


def test_an_earlier_life_counts() -> None:
    ledger = Ledger(max_releases=3, booked={TRAINING: 2})
    ledger.charge(TRAINING)
    assert dict(ledger.events) == {TRAINING: 3}
    with pytest.raises(BudgetExhausted):
        ledger.charge(PROBE)


def test_a_charge_is_written_down_before_it_counts() -> None:
    """If writing fails, there is no charge and so no release."""
    written: list[Event] = []

    def write(event: Event) -> None:
        if len(written) == 1:
            raise OSError("disk full")
        written.append(event)

    ledger = Ledger(write=write)
    ledger.charge(TRAINING)
    with pytest.raises(OSError, match="disk full"):
        ledger.charge(PROBE)
    assert dict(ledger.events) == {TRAINING: 1}
    assert written == [TRAINING]


def test_a_refused_charge_is_not_written_down() -> None:
    written: list[Event] = []
    ledger = Ledger(max_releases=1, write=written.append)
    ledger.charge(TRAINING)
    with pytest.raises(BudgetExhausted):
        ledger.charge(TRAINING)
    assert written == [TRAINING]
