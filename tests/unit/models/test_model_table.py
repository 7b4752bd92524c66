"""Every entry of the model table against a slow per-record loop; a new model is tested by its line in the table."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import per_record
import pytest
from numpy.typing import NDArray

from common.errors import ConfigError, DataError, SensitivityError
from common.experiment import ModelChoice
from common.models import MODELS, build_model
from common.models.linear import LinearModel
from common.models.spec import ModelSpec
from common.seeds import stream

BATCH = 9


@dataclass(frozen=True)
class Case:
    name: str
    model: ModelSpec
    flat: NDArray[np.float32]
    inputs: NDArray[np.generic]
    labels: NDArray[np.int64]

    def loop(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        loss = per_record.LOSSES.get(self.name) or per_record.of_module(self.model._circuit._module)
        inputs = self.inputs / 255 if self.inputs.dtype == np.uint8 else self.inputs
        return per_record.losses_and_gradients(loss, self.model.layout, self.flat, inputs, self.labels)


def make(name: str, batch: int = BATCH) -> Case:
    """A model with parameters away from its start, and read-only arrays, as a node may hand them over."""
    rng = stream(3, "models", name)
    classes = 2 if name == "logistic" else 5
    model = build_model(ModelChoice(name=name), (1, 28, 28), classes)
    start = model.init(rng).flat
    flat = (start + 0.3 * rng.standard_normal(start.size) / math.sqrt(100)).astype(np.float32)
    inputs = model.prepare(rng.integers(0, 256, (batch, 1, 28, 28)).astype(np.uint8), 255.0)
    labels = rng.integers(0, classes, batch)
    for array in (flat, inputs, labels):
        array.flags.writeable = False
    return Case(name, model, flat, inputs, labels)


@pytest.fixture(params=sorted(MODELS))
def case(request: pytest.FixtureRequest) -> Case:
    return make(request.param)


def test_sum_of_gradients_is_the_loops(case: Case) -> None:
    _, rows = case.loop()
    total = case.model.gradient_sum(case.flat, case.inputs, case.labels)
    assert total.dtype == np.float32
    assert total.shape == (case.model.layout.size,)
    assert np.abs(total - rows.sum(axis=0)).max() <= 1e-5 * np.abs(rows.sum(axis=0)).max()


def test_sum_of_gradients_is_the_slope_of_the_losses(case: Case) -> None:
    direction = stream(4, case.name).standard_normal(case.flat.size)
    direction /= np.linalg.norm(direction)
    step = 1e-2
    ahead, behind = (
        case.model.losses((case.flat + sign * step * direction).astype(np.float32), case.inputs, case.labels).sum()
        for sign in (1, -1)
    )
    slope = float(case.model.gradient_sum(case.flat, case.inputs, case.labels) @ direction)
    assert (ahead - behind) / (2 * step) == pytest.approx(slope, rel=0.02, abs=0.02)


def test_losses_and_norms_are_the_loops(case: Case) -> None:
    losses, rows = case.loop()
    assert case.model.losses(case.flat, case.inputs, case.labels) == pytest.approx(losses, rel=1e-5, abs=1e-6)
    norms = case.model.norms(case.flat, case.inputs, case.labels)
    assert norms.dtype == np.float64
    assert norms == pytest.approx(np.linalg.norm(rows, axis=1), rel=1e-5, abs=1e-12)


@pytest.mark.parametrize("share", [0.25, 0.5, 1.0, 2.0])
def test_clipped_sum_is_the_loops(case: Case, share: float) -> None:
    _, rows = case.loop()
    bound = share * float(np.median(np.linalg.norm(rows, axis=1))) + 1e-9
    total = case.model.clipped_sum(case.flat, case.inputs, case.labels, bound)
    expected = per_record.clipped(rows, bound)
    assert total.dtype == np.float64
    assert np.abs(total - expected).max() <= 1e-5 * np.abs(expected).max()


def test_wide_bound_gives_the_sum_of_gradients(case: Case) -> None:
    total = case.model.gradient_sum(case.flat, case.inputs, case.labels)
    clipped = case.model.clipped_sum(case.flat, case.inputs, case.labels, 1e6)
    assert np.abs(total - clipped).max() <= 2e-6 * np.abs(total).max()


def test_one_records_gradient_never_exceeds_the_bound(case: Case) -> None:
    norms = case.model.norms(case.flat, case.inputs, case.labels)
    for index in range(BATCH):
        one = slice(index, index + 1)
        for bound in (1e-30, 1e-3, 0.999999 * norms[index], norms[index], 1e3):
            if bound > 0:
                total = case.model.clipped_sum(case.flat, case.inputs[one], case.labels[one], bound)
                assert np.linalg.norm(total.astype(np.float64)) <= bound


def test_public_bounds_hold(case: Case) -> None:
    if case.model.lipschitz is not None:
        assert case.model.norms(case.flat, case.inputs, case.labels).max() <= case.model.lipschitz * (1 + 1e-6)
    if case.model.smoothness is not None and case.name != "svm":  # the hinge has kinks, see its docstring
        rng = stream(5, case.name)
        for size in (0.01, 1.0, 30.0):
            other = (case.flat + size * rng.standard_normal(case.flat.size)).astype(np.float32)
            change = case.model.gradient_sum(other, case.inputs, case.labels) - case.model.gradient_sum(
                case.flat, case.inputs, case.labels
            )
            moved = float(np.linalg.norm(other - case.flat))
            assert np.linalg.norm(change) / BATCH <= case.model.smoothness * moved * (1 + 1e-3)


def test_gap_is_the_loss_of_equal_scores(case: Case) -> None:
    loss = case.model.losses(case.model.layout.zeros(), case.inputs, case.labels)
    assert loss == pytest.approx(np.full(BATCH, case.model.gap))
    assert case.model.gap == pytest.approx(1.0 if case.name == "svm" else math.log(case.model.classes))


def test_empty_batch_gives_zeros(case: Case) -> None:
    inputs, labels = case.inputs[:0], case.labels[:0]
    for total in (
        case.model.clipped_sum(case.flat, inputs, labels, 1.0),
        case.model.gradient_sum(case.flat, inputs, labels),
    ):
        assert total.shape == (case.model.layout.size,)
        assert not total.any()
    assert case.model.losses(case.flat, inputs, labels).shape == (0,)
    assert case.model.norms(case.flat, inputs, labels).shape == (0,)
    assert case.model.predict(case.flat, inputs).shape == (0,)


def test_same_input_same_numbers(case: Case) -> None:
    again = make(case.name)
    assert np.array_equal(again.flat, case.flat)
    first, second = (c.model.clipped_sum(c.flat, c.inputs, c.labels, 0.5) for c in (case, again))
    assert np.array_equal(first, second)
    assert case.model.init(stream(1, "a")) == again.model.init(stream(1, "a"))


def test_a_result_is_not_changed_by_the_next_call(case: Case) -> None:
    total = case.model.clipped_sum(case.flat, case.inputs, case.labels, 0.5)
    kept = total.copy()
    case.model.clipped_sum(2 * case.flat, case.inputs[:2], case.labels[:2], 0.5)
    assert np.array_equal(total, kept)


def test_first_parameters_depend_on_the_generator_only_where_they_must(case: Case) -> None:
    first, second = case.model.init(stream(1, "a")), case.model.init(stream(1, "b"))
    if isinstance(case.model, LinearModel):
        assert not first.flat.any()
        assert first == second
    else:
        assert first != second
        assert np.isfinite(first.flat).all()


def test_first_parameters_of_the_cnn_are_hes() -> None:
    first = make("cnn").model.init(stream(1, "a"))
    assert np.std(first["conv2.weight"]) == pytest.approx(math.sqrt(2 / 250), rel=0.05)
    assert not first["conv1.bias"].any()


def test_predictions_have_the_least_loss_of_all_labels(case: Case) -> None:
    by_label = np.array(
        [case.model.losses(case.flat, case.inputs, np.full(BATCH, label)) for label in range(case.model.classes)]
    )
    predictions = case.model.predict(case.flat, case.inputs)
    assert predictions.dtype == np.int64
    assert np.array_equal(predictions, by_label.argmin(axis=0))
    losses, labels = case.model.assess(case.flat, case.inputs, case.labels)
    assert np.array_equal(losses, case.model.losses(case.flat, case.inputs, case.labels))
    assert np.array_equal(labels, predictions)


@pytest.mark.parametrize("bound", [0.0, -1.0, math.inf, math.nan])
@pytest.mark.parametrize("batch", [0, BATCH])
def test_bad_bound_is_refused(case: Case, bound: float, batch: int) -> None:
    with pytest.raises(SensitivityError, match="clip_norm"):
        case.model.clipped_sum(case.flat, case.inputs[:batch], case.labels[:batch], bound)


def test_records_of_another_shape_are_refused(case: Case) -> None:
    with pytest.raises(DataError, match=r"\(3, 1, 28, 27\)"):
        case.model.prepare(np.zeros((3, 1, 28, 27)), 1.0)
    with pytest.raises(DataError, match="scale"):
        case.model.prepare(np.zeros((3, 1, 28, 28)), 0.0)


def test_more_records_than_one_pass_takes() -> None:
    for name in sorted(MODELS):
        case = make(name, batch=300)
        half = slice(0, 150), slice(150, 300)
        bound = float(np.median(case.model.norms(case.flat, case.inputs, case.labels)))
        total = case.model.clipped_sum(case.flat, case.inputs, case.labels, bound)
        parts = [case.model.clipped_sum(case.flat, case.inputs[h], case.labels[h], bound) for h in half]
        assert np.abs(total - sum(parts)).max() <= 2e-5 * np.abs(total).max()


@pytest.mark.parametrize(
    ("name", "shape", "classes", "size"),
    [
        ("softmax", (784,), 10, 7850),
        ("svm", (1, 16, 16), 10, 2570),
        ("logistic", (64,), 2, 65),
        ("cnn", (1, 28, 28), 10, 4380),
        ("cnn", (1, 28, 28), 62, 12_752),
        ("cnn", (1, 16, 16), 10, 4380),
        ("cnn", (3, 32, 32), 10, (3 * 25 * 10 + 10) + (10 * 25 * 10 + 10) + (250 * 10 + 10)),
    ],
)
def test_sized_by_the_data_set(name: str, shape: tuple[int, ...], classes: int, size: int) -> None:
    assert build_model(ModelChoice(name=name), shape, classes).layout.size == size


def test_small_pictures_are_framed_with_zeros() -> None:
    model = build_model(ModelChoice(name="cnn"), (1, 16, 16), 10)
    raw = stream(6, "usps").integers(1, 17, (4, 1, 16, 16)).astype(np.float32)
    inputs = model.prepare(raw, 16.0)
    assert inputs.shape == (4, 1, 28, 28)
    assert np.array_equal(inputs[:, :, 6:22, 6:22], raw / 16)
    assert np.count_nonzero(inputs) == raw.size
    assert model.predict(model.init(stream(1, "x")).flat, inputs).shape == (4,)


def test_bytes_stay_bytes_and_mean_the_same() -> None:
    model = build_model(ModelChoice(name="cnn"), (1, 28, 28), 10)
    raw = stream(7, "bytes").integers(0, 256, (5, 1, 28, 28)).astype(np.uint8)
    flat, labels = model.init(stream(1, "x")).flat, np.arange(5)
    small, large = model.prepare(raw, 255.0), model.prepare(raw.astype(np.float32), 255.0)
    assert small.dtype == np.uint8
    assert large.dtype == np.float32
    assert model.losses(flat, small, labels) == pytest.approx(model.losses(flat, large, labels), rel=1e-5)


def test_wrong_choices_are_named() -> None:
    with pytest.raises(ConfigError, match=f"model.name: 'resnet': expected one of {', '.join(sorted(MODELS))}"):
        build_model(ModelChoice(name="resnet"), (64,), 10)
    with pytest.raises(ConfigError, match="2 classes, not 10"):
        build_model(ModelChoice(name="logistic"), (64,), 10)
    with pytest.raises(ConfigError, match="pictures"):
        build_model(ModelChoice(name="cnn"), (784,), 10)


def test_linear_models_do_not_load_the_tensor_library() -> None:
    code = (
        "import sys, numpy as np\n"
        "from common.experiment import ModelChoice\n"
        "from common.models import build_model\n"
        "model = build_model(ModelChoice(name='softmax'), (4,), 3)\n"
        "model.clipped_sum(model.layout.zeros(), model.prepare(np.ones((2, 4)), 1.0), np.array([0, 1]), 1.0)\n"
        "sys.exit('torch' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
