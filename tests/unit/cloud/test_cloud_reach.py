"""How far updates, answers and declared noise may go, and what a node does about those that go further."""

from __future__ import annotations

import math

import numpy as np
import pytest
from cloud_talk import DIGEST, EVENT, LAYOUT, PROBED, Scripted, Talk
from harness import experiment

from cloud.admission import LAST_TICKET, Admission, Form
from cloud.build import AMPLE, build
from cloud.conduct import MOVE, MOVES, REPORTS
from cloud.reach import NATS, Reach, fault_of_answer, fault_of_noise, norm_of
from common.events import Event
from common.messages import Answer, Bye, Directive, Hello, Model, Refusal, Report
from common.privacy.probes import answer_std
from common.tensors import Layout, Tensors

GAUSSIAN = Event(mechanism="gaussian", noise_multiplier=2.0, dimension=2, sampling="all")


def model(clip_norm: float | None, value: float = 0.0, layout: Layout = LAYOUT) -> Model:
    tensors = Tensors(layout, np.full(layout.size, value, dtype=np.float32))
    return Model(ticket=1, version=1, directive=Directive(clip_norm=clip_norm), tensors=tensors)


def test_the_reach_of_gaussian_noise_worked_out_by_hand() -> None:
    # b = 4, C = 8: the average is at most 8 long, the noise has std 2 * 8/4 = 4 on each of 2 coordinates
    expected = 8.0 + 4.0 * (math.sqrt(2.0) + 8.0)
    assert Reach(4).of(GAUSSIAN, 100, model(8.0)) == pytest.approx(1.001 * expected)


def test_the_reach_of_spherical_noise_worked_out_by_hand() -> None:
    event = Event(mechanism="spherical-laplace", epsilon=0.5, dimension=2, sampling="all")
    # scale 2 * 8/4 / 0.5 = 8
    expected = 8.0 + 8.0 * (2.0 + math.sqrt(4 * NATS) + NATS)
    assert Reach(4).of(event, 100, model(8.0)) == pytest.approx(1.001 * expected)


def test_a_poisson_batch_can_be_larger_but_never_than_the_shard() -> None:
    poisson = GAUSSIAN.model_copy(update={"sampling": "poisson"})
    noise = 4.0 * (math.sqrt(2.0) + 8.0)
    assert Reach(4).of(poisson, 6, model(8.0)) == pytest.approx(1.001 * (8.0 * 6 / 4 + noise))
    assert Reach(4).of(poisson, 10**6, model(8.0)) == pytest.approx(1.001 * (8.0 * (4 + 16 + NATS / 3) / 4 + noise))


def test_a_batch_of_all_records_divides_by_their_number() -> None:
    assert Reach(None).of(GAUSSIAN, 16, model(8.0)) == pytest.approx(1.001 * (8.0 + (math.sqrt(2.0) + 8.0)))


def test_the_penalty_pulls_on_the_parameters() -> None:
    bare, pulled = Reach(4).of(GAUSSIAN, 9, model(8.0, 3.0)), Reach(4, l2=0.5).of(GAUSSIAN, 9, model(8.0, 3.0))
    assert bare is not None
    assert pulled == pytest.approx(bare + 1.001 * 0.5 * math.sqrt(18.0))


def test_without_clipping_there_is_no_bound_but_one_that_is_set() -> None:
    assert Reach(4).of(EVENT, 9, model(None)) is None
    assert Reach(4, longest_update=3.0).of(EVENT, 9, model(None)) == 3.0
    assert Reach(4, longest_update=3.0).of(GAUSSIAN, 9, model(8.0)) == 3.0


def test_the_norm_of_a_vector_that_overflows_when_squared() -> None:
    assert norm_of(np.full(4, 1e30, dtype=np.float32)) == pytest.approx(2e30)


