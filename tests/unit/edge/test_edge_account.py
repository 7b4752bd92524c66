"""What the edge says of its releases: of this run and, if its ledger outlives the process, of all."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pytest
from edge_talk import EVENT, Talk

from common.errors import LedgerError
from common.events import Event
from common.messages import Stop
from common.node import Halt
from common.privacy.accountant import total


@dataclass
class Remembered:
    """A ledger that outlives the process: of this run, and of all."""

    own: Counter[Event]
    whole: Counter[Event]
    is_simulated: bool = True
    written: list[tuple[Event, int]] = field(default_factory=list)
    fault: LedgerError | None = None

    def booked(self) -> tuple[Counter[Event], Counter[Event]]:
        return self.own, self.whole

    def write(self, event: Event, ticket: int, room: int | None = None) -> None:
        if self.fault is not None:
            raise self.fault
        self.written.append((event, ticket))


def earlier(runs: int, counts: int) -> Remembered:
    """What a ledger holds after `counts` releases in this run and as many in each earlier one."""
    return Remembered(Counter({EVENT: counts}), Counter({EVENT: counts * runs}))


@pytest.mark.parametrize(("runs", "counts"), [(1, 0), (1, 4), (3, 4)])
def test_a_ledger_that_outlives_the_process_goes_on(runs: int, counts: int) -> None:
    store = earlier(runs, counts)
    talk = Talk(store=store)
    assert talk.rows("start") == [{"boot": "b1", "releases": counts, "ledger_releases": counts * runs}]
    talk.model(5)
    talk.probe(6)
    assert [ticket for _, ticket in store.written] == [5, 6]
    talk.hear(Stop(reason="done"))
    bye = talk.bye()
    probe = store.written[1][0]
    assert (bye.releases, bye.ledger_releases) == (counts + 2, counts * runs + 2)
    assert bye.epsilon == total({EVENT: counts + 1, probe: 1}, 1e-5).epsilon
    assert bye.ledger_epsilon == total({EVENT: counts * runs + 1, probe: 1}, 1e-5).epsilon
    assert (bye.ledger_epsilon > bye.epsilon) == (runs > 1)  # type: ignore[operator]


def test_one_that_does_not_claims_nothing_about_other_runs() -> None:
    talk = Talk()
    talk.model(1)
    talk.hear(Stop(reason="done"))
    assert (talk.bye().ledger_releases, talk.bye().ledger_epsilon) == (None, None)


def test_what_cannot_be_added_up_is_said_of_the_ledger_and_not_of_the_run() -> None:
    other = EVENT.model_copy(update={"adjacency": "replace_one"})
    talk = Talk(store=Remembered(Counter(), Counter({other: 3})))
    talk.model(1)
    talk.hear(Stop(reason="done"))
    bye = talk.bye()
    assert bye.epsilon is not None
    assert (bye.ledger_releases, bye.ledger_epsilon) == (4, None)
    assert "since the ledger was begun" in bye.note
    assert "adjacency" in bye.note


def test_what_cannot_be_written_down_is_not_released() -> None:
    store = earlier(1, 0)
    talk = Talk(store=store)
    talk.model(1)
    store.fault = LedgerError("ledger: /x: full")
    talk.model(2)
    assert talk.rows("release") == []
    bye = talk.bye()  # the only message: no update left
    assert (bye.failed, bye.reason, bye.releases) == (True, "ledger: /x: full", 1)
    assert talk.halt() == Halt("ledger: /x: full", 7)


def test_probes_of_earlier_processes_count() -> None:
    """An edge that was killed after its last probe answers no further one, in whichever process."""
    probe = Event(mechanism="gaussian", noise_multiplier=5.0, dimension=2)
    talk = Talk(store=Remembered(Counter({EVENT: 9, probe: 2}), Counter({EVENT: 99, probe: 50})))
    talk.probe(1)
    assert talk.rows("release")
    talk.probe(2)
    assert talk.rows("release") == []
    assert (talk.bye().failed, talk.bye().reason) == (True, "probe 4: expected at most 3")


def test_noise_from_a_seed_in_earlier_runs_is_said() -> None:
    """The edge to talk to draws from a seed itself; here it is as one that does not, with such runs behind it."""
    talk = Talk(store=Remembered(Counter(), Counter({EVENT: 3})))
    learner = talk.node._learner
    for is_simulated in (True, False):
        learner.simulated = is_simulated
        note = talk.node._bye("over", failed=False).note
        assert ("noise of earlier runs came from a seed" in note) is not is_simulated
