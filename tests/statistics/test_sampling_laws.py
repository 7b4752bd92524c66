"""Batches follow the law that the accountant counts on. Every test is shown a sampler that breaks it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from common.events import Sampling
from common.privacy.sampling import SAMPLERS
from common.seeds import stream

RECORDS, BATCH, DRAWS = 12, 4, 4000


def counts(sampling: Sampling, batch: int = BATCH, draws: int = DRAWS) -> NDArray[np.int64]:
    """[draws, records] how often each record was in each batch."""
    rng = stream(3, "batch", sampling)
    batches = (SAMPLERS[sampling](RECORDS, batch, rng) for _ in range(draws))
    return np.array([np.bincount(indices, minlength=RECORDS) for indices in batches])


def even(table: NDArray[np.int64]) -> float:
    """p-value of: every record was drawn equally often."""
    return float(stats.chisquare(table.sum(axis=0)).pvalue)


def binomial(sizes: NDArray[np.int64]) -> float:
    """p-value of: the batch size is Binomial(records, q)."""
    seen = np.bincount(sizes, minlength=RECORDS + 1)
    expected = DRAWS * stats.binom(RECORDS, BATCH / RECORDS).pmf(np.arange(RECORDS + 1))
    seen, expected = np.append(seen[:8], seen[8:].sum()), np.append(expected[:8], expected[8:].sum())
    return float(stats.chisquare(seen, expected).pvalue)


def together(table: NDArray[np.int64]) -> float:
    """Share of batches that hold both of the first two records."""
    return float(((table[:, 0] > 0) & (table[:, 1] > 0)).mean())


def test_poisson_records_enter_independently() -> None:
    table = counts("poisson")
    assert table.max() == 1
    assert even(table) > 1e-4
    assert binomial(table.sum(axis=1)) > 1e-4
    assert together(table) == pytest.approx((BATCH / RECORDS) ** 2, abs=0.025)
    assert binomial(counts("fixed").sum(axis=1)) < 1e-4  # control: sizes that never vary
    assert binomial(counts("poisson", BATCH + 1).sum(axis=1)) < 1e-4  # control: another rate


def test_poisson_batches_may_be_empty_and_may_be_everything() -> None:
    sizes = counts("poisson", 1).sum(axis=1)
    assert (sizes == 0).mean() == pytest.approx((1 - 1 / RECORDS) ** RECORDS, abs=0.04)
    assert counts("poisson", RECORDS).min() == 1


def test_fixed_batches_hold_different_records() -> None:
    table = counts("fixed", draws=10 * DRAWS)
    assert (table.sum(axis=1) == BATCH).all()
    assert table.max() == 1
    assert even(table) > 1e-4
    # 1/11 of the batches hold both, of independent records 1/9: a gap of 13 standard errors, split in the middle
    pairs = BATCH * (BATCH - 1) / (RECORDS * (RECORDS - 1))
    assert together(table) == pytest.approx(pairs, abs=0.01)
    assert together(counts("poisson", draws=10 * DRAWS)) != pytest.approx(pairs, abs=0.01)  # control


def test_replacement_draws_records_again() -> None:
    table = counts("replacement")
    assert (table.sum(axis=1) == BATCH).all()
    assert even(table) > 1e-4
    different = 11 / 12 * 10 / 12 * 9 / 12
    assert (table.max(axis=1) == 1).mean() == pytest.approx(different, abs=0.04)
    assert (counts("fixed").max(axis=1) == 1).mean() != pytest.approx(different, abs=0.04)  # control


def test_uneven_batches_are_told() -> None:
    """Control of the test for evenness: the first record also where the second is, in a third of the batches."""
    table = counts("fixed")
    table[: DRAWS // 3, 0] += table[: DRAWS // 3, 1]
    assert even(table) < 1e-4


def test_everything_is_everything() -> None:
    assert SAMPLERS["all"](5, 2, stream(1, "batch")).tolist() == [0, 1, 2, 3, 4]
