"""What is printed of a bound is a bound."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lab.rounding import at_least, at_most


@pytest.mark.parametrize(
    ("value", "up", "down"),
    [(4.4501, "4.46", "4.45"), (4.45, "4.45", "4.45"), (0.0, "0", "0"), (999.9, "1e+03", "999"), (7, "7", "7")],
)
def test_three_digits(value: float, up: str, down: str) -> None:
    assert (f"{at_most(value):.3g}", f"{at_least(value):.3g}") == (up, down)


def test_of_any_size_it_holds_as_printed() -> None:
    for value in np.exp(np.random.default_rng(1).uniform(-30, 30, 1000)):
        for digits in (3, 4):
            up, down = (float(f"{bound(value, digits):.{digits}g}") for bound in (at_most, at_least))
            assert down <= value <= up
            assert up - down <= 10.0 ** (1 - digits) * value * (1 + 1e-9)
    assert at_most(math.inf) == math.inf
