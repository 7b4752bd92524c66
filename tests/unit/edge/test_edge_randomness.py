"""Where an edge's batches and noise come from, what it says about that, and that keys stay where they are."""

from __future__ import annotations

import base64
from collections.abc import Iterable

import numpy as np
import pytest
import yaml
from harness import Pump, experiment, federate, join, settings_for
from reference.ciphers import key_of

from cloud.summary import summarise
from common.events import Event
from common.node import CLOUD
from common.records import line_of
from common.wire import Envelope, encode
from edge.build import build
from edge.learner import Learner

EDGE = "edge-0001"


def learner(boot: str = "b1", **changes: object) -> Learner:
    return build(experiment(**changes), EDGE, boot).node._learner


def noise_and_batches(one: Learner) -> tuple[list[float], list[list[int]]]:
    flat = np.zeros(650, dtype=np.float32)
    batches = [one.plan.draw(one._sampling).tolist() for _ in range(3)]
    return one.gradient(flat, 1.0)[0].tolist(), batches


def test_secure_noise_and_batches_never_come_again() -> None:
    first, again = (learner(privacy__randomness="secure") for _ in range(2))
    noise, batches = noise_and_batches(first)
    other_noise, other_batches = noise_and_batches(again)
    assert len(set(noise) & set(other_noise)) < 20  # of 650 float32 numbers a few may agree by chance
    assert batches != other_batches
    assert (first.simulated, again.simulated) == (False, False)


def test_reproducible_noise_and_batches_come_again_in_the_same_process_only() -> None:
    first, again, other = (learner(boot) for boot in ("b1", "b1", "b2"))
    assert noise_and_batches(first) == noise_and_batches(again)
    assert noise_and_batches(first) != noise_and_batches(other)
    assert first.simulated


def test_no_generator_of_any_edge_shares_a_key_with_another() -> None:
    plan = experiment(privacy__randomness="secure")
    learners = [build(plan, edge, "b1").node._learner for edge in (EDGE, EDGE, "edge-0002", "edge-0003")]
    keys = {key_of(generator) for one in learners for generator in (one._sampling, one._noise)}
    assert len(keys) == 8


def test_the_default_is_secure() -> None:
    content = experiment().model_dump(mode="json")
    del content["privacy"]["randomness"]
    assert type(experiment()).model_validate(content, strict=False).privacy.randomness == "secure"


def test_without_noise_nothing_is_simulated() -> None:
    assert not learner(**settings_for("asgd")).simulated


def test_the_seed_gives_the_noise_away_and_a_key_does_not() -> None:
    """The attack that simulated DP is named for: with seed and boot id the noise is drawn again and subtracted."""
    flat = np.zeros(650, dtype=np.float32)
    for randomness, is_broken in (("reproducible", True), ("secure", False)):
        changes = {"privacy__randomness": randomness, "privacy__noise_multiplier": 100.0}
        victim, twin = learner(**changes), learner(**changes)
        released, _ = victim.gradient(flat, 1.0)
        indices = twin.plan.draw(twin._sampling)
        noise = twin.plan.perturb(twin.plan.bound(np.zeros(650), 1.0), twin._noise).flat
        shard = twin._shard
        truth = twin._model.clipped_sum(flat, shard.inputs[indices], shard.labels[indices], 1.0) / 12
        assert bool(np.abs(released - noise - truth).max() < 1e-5) is is_broken


def spellings(key: bytes) -> list[bytes]:
    """How a key might stand in a text or in bytes: whole, or in words."""
    words = [key[place : place + 8] for place in range(0, len(key), 8)]
    numbers = [int.from_bytes(part, order) for part in (key, *words) for order in ("little", "big")]  # type: ignore[arg-type]
    texts = [form(part) for part in (key, *words) for form in (bytes.hex, lambda part: part[::-1].hex())]
    whole = base64.b64encode(key).decode().rstrip("=")
    return [key, *words, whole.encode(), *(str(number).encode() for number in numbers), *map(str.encode, texts)]


def test_nothing_that_leaves_memory_holds_a_key(capfd: pytest.CaptureFixture[str]) -> None:
    plan = experiment(privacy__randomness="secure", stop__updates=20)
    pump = Pump()
    federate(plan, pump)
    learners = [process.node._learner for name, process in pump._processes.items() if name != CLOUD]  # type: ignore[attr-defined]
    keys = [key_of(generator) for one in learners for generator in (one._sampling, one._noise)]
    pump.run()
    assert len(pump.rows("release", EDGE)) > 3
    spoken = capfd.readouterr()
    everything = [
        *(encode(Envelope("test", "boot", 1, 0.0, message)) for *_, message in pump.sent),
        *(line_of(row) for *_, row in pump.records),
        *(repr((one, one._noise, one._sampling, one.plan, one.ledger)).encode() for one in learners),
        yaml.safe_dump(plan.model_dump(mode="json")).encode(),
        (spoken.out + spoken.err).encode(),
    ]
    assert not found(keys, everything)
    assert found(keys, [*everything, f"key {keys[3].hex()}".encode()])  # the controls
    assert found(keys, [*everything, b"..." + keys[0][8:] + b"..."])


def found(keys: Iterable[bytes], everything: Iterable[bytes]) -> bool:
    secrets = [spelling for key in keys for spelling in spellings(key)]
    return any(secret in content for content in everything for secret in secrets)


@pytest.mark.parametrize("randomness", ["secure", "reproducible"])
def test_an_edge_says_whether_its_privacy_is_simulated(randomness: str) -> None:
    plan = experiment(privacy__randomness=randomness)
    pump = Pump()
    federate(plan, pump)
    pump.run()
    is_simulated = randomness == "reproducible"
    assert [row["simulated"] for row in pump.rows("bye")] == [is_simulated] * 3
    summary = summarise(plan, pump.stamped())
    assert [edge["simulated"] for edge in summary["edges"]] == [is_simulated] * 3
    assert summary["privacy"]["simulated"] is is_simulated
    assert ("simulated DP: the noise of every edge" in summary["privacy"]["note"]) is is_simulated
    assert all(edge["epsilon_total"] > 0 for edge in summary["edges"])


def test_each_host_decides_for_its_edge_and_the_run_is_as_weak_as_its_weakest() -> None:
    """The cloud's file says secure, one host's file says otherwise: the digest lets both in."""
    secure, seeded = (experiment(privacy__randomness=name) for name in ("secure", "reproducible"))
    pump = Pump()
    federate(secure, pump, edges=2)
    join(seeded, pump, "edge-0003")
    pump.run()
    summary = summarise(secure, pump.stamped())
    assert [edge["simulated"] for edge in summary["edges"]] == [False, False, True]
    assert summary["privacy"]["simulated"]
    assert "simulated DP: the noise of edge-0003 follows" in summary["privacy"]["note"]


def test_events_do_not_depend_on_the_source() -> None:
    secure, seeded = learner(privacy__randomness="secure"), learner()
    assert isinstance(secure.plan.event, Event)
    assert secure.plan == seeded.plan