@pytest.mark.parametrize(
    ("values", "is_fine"),
    [((0.5, 0.2), True), ((-0.8, 1.3), True), ((1e9, 0.2), False), ((0.5, -1e300), False), ((1.7e308, 0.0), False)],
)
def test_an_answer_is_a_share_and_noise(values: tuple[float, float], is_fine: bool) -> None:
    answer = Answer(ticket=1, version=1, event=PROBED, values=values)
    assert answer_std(PROBED, 10) < 1.0
    assert (fault_of_answer(answer, 10) is None) == is_fine


def test_an_exact_answer_has_no_noise_to_hide_behind() -> None:
    exact = Event(mechanism="none", dimension=2)
    assert fault_of_answer(Answer(ticket=1, version=1, event=exact, values=(1.0, 0.5)), 10) is None
    assert fault_of_answer(Answer(ticket=1, version=1, event=exact, values=(1.1, 0.5)), 10)


def test_an_answer_of_less_than_one_record_is_none() -> None:
    event = PROBED.model_copy(update={"sampling": "poisson", "sampling_rate": 1e-6})
    assert fault_of_answer(Answer(ticket=1, version=1, event=event, values=(0.5, 0.2)), 10)


def test_values_that_would_overflow_are_refused_and_the_run_goes_on() -> None:
    """They once made the controller's loss infinite, which ended the cloud."""
    talk = Talk(Scripted(asks={0: 100.0}))
    talk.hello("edge-0001")
    talk.answer("edge-0001", 1, values=(1.7e308, 1.7e308))
    assert "value" in talk.sent("edge-0001", Refusal)[0].reason
    assert talk.controller.answers == []
    talk.answer("edge-0001", 1)
    assert len(talk.controller.answers) == 1


class Bounded(Talk):
    """A talk about updates with noise."""

    def __init__(self, **settings: object) -> None:
        super().__init__(Scripted(clip_norm=8.0), **settings)
        form = Form("gaussian", "noise_multiplier", ("all",), "add_remove", 2)
        charter, known = self.node._charter, self.node._charter.admission
        admission = Admission(DIGEST, known.edges, form, known.probing, Reach(4), {"noise_multiplier": 3.0})
        self.node._charter = type(charter)(admission, charter.boot, charter.quorum)
        self.hello("edge-0001", event=GAUSSIAN)


def test_an_update_that_no_honest_edge_sends_changes_nothing() -> None:
    talk = Bounded()
    most = Reach(4).of(GAUSSIAN, 10, model(8.0))
    assert most is not None
    talk.update("edge-0001", 1, 1, value=1.001 * most / math.sqrt(2.0), event=GAUSSIAN)
    assert "norm of the update" in talk.sent("edge-0001", Refusal)[0].reason
    assert talk.flat == [0.0, 0.0]
    talk.update("edge-0001", 1, 1, value=0.999 * most / math.sqrt(2.0), event=GAUSSIAN)
    assert talk.sent("edge-0001", Refusal) == []
    assert talk.training.updates == 1


def test_of_two_models_under_one_ticket_the_wider_bound_counts() -> None:
    talk = Bounded()
    talk.controller.clip_norm = 0.001
    talk.now = 5.0
    talk.hello("edge-0001", event=GAUSSIAN)  # impatient: the model again, with what the controller wants now
    assert talk.sent("edge-0001", Model)[0].directive.clip_norm == 0.001
    talk.update("edge-0001", 1, 1, value=5.0, event=GAUSSIAN)
    assert talk.training.updates == 1
    talk.update("edge-0001", 2, 2, value=5.0, event=GAUSSIAN)
    assert talk.training.updates == 1, "the next one is held to the new clip norm"


def test_noise_that_would_slow_down_everybody_is_turned_away() -> None:
    talk = Bounded()
    talk.hello("edge-0002", event=GAUSSIAN.model_copy(update={"noise_multiplier": 3.5}))
    assert "noise_multiplier 3.5: expected at most 3" in talk.rows("refused")[0]["reason"]
    assert fault_of_noise(Event(mechanism="spherical-laplace", epsilon=0.1, dimension=2), {"epsilon": 0.2})
    assert fault_of_noise(GAUSSIAN, {}) is None


