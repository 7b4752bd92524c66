"""The privacy loss of spherical Laplace noise straight from its definition: over the radius and the direction.

y = r (u, ..), r ~ Gamma(d, 1), u the first coordinate of a uniform direction, L = sqrt(r^2 - 2 a r u + a^2) - r, and

    P[L > t] = P[r <= (a-t)/2] + E[P[u < ((a^2 - t^2)/(2r) - t)/a]; r > (a-t)/2]

with r = (a-t)/2 + s^2 and a Gauss rule in s. d >= 2. Nothing in common with the elementary density of the product.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

Array = NDArray[np.float64]


def survival(dimension: int, shift: float, losses: Array, nodes: int = 192) -> Array:
    """[losses] the probability of a larger loss."""
    points, weights = np.polynomial.legendre.leggauss(nodes)
    radius = stats.gamma(dimension)
    found = np.empty(losses.size)
    for index, loss in enumerate(losses):
        start = (shift - loss) / 2
        low, high = max(radius.ppf(1e-17), start) - start, max(radius.isf(1e-17), start) - start + 1e-9
        low, high = np.sqrt(low), np.sqrt(high)
        root = (low + high) / 2 + (high - low) / 2 * points
        distance = start + root**2
        direction = np.clip(((shift**2 - loss**2) / (2 * distance) - loss) / shift, -1.0, 1.0)
        half = (dimension - 1) / 2
        share = special.betainc(half, half, (1 + direction) / 2)
        found[index] = radius.cdf(start) + (high - low) / 2 * weights @ (share * radius.pdf(distance) * 2 * root)
    return found


def draw(dimension: int, shift: float, count: int, rng: np.random.Generator) -> Array:
    """[count] losses of whole noise vectors."""
    directions = rng.standard_normal((count, dimension))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    noise = directions * rng.gamma(dimension, size=(count, 1))
    moved = noise.copy()
    moved[:, 0] -= shift
    return np.asarray(np.linalg.norm(moved, axis=1) - np.linalg.norm(noise, axis=1))
