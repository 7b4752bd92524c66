"""Accuracy and loss on a held-out set."""

from __future__ import annotations

import math

import numpy as np
import pytest

from common.errors import DataError
from common.evaluation import Score, evaluate
from common.experiment import ModelChoice
from common.models import build_model
from common.seeds import stream


def test_by_hand() -> None:
    model = build_model(ModelChoice(name="softmax"), (2,), 2)
    inputs = model.prepare(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), 1.0)
    unit = 1 / math.sqrt(1.09)
    flat = np.array([math.log(3) / unit, 0, 0, 0, 0, 0], dtype=np.float32)  # odds 3:1 for label 0 on the first axis
    score = evaluate(model, flat, inputs, np.array([0, 1, 1]))
    assert score.accuracy == pytest.approx(1 / 3)  # equal scores go to label 0
    assert score.loss == pytest.approx((math.log(4 / 3) + math.log(2) + math.log(4)) / 3, rel=1e-6)


@pytest.mark.parametrize("name", ["softmax", "cnn"])
def test_batch_does_not_change_the_score(name: str) -> None:
    rng = stream(1, "evaluation")
    model = build_model(ModelChoice(name=name), (1, 28, 28), 4)
    inputs = model.prepare(rng.integers(0, 256, (50, 1, 28, 28)).astype(np.uint8), 255.0)
    labels, flat = rng.integers(0, 4, 50), rng.standard_normal(model.layout.size).astype(np.float32)
    scores = [evaluate(model, flat, inputs, labels, batch=batch) for batch in (7, 50, 1024)]
    assert {score.accuracy for score in scores} == {scores[0].accuracy}
    assert [score.loss for score in scores] == pytest.approx([scores[0].loss] * 3, rel=1e-5)


def test_diverged_parameters_are_told_not_hidden() -> None:
    model = build_model(ModelChoice(name="softmax"), (2,), 2)
    score = evaluate(model, np.full(6, np.nan, dtype=np.float32), model.prepare(np.ones((3, 2)), 1.0), np.zeros(3, int))
    assert math.isnan(score.loss)
    assert isinstance(score, Score)


@pytest.mark.parametrize(("records", "labels"), [(0, 0), (3, 2)])
def test_no_records_or_no_labels_is_an_error(records: int, labels: int) -> None:
    model = build_model(ModelChoice(name="softmax"), (2,), 2)
    with pytest.raises(DataError, match="test set"):
        evaluate(model, model.layout.zeros(), model.prepare(np.ones((records, 2)), 1.0), np.zeros(labels, int))