def test_what_an_experiment_declares_bounds_the_noise() -> None:
    plan = experiment(privacy={"noise_multiplier": 1.5, "per_edge": {"edge-0002": {"noise_multiplier": 2.0}}})
    assert build(plan, "b").node._charter.admission.noisiest == {"noise_multiplier": 2.0 * AMPLE}
    algorithm = {"name": "mapa", "cloud": {"noisiest": 7.0}}
    assert build(experiment(algorithm=algorithm), "b").node._charter.admission.noisiest == {"noise_multiplier": 7.0}


def test_an_edge_that_comes_and_goes_is_refused_and_heard_again_later() -> None:
    talk, rows = Talk(), 0
    talk.hello("edge-0001")
    for number in range(500):
        talk.hello("edge-0001", boot=f"c{number}")
        rows += len(talk.rows("joined"))
    assert rows == MOVES
    assert "comes and goes" in talk.sent("edge-0001", Refusal)[0].reason
    assert talk.sent("edge-0001", Model) == []
    talk.now = 1000.0
    talk.hello("edge-0001", boot="later")
    assert len(talk.rows("joined")) == 1


def test_byes_over_and_over_fill_no_disk() -> None:
    talk, rows = Talk(), 0
    talk.hello("edge-0001")
    for _ in range(500):
        talk.hear("edge-0001", Bye(reason="x" * 500, releases=0))
        rows += len(talk.rows("bye"))
    assert rows == MOVES + 1
    assert isinstance(talk.sent("edge-0001", Refusal)[0], Refusal)


def test_a_link_that_flaps_fills_no_disk() -> None:
    talk, rows = Talk(), 0
    for _ in range(500):
        talk.hello("edge-0001")
        rows += len(talk.rows("joined"))
        talk.hear("edge-0001", Bye(reason="connection lost"))
        rows += len(talk.rows("left"))
    assert rows <= 2 * MOVES + 4


def test_a_link_that_flaps_between_updates_fills_no_disk_and_costs_no_work() -> None:
    """An update brings an edge back, but only so often; what was refused for that counts when it is said again."""
    talk, ticket = Talk(updates=1000), 1
    talk.hello("edge-0001")
    while not talk.sent("edge-0001", Refusal):
        talk.hear("edge-0001", Bye(reason="connection lost"))
        talk.update("edge-0001", ticket, ticket)
        ticket += len(talk.rows("update"))
    assert ticket == MOVES + 1
    assert talk.rows("joined") == []
    assert talk.flat == [-0.5 * MOVES] * 2
    talk.now = MOVE
    talk.update("edge-0001", ticket, ticket)
    assert len(talk.rows("joined")) == 1
    assert talk.rows("update")[0]["applied"]
    assert [model.ticket for model in talk.sent("edge-0001", Model)] == [ticket + 1]


def test_reports_over_and_over_fill_no_disk() -> None:
    talk, rows = Talk(), 0
    talk.hello("edge-0001")
    for number in range(500):
        talk.hear("edge-0001", Report(iteration=number, metrics={f"m{index}": 1.0 for index in range(32)}))
        rows += len(talk.rows("report"))
    assert rows == REPORTS


def test_the_digest_comes_first() -> None:
    talk = Talk()
    talk.hear("edge-0001", Hello(digest="b" * 64, boot="b", samples=1, event=EVENT))
    assert "digest" in talk.rows("refused")[0]["reason"]


def test_an_edge_that_has_had_the_last_ticket_is_turned_away() -> None:
    """The next one is no number that a message may carry, which once ended the cloud."""
    talk = Talk()
    talk.hello("edge-0001", ticket=2**53)
    assert "ticket" in talk.rows("refused")[0]["reason"]
    talk.hello("edge-0001", ticket=LAST_TICKET)
    assert talk.sent("edge-0001", Model)[0].ticket == LAST_TICKET + 1
