"""Pictures come back from gradients without noise, not from noisy ones, and not from those of other records."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from common.experiment import load
from common.models import build_model
from lab.attacks import closed_form, inversion
from lab.attacks.inversion import Inversion, Outcome, Score, invert, score_of
from lab.attacks.recording import Plan, Truth, record
from lab.attacks.similarity import psnr
from lab.attacks.victim import Noise

LINEAR = ("logistic", "softmax", "svm")
MODELS = (*LINEAR, "cnn")
RECOVERED = dict.fromkeys(LINEAR, 30.0) | {"cnn": 20.0}
"""The PSNR, in dB, of a success."""
STEPS = 100
BASE = load(Path(inversion.__file__).with_name("inversion.yaml"))


def attacked(folder: Path, models: tuple[str, ...], epsilon: float | None, noise: Noise, records: int) -> Inversion:
    record(BASE, Plan(models, (epsilon,), noise, records, seed=5), folder)
    return invert(folder, STEPS, seed=5)


def scores(result: Inversion, model: str) -> list[Score]:
    return [o.score for o in result.outcomes if o.release.model == model and o.score is not None]


def truth_of(result: Inversion) -> Truth:
    assert result.truth is not None
    return result.truth


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Inversion:
    return attacked(tmp_path_factory.mktemp("plain"), MODELS, None, "paper", 2)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Inversion:
    """The network under noise; a search takes as long as one without noise."""
    return attacked(tmp_path_factory.mktemp("network"), ("cnn",), 1.0, "rigorous", 2)


@pytest.mark.parametrize("model", MODELS)
def test_without_noise_the_records_and_labels_come_back(plain: Inversion, model: str) -> None:
    found = scores(plain, model)
    assert len(found) == 2
    for score in found:
        assert score.psnr > RECOVERED[model]
        assert score.ssim > (0.99 if model != "cnn" else 0.6)
        assert score.is_label_right
        assert score.beats_guessing
        assert score.picked


def check_hidden(result: Inversion, model: str) -> None:
    found = scores(result, model)
    assert found
    assert not any(score.beats_guessing for score in found)
    assert all(score.psnr < score.guess_psnr for score in found)
    # where the record stands among the others is as if drawn: near the front on average would say something
    assert np.mean([score.closer for score in found]) > 0.02 * len(truth_of(result).others)


@pytest.mark.parametrize("model", LINEAR)
@pytest.mark.parametrize(("noise", "epsilon"), [("paper", 0.002), ("rigorous", 1.0), ("gaussian", 1.0)])
def test_under_heavy_noise_nothing_is_better_than_a_guess(
    tmp_path: Path, noise: Noise, epsilon: float, model: str
) -> None:
    check_hidden(attacked(tmp_path, (model,), epsilon, noise, 6), model)


def test_under_heavy_noise_the_network_gives_nothing_either(network: Inversion) -> None:
    check_hidden(network, "cnn")


@pytest.mark.parametrize("model", LINEAR)
def test_a_little_noise_is_not_enough(tmp_path: Path, model: str) -> None:
    """So it is the noise that hides them, not what is done with noisy gradients."""
    found = scores(attacked(tmp_path, (model,), 100.0, "paper", 2), model)
    assert all(score.beats_guessing and score.picked and score.is_label_right for score in found)
    assert all(score.psnr < 60 for score in found)


@pytest.mark.parametrize("model", MODELS)
def test_another_records_gradient_does_not_give_this_picture(plain: Inversion, model: str) -> None:
    """What came back is the record's own picture, not one that any digit would give."""
    first, second = (outcome for outcome in plain.outcomes if outcome.release.model == model)
    for mine, other in ((first, second), (second, first)):
        score = score_of(mine.picture, mine.label, other.release, truth_of(plain))
        assert score.psnr < RECOVERED[model]
        assert not score.picked


def test_the_scores_tell_a_record_from_noise(plain: Inversion) -> None:
    outcome: Outcome = plain.outcomes[0]
    truth = truth_of(plain)
    label = int(truth.upper[outcome.release.record])
    assert score_of(truth.pictures[outcome.release.record], label, outcome.release, truth).beats_guessing
    noise = np.random.default_rng(1).random(truth.pictures[0].shape)
    assert not score_of(noise, label, outcome.release, truth).beats_guessing
    assert not score_of(np.zeros_like(noise), None, outcome.release, truth).picked


def test_a_batch_of_two_gives_a_mix(plain: Inversion) -> None:
    """The closed form is for one record: of two with the same label, whose row is shared, it gives their sum."""
    model = build_model(BASE.model.model_copy(update={"name": "softmax"}), (1, 8, 8), 10)
    pictures = truth_of(plain).pictures
    inputs, labels = model.prepare(pictures, 1.0), np.array([4, 4])
    flat = model.layout.zeros()
    shape = pictures.shape[1:]

    def inverted(rows: slice) -> np.ndarray:
        total = model.gradient_sum(flat, inputs[rows], labels[rows]).reshape(10, -1)
        return closed_form.invert(total, shape)[0]

    mix = inverted(slice(0, 2))
    for place, picture in enumerate(pictures):
        assert psnr(inverted(slice(place, place + 1)), picture) > 30
        assert 5 < psnr(mix, picture) < 20


def test_a_gradient_of_zeros_holds_nothing() -> None:
    picture, label = closed_form.invert(np.zeros((10, 65)), (1, 8, 8))
    assert not picture.any()
    assert label is None
