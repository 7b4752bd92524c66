"""Numbers in few digits that still hold: a bound from above is rounded up, one from below is rounded down."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context


def at_most(value: float, digits: int = 3) -> float:
    """The least number of so many significant digits that is not below `value`."""
    return _rounded(value, digits, ROUND_CEILING)


def at_least(value: float, digits: int = 3) -> float:
    """The largest number of so many significant digits that is not above `value`."""
    return _rounded(value, digits, ROUND_FLOOR)


def _rounded(value: float, digits: int, direction: str) -> float:
    return float(Context(digits, direction).create_decimal(repr(float(value)))) if math.isfinite(value) else value
