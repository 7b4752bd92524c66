"""The ledger: charges before releases, and refuses what passes the budget."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pytest

from common.errors import BudgetExhausted, LedgerError
from common.events import Event
from common.privacy import ledger as ledger_module
from common.privacy.accountant import total
from common.privacy.ledger import Budget, Ledger

TRAINING = Event(mechanism="gaussian", noise_multiplier=2.0, sampling="poisson", sampling_rate=0.1)
PROBE = Event(mechanism="gaussian", noise_multiplier=15.0, dimension=2)
WHOLE = Event(mechanism="gaussian", noise_multiplier=8.0)


@dataclass
class Kept:
    """A store in memory; refuses once it is full."""

    own: Counter[Event] = field(default_factory=Counter)
    whole: Counter[Event] = field(default_factory=Counter)
    room: int = 10**9
    is_simulated: bool = False
    written: list[tuple[Event, int]] = field(default_factory=list)

    def booked(self) -> tuple[Counter[Event], Counter[Event]]:
        return self.own, self.whole

    def write(self, event: Event, ticket: int, room: int | None = None) -> None:
        if len(self.written) >= self.room:
            raise LedgerError("disk full")
        self.written.append((event, ticket))


def spend(ledger: Ledger, event: Event, most: int = 100_000) -> int:
    """Charges until the budget is spent; how often it went well."""
    for count in range(most):
        try:
            ledger.charge(event)
        except BudgetExhausted:
            return count
    return most


def test_counts_are_per_event() -> None:
    ledger = Ledger()
    for event in (TRAINING, PROBE, TRAINING.model_copy()):
        ledger.charge(event)
    assert dict(ledger.events) == dict(ledger.held) == {TRAINING: 2, PROBE: 1}
    assert ledger.releases == ledger.held_releases == 3
    assert ledger.total(1e-5) == ledger.held_total(1e-5) == total({TRAINING: 2, PROBE: 1}, 1e-5)
    assert ledger.total(1e-5, "rdp") == total({TRAINING: 2, PROBE: 1}, 1e-5, "rdp")


def test_the_budget_covers_releases_of_every_kind() -> None:
    ledger = Ledger(Budget(max_releases=2))
    ledger.charge(TRAINING)
    ledger.charge(PROBE)
    with pytest.raises(BudgetExhausted, match=r"releases: 3: expected at most 2 \(max_releases\)"):
        ledger.charge(TRAINING)
    assert ledger.releases == 2


def test_the_budget_covers_all_runs_and_the_counts_are_kept_apart() -> None:
    ledger = Ledger(Budget(max_releases=12), Kept(Counter({TRAINING: 2}), Counter({TRAINING: 8, PROBE: 2})))
    assert spend(ledger, PROBE) == 2
    assert dict(ledger.events) == {TRAINING: 2, PROBE: 2}
    assert dict(ledger.held) == {TRAINING: 8, PROBE: 4}
    assert ledger.held_total(1e-5).epsilon > ledger.total(1e-5).epsilon  # type: ignore[operator]


def test_a_charge_is_written_down_before_it_counts() -> None:
    """If writing fails, there is no charge and so no release."""
    store = Kept(room=1)
    ledger = Ledger(store=store)
    ledger.charge(TRAINING, 7)
    with pytest.raises(LedgerError, match="disk full"):
        ledger.charge(PROBE, 8)
    assert dict(ledger.events) == dict(ledger.held) == {TRAINING: 1}
    assert store.written == [(TRAINING, 7)]


@pytest.mark.parametrize("budget", [Budget(max_releases=1), Budget(max_epsilon=1.0)])
def test_a_refused_charge_is_not_written_down(budget: Budget) -> None:
    store = Kept()
    ledger = Ledger(budget, store)
    granted = spend(ledger, WHOLE)
    assert len(store.written) == ledger.releases == granted >= 1


@pytest.mark.parametrize("event", [TRAINING, WHOLE])
@pytest.mark.parametrize("most", [1.0, 2.5])
def test_a_budget_of_epsilon_is_used_up_and_never_passed(event: Event, most: float) -> None:
    ledger = Ledger(Budget(max_epsilon=most))
    granted = spend(ledger, event)
    assert granted > 0
    assert ledger.total(1e-5).epsilon <= most < total({event: granted + 1}, 1e-5).epsilon  # type: ignore[operator]


def test_releases_of_several_kinds_share_the_budget_to_the_last() -> None:
    """What was set aside for one kind is there for the other."""
    ledger = Ledger(Budget(max_epsilon=1.5))
    for _ in range(5):
        ledger.charge(TRAINING)
        ledger.charge(PROBE)
    spend(ledger, WHOLE)
    spend(ledger, PROBE)
    counts = Counter(ledger.held)
    assert ledger.total(1e-5).epsilon <= 1.5  # type: ignore[operator]
    for event in (WHOLE, PROBE):
        assert total(counts + Counter({event: 1}), 1e-5).epsilon > 1.5  # type: ignore[operator]


def test_earlier_runs_leave_less_epsilon() -> None:
    fresh, used = (
        spend(Ledger(Budget(max_epsilon=2.0), Kept(whole=Counter({WHOLE: count}))), WHOLE) for count in (0, 5)
    )
    assert used == fresh - 5


def test_the_accountant_is_asked_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Counter[str] = Counter()

    def watched(counts: Counter[Event], dp_delta: float, method: str = "pld") -> object:
        asked[method] += 1
        return total(counts, dp_delta, method)  # type: ignore[arg-type]

    monkeypatch.setattr(ledger_module, "total", watched)
    granted = spend(Ledger(Budget(max_epsilon=3.0)), TRAINING)
    assert granted > 100
    assert asked["quick"] < granted / 4
    assert 0 < asked["pld"] < granted / 4
    again = Counter(asked)
    granted = spend(Ledger(Budget(max_epsilon=30.0)), TRAINING, 20_000)
    assert granted > 4000
    assert asked["pld"] - again["pld"] < 40  # a budget many times as large: hardly more questions


@pytest.mark.parametrize(
    ("earlier", "event", "why"),
    [
        ({}, Event(mechanism="none"), "no privacy"),
        ({Event(mechanism="none"): 1}, TRAINING, "no privacy"),
        ({TRAINING.model_copy(update={"adjacency": "replace_one"}): 1}, TRAINING, "adjacency"),
    ],
)
def test_what_has_no_epsilon_is_past_every_budget(earlier: dict[Event, int], event: Event, why: str) -> None:
    ledger = Ledger(Budget(max_epsilon=1000.0), Kept(whole=Counter(earlier)))
    with pytest.raises(BudgetExhausted, match=f"epsilon: not known .*{why}.*: expected at most 1000 .*max_epsilon"):
        ledger.charge(event)
    assert ledger.releases == 0


def test_both_budgets_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no more is asked of the accountant than may be released at all."""
    largest = 0

    def watched(counts: Counter[Event], dp_delta: float, method: str = "pld") -> object:
        nonlocal largest
        largest = max(largest, sum(counts.values()))
        return total(counts, dp_delta, method)  # type: ignore[arg-type]

    monkeypatch.setattr(ledger_module, "total", watched)
    assert spend(Ledger(Budget(max_releases=20, max_epsilon=50.0)), WHOLE) == 20
    assert largest == 20
    assert spend(Ledger(Budget(max_releases=2000, max_epsilon=1.0)), WHOLE) == spend(
        Ledger(Budget(max_epsilon=1.0)), WHOLE
    )
