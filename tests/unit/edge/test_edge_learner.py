"""From records to a release, with numbers worked out by hand, and what is refused."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest

from common.errors import BudgetExhausted, RemoteProtocolError
from common.events import Event
from common.experiment import ModelChoice
from common.models import build_model
from common.privacy.ledger import Budget, Ledger
from common.privacy.plan import PrivacyPlan
from common.privacy.probes import ProbePlan
from common.seeds import stream
from edge.learner import CHUNK, Learner, Probes, Randomness, Shard

MODEL = build_model(ModelChoice(name="softmax"), (4,), 3)
SIZE = MODEL.layout.size


def shard(records: int = 40) -> Shard:
    rng = np.random.default_rng(5)
    inputs = rng.normal(size=(records, 4)).astype(np.float32)
    return Shard(MODEL.prepare(inputs, 1.0), rng.integers(3, size=records))


def learner(mechanism: str = "gaussian", records: int = 40, **changes: Any) -> Learner:
    noise = {"gaussian": {"noise_multiplier": 1.0}, "spherical-laplace": {"epsilon": 1.0}, "none": {}}[mechanism]
    event = Event(
        mechanism=mechanism, dimension=SIZE, sampling="all", sampling_rate=1.0, adjacency="replace_one", **noise
    )
    options: dict[str, Any] = {"probes": None, "l2": 0.0, "most": None, "store": None, "seed": 1} | changes
    return Learner(
        MODEL,
        shard(records),
        PrivacyPlan(event, records, records),
        Ledger(Budget(options["most"]), options["store"]),
        Randomness(stream(options["seed"], "sampling"), stream(options["seed"], "noise")),
        probes=options["probes"],
        l2=options["l2"],
    )


FLAT = np.linspace(-1, 1, SIZE, dtype=np.float32)


def test_without_privacy_it_is_the_plain_average() -> None:
    data = shard()
    flat, event = learner("none").gradient(FLAT, None)
    expected = MODEL.gradient_sum(FLAT, data.inputs, data.labels) / 40
    assert event.mechanism == "none"
    np.testing.assert_allclose(flat, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("mechanism", ["gaussian", "spherical-laplace"])
def test_the_noise_is_around_the_clipped_average(mechanism: str) -> None:
    data, clip_norm = shard(), 0.1
    expected = MODEL.clipped_sum(FLAT, data.inputs, data.labels, clip_norm) / 40
    one = learner(mechanism)
    draws = np.stack([one.gradient(FLAT, clip_norm)[0] for _ in range(400)])
    error = draws.std() / np.sqrt(400)
    assert np.abs(draws.mean(axis=0) - expected).max() < 5 * error
    assert np.abs(draws.mean(axis=0) - 2 * expected).max() > 5 * error  # the control: another average is told apart


def test_l2_is_added_after_the_noise() -> None:
    plain, _ = learner().gradient(FLAT, 1.0)
    regularised, _ = learner(l2=0.5).gradient(FLAT, 1.0)
    np.testing.assert_allclose(regularised - plain, 0.5 * FLAT, rtol=1e-5, atol=1e-6)


def test_the_same_seed_gives_the_same_release_and_another_does_not() -> None:
    first, again, other = (learner(seed=seed).gradient(FLAT, 1.0)[0] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_two_releases_have_different_noise() -> None:
    one = learner()
    assert not np.array_equal(one.gradient(FLAT, 1.0)[0], one.gradient(FLAT, 1.0)[0])


def test_every_release_is_booked_before_it_is_made() -> None:
    one = learner(most=2)
    one.gradient(FLAT, 1.0)
    one.gradient(FLAT, 1.0)
    drawn = deepcopy(one._noise)
    with pytest.raises(BudgetExhausted):
        one.gradient(FLAT, 1.0)
    assert one.ledger.releases == 2
    assert one._noise.normal() == drawn.normal()  # nothing was drawn for a release that was not made


@pytest.mark.parametrize("clip_norm", [None, 0.0, -1.0, float("nan"), float("inf")])
def test_a_clip_norm_that_bounds_nothing_is_refused(clip_norm: float | None) -> None:
    one = learner()
    with pytest.raises(RemoteProtocolError, match="clip_norm"):
        one.gradient(FLAT, clip_norm)
    assert one.ledger.releases == 0


def test_the_parameters_are_not_written_to() -> None:
    flat = FLAT.copy()
    flat.flags.writeable = False
    learner(l2=0.1).gradient(flat, 1.0)


def exact(records: int, most: int = 3) -> Probes:
    return Probes(ProbePlan(Event(mechanism="none", dimension=2), records), most)


@pytest.mark.parametrize("records", [1, 40, CHUNK, CHUNK + 1])
def test_a_probe_goes_through_all_records(records: int) -> None:
    data = shard(records)
    one = learner(records=records, probes=exact(records))
    event, (loss, share) = one.look(FLAT, 2.0, 0.8)
    losses, norms = MODEL.losses(FLAT, data.inputs, data.labels), MODEL.norms(FLAT, data.inputs, data.labels)
    assert event.mechanism == "none"
    assert loss == pytest.approx(np.minimum(losses, 2.0).mean() / 2.0)
    assert share == pytest.approx(0.5 * (norms <= 0.8).mean())
    assert one.ledger.releases == 1


def test_no_more_probes_than_were_set_aside() -> None:
    one = learner(probes=exact(40, most=1))
    one.look(FLAT, 1.0, 1.0)
    with pytest.raises(RemoteProtocolError, match="at most 1"):
        one.look(FLAT, 1.0, 1.0)
    with pytest.raises(RemoteProtocolError, match="at most 0"):
        learner().look(FLAT, 1.0, 1.0)
    assert one.ledger.releases == 1


def test_updates_of_a_model_as_small_as_an_answer_are_no_probes() -> None:
    """With two parameters an update looks like the answer to a probe, which has two numbers."""
    model = build_model(ModelChoice(name="logistic"), (1,), 2)
    data = Shard(model.prepare(np.linspace(-1, 1, 40, dtype=np.float32)[:, np.newaxis], 1.0), np.arange(40) % 2)
    assert model.layout.size == 2
    event = Event(mechanism="gaussian", noise_multiplier=1.0, dimension=2, adjacency="replace_one")
    randomness = Randomness(stream(1, "sampling"), stream(1, "noise"))
    one = Learner(model, data, PrivacyPlan(event, 40, 40), Ledger(), randomness, probes=exact(40, most=1))
    flat = model.layout.zeros().astype(np.float32)
    for _ in range(3):
        one.gradient(flat, 1.0)
    one.look(flat, 1.0, 1.0)
    with pytest.raises(RemoteProtocolError, match="at most 1"):
        one.look(flat, 1.0, 1.0)


def test_a_probe_of_a_sample_is_unbiased_and_its_divisor_is_public() -> None:
    records, sample = 400, 40
    data = shard(records)
    event = Event(mechanism="none", dimension=2, sampling="poisson", sampling_rate=sample / records)
    one = learner(records=records, probes=Probes(ProbePlan(event, records), 1000))
    answers = np.array([one.look(FLAT, 2.0, 0.8)[1] for _ in range(600)])
    losses, norms = MODEL.losses(FLAT, data.inputs, data.labels), MODEL.norms(FLAT, data.inputs, data.labels)
    exact = np.array([np.minimum(losses, 2.0).mean() / 2.0, 0.5 * (norms <= 0.8).mean()])
    error = answers.std(axis=0) / np.sqrt(600)
    assert (np.abs(answers.mean(axis=0) - exact) < 5 * error).all()
    assert (np.abs(answers.mean(axis=0) - 1.1 * exact) > 5 * error).all()  # the control
    assert len(np.unique(answers[:, 0])) > 500


def test_a_probe_of_an_empty_sample_is_an_answer() -> None:
    event = Event(mechanism="none", dimension=2, sampling="poisson", sampling_rate=1 / 40)
    one = learner(probes=Probes(ProbePlan(event, 40), 200))
    answers = [one.look(FLAT, 2.0, 0.8)[1] for _ in range(60)]
    assert (0.0, 0.0) in answers
