"""A record's clipped gradient is its own affair, and adding them up goes as far wrong as the noise pays for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from test_model_table import Case, make

from common.events import Event
from common.models import cnn, five_layers
from common.models.clipping import clip_factors
from common.models.layers import Formed, Gradients, Gram, Products
from common.models.linear import LinearModel
from common.models.network import Network
from common.models.spec import Sum
from common.privacy.plan import PrivacyPlan
from common.seeds import stream
from common.tensors import Flat

CLIP_NORM = 0.05


@pytest.fixture(params=["logistic", "softmax", "svm"])
def case(request: pytest.FixtureRequest) -> Case:
    return make(request.param)


@dataclass(frozen=True)
class Pictures:
    """The CNN on pictures of one shape, away from its start, and 64 records."""

    model: Network
    flat: Flat
    inputs: NDArray[np.float32]
    labels: NDArray[np.int64]

    def alone(self, batch: NDArray[np.int64]) -> list[NDArray[np.float64]]:
        """What each record of `batch` adds to the clipped sum, and its norm, loss and label."""
        inputs, labels = self.inputs[batch], self.labels[batch]
        np.copyto(self.model._buffer, self.flat)
        found = self.model._gradients(inputs.copy(), labels)
        squares = self.model._squares(found)
        chosen = torch.from_numpy(np.diag(clip_factors(squares, CLIP_NORM)))
        rows = [torch.cat([part.total(factors) for part in found.values()]).numpy() for factors in chosen]
        return [np.array(rows), np.sqrt(squares), *self.model.assess(self.flat, inputs, labels)]


@pytest.fixture(params=[((1, 28, 28), 10), ((1, 28, 28), 62), ((3, 32, 32), 10), ((2, 47, 40), 3)])
def pictures(request: pytest.FixtureRequest) -> Pictures:
    shape, classes = request.param
    model = cnn.build(shape, classes)
    rng = stream(4, "pictures", classes)
    flat = (model.init(rng).flat + 0.05 * rng.standard_normal(model.layout.size)).astype(np.float32)
    return Pictures(model, flat, rng.random((64, *shape), dtype=np.float32), rng.integers(classes, size=64))


def test_what_a_picture_says_does_not_depend_on_who_else_is_in_the_batch(pictures: Pictures) -> None:
    """The CNN, in batches of every size that one pass may have, in any order: its clipped gradient, bit by bit."""
    whole = pictures.alone(np.arange(64))
    rng = stream(4, "pictures", "batches")
    for size in range(1, 65):
        batch = rng.permutation(64)[:size]
        for found, expected in zip(pictures.alone(batch), whole, strict=True):
            assert np.array_equal(found, expected[batch]), size


def test_control_a_plain_product_shows(pictures: Pictures, monkeypatch: pytest.MonkeyPatch) -> None:
    """The full layer by torch's own product rounds a record by the company that it has."""
    monkeypatch.setattr(
        five_layers, "product", lambda rows, matrix: (torch.tensor(rows) @ torch.tensor(matrix)).numpy()
    )
    whole = pictures.alone(np.arange(64))
    sizes = [
        size for size in (1, 2, 3, 5, 12) if not np.array_equal(pictures.alone(np.arange(size))[0], whole[0][:size])
    ]
    assert sizes


def many(case: Case, count: int, name: str) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    rng = stream(4, "alone", name)
    inputs = case.model.prepare(rng.random((count, *case.model.shape)), 1.0)
    return inputs.astype(np.float32, copy=False), rng.integers(case.model.classes, size=count)


def test_what_a_record_says_does_not_depend_on_who_else_is_in_the_batch(case: Case) -> None:
    """Bit by bit, or taking a record out would change the gradients of others."""
    assert isinstance(case.model, LinearModel)
    inputs, labels = many(case, 300, "bits")
    losses, norms = case.model.losses(case.flat, inputs, labels), case.model.norms(case.flat, inputs, labels)
    rng = stream(4, "alone", "batches")
    for size in (1, 2, 11, 12, 13, 15, 16, 17, 48, 257, 299):
        batch = rng.permutation(300)[:size]
        assert np.array_equal(case.model.losses(case.flat, inputs[batch], labels[batch]), losses[batch])
        assert np.array_equal(case.model.norms(case.flat, inputs[batch], labels[batch]), norms[batch])


def test_control_the_last_bit_of_one_parameter_shows(case: Case) -> None:
    """What a matrix library does to a row in a batch of another size is about as much."""
    inputs, labels = many(case, 300, "bits")
    nudged = case.flat.copy()
    nudged[300] = np.nextafter(nudged[300], np.float32(np.inf))
    losses = case.model.losses(case.flat, inputs, labels)
    assert not np.array_equal(case.model.losses(nudged, inputs, labels), losses)


def error_of(total: Sum, parts: list[Sum]) -> float:
    """How far a sum is from the exact one of its parts, in l2."""
    exact = [sum(map(Fraction, map(float, column)), Fraction(0)) for column in zip(*parts, strict=True)]
    errors = [float(Fraction(float(found)) - truth) for found, truth in zip(total, exact, strict=True)]
    return math.sqrt(math.fsum(error**2 for error in errors))


@pytest.mark.parametrize("kind", ["formed", "products", "gram"])
def test_a_layers_sum_goes_no_further_wrong_than_its_roundings(kind: str) -> None:
    """In float64 when the factors are; the control is the same sum in float32."""
    rng = stream(4, "alone", kind)
    records, positions = 100, {"formed": 1, "products": 1, "gram": 3}[kind]
    left, entered = (
        torch.from_numpy(rng.standard_normal((records, positions, 5)).astype(np.float32)) for _ in range(2)
    )
    one_by_one = torch.bmm(left.transpose(1, 2), entered).flatten(1)
    made: dict[str, Gradients] = {
        "formed": Formed(one_by_one),
        "products": Products(left[:, 0], entered[:, 0]),
        "gram": Gram(left, entered),
    }
    factors = torch.from_numpy(rng.random(records))
    wide = (left.double() * factors[:, None, None]).transpose(1, 2)
    if kind == "formed":
        parts = list((one_by_one.double() * factors[:, None]).numpy())
    else:  # every product by itself, so that nothing is rounded before it is added
        parts = [
            np.outer(wide[i, :, s].numpy(), entered[i, s].double().numpy()).ravel()
            for i in range(records)
            for s in range(positions)
        ]
    sizes = sum(float(np.linalg.norm(part)) for part in parts)
    allowed = (records * positions + 1) * 2.0**-53 * sizes
    assert error_of(made[kind].total(factors).numpy(), parts) <= allowed
    assert error_of(made[kind].total(factors.float()).double().numpy(), parts) > allowed


@pytest.mark.parametrize("count", [12, 200])
def test_the_sum_is_within_the_allowance_of_the_exact_one(case: Case, count: int) -> None:
    inputs, labels = many(case, count, "sum")
    parts = [case.model.clipped_sum(case.flat, inputs[i : i + 1], labels[i : i + 1], CLIP_NORM) for i in range(count)]
    total = case.model.clipped_sum(case.flat, inputs, labels, CLIP_NORM)
    assert total.dtype == np.float64
    event = Event(mechanism="gaussian", noise_multiplier=1.0, dimension=total.size)
    allowed = PrivacyPlan(event, count, count).rounding_allowance * CLIP_NORM
    assert error_of(total, parts) <= allowed / 2
    added = np.zeros(total.size, dtype=np.float32)  # the control: added up in float32
    for part in parts:
        added += part.astype(np.float32)
    assert error_of(added.astype(np.float64), parts) > allowed
