"""Many normal numbers at once have the normal law, to the far tail; broken samplers are told apart."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from common.privacy import normal
from common.privacy.normal import Numbers, edges, standard_normal
from common.secrecy import AES, CHACHA, Cipher, secret_stream
from common.seeds import stream

COUNT = 4_000_000
TAIL = float(edges()[1])


def numbers(rng: np.random.Generator) -> Numbers:
    return standard_normal(COUNT, rng)


def bins_p_value(values: Numbers) -> float:
    """Chi-square over bins of equal probability, and over those of the last per mille on either side."""
    far = np.array([1e-6, 1e-5, 2.7e-5, 1e-4, 1e-3])
    borders = stats.norm.ppf(np.concatenate([far, np.arange(1, 200) / 200, 1 - far[::-1]]))
    whole = np.concatenate([[-math.inf], borders, [math.inf]])
    expected = np.diff(stats.norm.cdf(whole)) * values.size
    return float(stats.chisquare(np.histogram(values, whole)[0], expected, sum_check=False).pvalue)


def tail_p_value(values: Numbers) -> float:
    """Beyond the begin of the tail the law is that of the bell cut off there."""
    beyond = np.abs(values[np.abs(values) > TAIL])
    return float(stats.kstest(beyond, lambda x: 1 - stats.norm.sf(x) / stats.norm.sf(TAIL)).pvalue)


@pytest.mark.parametrize("cipher", [None, AES, CHACHA])
def test_the_law_is_normal_in_bins_tail_and_moments(cipher: Cipher | None) -> None:
    values = numbers(stream(3, "normal") if cipher is None else secret_stream(cipher))
    assert stats.kstest(values, "norm").pvalue > 1e-5
    assert bins_p_value(values) > 1e-5
    assert tail_p_value(values) > 1e-5
    for power, moment, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs((values**power).mean() - moment) < 5 * math.sqrt(variance / COUNT)


def test_neighbours_are_independent() -> None:
    values = numbers(stream(4, "normal"))
    for lag in (1, 2, 3, 4096, 32_768):
        for function in (np.asarray, np.square, np.abs, np.sign):
            first, second = function(values[:-lag]), function(values[lag:])
            assert abs(np.corrcoef(first, second)[0, 1]) < 5 / math.sqrt(COUNT)
    assert np.unique(values).size == COUNT


def test_each_layer_has_the_same_area() -> None:
    found = edges()
    heights = stats.norm.pdf(found) * math.sqrt(2 * math.pi)
    areas = found[1:-1] * np.diff(heights)[1:]
    lowest = found[1] * heights[1] + stats.norm.sf(found[1]) * math.sqrt(2 * math.pi)
    assert areas == pytest.approx(lowest, rel=1e-10)
    assert found[0] == pytest.approx(lowest / heights[1])


@pytest.mark.parametrize("size", [0, 1, 2, 785, 4095, 4096, 12_752, 32_768, 32_769, 70_000])
def test_any_size_is_filled(size: int) -> None:
    values = standard_normal(size, stream(1, "size"))
    assert values.shape == (size,)
    assert np.isfinite(values).all()
    assert np.count_nonzero(values) == size
    assert np.array_equal(values, standard_normal(size, stream(1, "size")))


def _keep_all(*_arguments: object) -> None:
    """A place beyond the next layer's edge stays: corners of the layers stand out, and the tail is short."""


def test_corners_that_are_kept_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Control."""
    monkeypatch.setattr(normal, "_settle", _keep_all)
    assert bins_p_value(numbers(stream(3, "normal"))) < 1e-5


def test_the_tail_is_that_of_the_bell(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = stream(5, "tail")
    assert tail_p_value(np.array([normal._beyond(rng) for _ in range(50_000)])) > 1e-5
    assert tail_p_value(TAIL + rng.standard_exponential(50_000) / TAIL) < 1e-5  # control: not thinned
    monkeypatch.setattr(normal, "_beyond", lambda rng: TAIL * (1 + 0.05 * rng.random()))  # control: cut short
    assert tail_p_value(numbers(stream(3, "normal"))) < 1e-5


def test_a_generator_with_short_raw_numbers_is_refused() -> None:
    with pytest.raises(TypeError, match="MT19937: expected a generator with raw numbers of 64 bits"):
        standard_normal(5000, np.random.Generator(np.random.MT19937(1)))
