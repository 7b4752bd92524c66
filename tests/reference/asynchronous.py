"""The loops of CSGD, ASGD, AUDP and literal MAPA in straight NumPy, written from the papers' text only.

`release(x, clip)` is what one edge sends for parameters x. Updates come in turn from `edges` edges, so each was
computed on the parameters of `edges - 1` updates before ("cyclic delay").

Symbols: L -> smooth, sigma -> std, R_x and r -> radius, a -> power, C -> clip, b -> batch, dS -> width,
    Delta_b -> spread, P -> damping, theta -> factor.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Flat = NDArray[np.float64]
Release = Callable[[Flat, float], Flat]


def sgd(
    release: Release, x: Flat, updates: int, *, smooth: float, std: float, radius: float, batch: int, edges: int
) -> Flat:
    """CSGD with one edge, ASGD with more: 1 / rate = L (tau + 1)^2 + sqrt(t + 1) sigma / (R sqrt(b))."""
    seen = [x.copy() for _ in range(edges)]
    for t in range(1, updates + 1):
        edge = (t - 1) % edges
        rate = 1 / (smooth * (edges - 1 + 1) ** 2 + np.sqrt(t + 1) * std / (radius * np.sqrt(batch)))
        x = x - rate * release(seen[edge], np.inf)
        seen[edge] = x.copy()
    return x


def audp(
    release: Release,
    x: Flat,
    updates: int,
    *,
    smooth: float,
    std: float,
    radius: float,
    power: int,
    clip: float,
    kappa: float,
    batch: int,
    edges: int,
) -> Flat:
    """AUDP: 1 / rate = L (tau + 1)^a + sqrt(Delta_b + 1) sqrt(t) / r, Delta_b = sigma^2 / b + kappa (2 C / b)^2."""
    seen = [x.copy() for _ in range(edges)]
    spread = std**2 / batch + kappa * (2 * clip / batch) ** 2
    for t in range(1, updates + 1):
        edge = (t - 1) % edges
        x = x - release(seen[edge], clip) / (smooth * edges**power + np.sqrt(spread + 1) * np.sqrt(t) / radius)
        seen[edge] = x.copy()
    return x


def mapa(
    release: Release,
    x: Flat,
    updates: int,
    *,
    smooth: float,
    std: float,
    clip: float,
    kappa: float,
    batch: int,
    edges: int,
    gap: float,
    factor: float,
) -> tuple[Flat, list[tuple[int, float, float]]]:
    """Algorithm 1, with sigma bounded by the clip norm; also (updates before, C, rate) of each stage."""
    seen = [(x.copy(), clip) for _ in range(edges)]
    done, stages = 0, []
    while done < updates:
        width = 2 * clip / batch
        spread = min(std, clip) ** 2 / batch + kappa * width**2
        damping = max(1.0, 8 * spread / (edges * batch**2 * width**2 * factor**2))
        rate = 1 / (2 * damping * smooth * edges)
        length = max(1, int(np.ceil(4 * damping**2 * smooth * edges**2 * gap / spread)))
        stages.append((done, clip, rate))
        for count in range(length):
            if done == updates:
                break
            edge, done = done % edges, done + 1
            x = x - rate * release(*seen[edge])
            seen[edge] = (x.copy(), clip if count < length - 1 else clip * factor)
        clip *= factor
    return x, stages
