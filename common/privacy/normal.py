"""Standard normal numbers in float64, many at once.

The ziggurat of Marsaglia and Tsang (2000), which NumPy's generators walk number by number, written for whole arrays:
the same law from as many random bits, at three quarters of the cost from a seeded generator and two thirds from a
cipher. The half bell exp(-x^2/2) lies under layers of one area: the lowest is a rectangle and the tail beside it, the
others are rectangles. 64 random bits are a signed place in a layer, and the last ten of them, which float64 hardly
sees, name the layer. A place left of the next layer's edge is under the bell for certain (all but 0.4 %); the rest:

    lowest layer        a number of the tail: exponential ones, thinned (Marsaglia 1964)
    any other           a random height: under the bell the number stays, above it a new one is drawn

Few numbers (the answer to a probe) are left to NumPy. The law is the same, the numbers are not.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from common.secrecy import AESGenerator

_LAYERS = 1024  # with more, the tables outgrow the fastest cache
_TAIL = 4.038849846109505  # where the tail begins if so many layers end at the top of the bell
_ROWS = 32768  # numbers at a time: their arrays stay in the cache
_FEW = 4096  # below, one after the other is as fast

Numbers = NDArray[np.float64]


def edges() -> Numbers:
    """[layers + 1] how far each layer reaches, from the lowest (a rectangle of its area would) up to 0."""
    height = math.exp(-(_TAIL**2) / 2)
    area = _TAIL * height + math.sqrt(math.pi / 2) * math.erfc(_TAIL / math.sqrt(2))
    found = [area / height, _TAIL]
    while len(found) < _LAYERS:
        height += area / found[-1]
        found.append(math.sqrt(-2 * math.log(height)))
    return np.array([*found, 0.0])


_EDGES = edges()
_WIDTHS = _EDGES[:-1] * 2.0**-63  # of a step of a place
_SAFE = _EDGES[1:] / _WIDTHS
_FLOORS = np.exp(-np.square(_EDGES[:-1]) / 2)
_RISES = np.exp(-np.square(_EDGES[1:]) / 2) - _FLOORS


def standard_normal(size: int, rng: np.random.Generator) -> Numbers:
    """[size] independent standard normal numbers.

    Raises:
        TypeError: the generator's raw numbers have 32 bits, as those of MT19937: there would be almost no noise.
    """
    numbers = np.empty(size)
    for start in range(0, size, _ROWS):
        rows = numbers[start : start + _ROWS]
        if rows.size < _FEW:
            rng.standard_normal(out=rows)
        else:
            _fill(rows, rng)
    return numbers


def _fill(numbers: Numbers, rng: np.random.Generator) -> None:
    draw = rng.words if isinstance(rng, AESGenerator) else rng.bit_generator.random_raw
    bits: NDArray[np.int64] = draw(numbers.size).view(np.int64)
    if not any(word >> 32 for word in bits[:8].tolist()):  # by chance, once in 2^256
        raise TypeError(f"{type(rng.bit_generator).__name__}: expected a generator with raw numbers of 64 bits")
    np.copyto(numbers, bits)
    bits &= _LAYERS - 1
    outside = (np.abs(numbers) >= _SAFE.take(bits)).nonzero()[0]
    numbers *= _WIDTHS.take(bits)
    _settle(numbers, outside, bits.take(outside), rng)


def _settle(numbers: Numbers, outside: NDArray[np.int64], layers: NDArray[np.int64], rng: np.random.Generator) -> None:
    """Decides on the numbers at the places `outside`, which may lie above the bell."""
    heights = rng.random(outside.size)
    heights *= _RISES.take(layers)
    heights += _FLOORS.take(layers)
    above = outside[heights >= np.exp(np.square(numbers.take(outside)) * -0.5)]
    numbers[above] = rng.standard_normal(above.size)
    for place in outside[layers == 0]:
        numbers[place] = math.copysign(_beyond(rng), numbers[place])


def _beyond(rng: np.random.Generator) -> float:
    """A number of the tail."""
    while True:
        further = rng.standard_exponential() / _TAIL
        if 2 * rng.standard_exponential() > further**2:
            return _TAIL + further
