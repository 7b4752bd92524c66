"""Private softmax regression on digits in straight NumPy, with cyclic delay: a stand-in for edges and broker."""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cloud.controller import Ask, Controller
from common.seeds import stream

Array = NDArray[np.float64]
CLASSES = 10
WEIGHT = 0.5


def features(images: Array) -> Array:
    """Unit vectors: each image by its own norm, 0.3 appended, by its norm again."""
    flat = images.reshape(len(images), -1).astype(float)
    flat /= np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-12)
    flat = np.hstack([flat, np.full((len(flat), 1), 0.3)])
    return flat / np.linalg.norm(flat, axis=1, keepdims=True)


@dataclass
class Federation:
    """Five shards of digits, noise of multiplier z, probes of multiplier z_q; every number seeded."""

    content: dict[str, Array]
    z: float
    z_q: float
    seed: int
    edges: int = 5
    batch_size: int = 12
    probes: list[tuple[float, float]] = field(default_factory=list)
    rollbacks: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = stream(self.seed, "federation")
        inputs, labels = features(self.content["x_train"] / 16), self.content["y_train"].astype(int)
        order = self.rng.permutation(len(labels))
        self.shards = [(inputs[part], labels[part]) for part in np.array_split(order, self.edges)]
        self.dimension = inputs.shape[1] * CLASSES

    def residuals(self, x: Array, inputs: Array, labels: Array) -> tuple[Array, Array]:
        """Losses [n] and softmax minus one-hot [n, classes]; a gradient is their outer product with the input."""
        scores = inputs @ x.reshape(-1, CLASSES)
        scores -= scores.max(axis=1, keepdims=True)
        powers = np.exp(scores)
        rows = np.arange(len(labels))
        losses = np.log(powers.sum(axis=1)) - scores[rows, labels]
        residuals = powers / powers.sum(axis=1, keepdims=True)
        residuals[rows, labels] -= 1
        return losses, residuals

    def release(self, x: Array, edge: int, clip_norm: float) -> Array:
        """Clipped per-sample gradients of a Poisson batch, summed, over b, plus noise."""
        inputs, labels = self.shards[edge]
        drawn = np.flatnonzero(self.rng.random(len(labels)) < self.batch_size / len(labels))
        _, residuals = self.residuals(x, inputs[drawn], labels[drawn])
        norms = np.linalg.norm(residuals, axis=1, keepdims=True)
        total = inputs[drawn].T @ (residuals * np.minimum(1, clip_norm / np.maximum(norms, 1e-30)))
        noise = self.rng.standard_normal(self.dimension) * self.z * clip_norm
        return np.asarray((total.ravel() + noise) / self.batch_size)

    def answer(self, ask: Ask) -> tuple[float, float, float]:
        """Loss, share and the std of the loss's noise, averaged over the edges."""
        answers = []
        noise = self.z_q * math.sqrt(1 + WEIGHT**2) / min(len(labels) for _, labels in self.shards)
        for inputs, labels in self.shards:
            losses, residuals = self.residuals(ask.flat.astype(float), inputs, labels)
            norms = np.linalg.norm(residuals, axis=1)
            truth = (np.minimum(losses, ask.cap).mean() / ask.cap, WEIGHT * (norms <= ask.bound).mean())
            answers.append(np.array(truth) + self.rng.standard_normal(2) * noise)
        loss, share = np.mean(answers, axis=0)
        return loss * ask.cap, share / WEIGHT, noise * ask.cap / math.sqrt(self.edges)

    def accuracy(self, x: Array) -> float:
        """On the test set."""
        scores = features(self.content["x_test"] / 16) @ x.reshape(-1, CLASSES)
        return float((scores.argmax(axis=1) == self.content["y_test"]).mean())

    def run(self, controller: Controller, updates: int) -> Array:
        """Drives the controller through a whole run; what it rolled back over is dropped."""
        x = np.zeros(self.dimension, np.float32)
        x, _ = self._settle(controller, controller.begin(x), x, 0)
        seen = [(x, controller.clip_norm or math.inf)] * self.edges
        for update in range(1, updates + 1):
            edge = update % self.edges
            released = self.release(seen[edge][0].astype(float), edge, seen[edge][1])
            x = (x - controller.rate() * released).astype(np.float32)
            x, is_back = self._settle(controller, controller.applied(x), x, update)
            now = (x, controller.clip_norm or math.inf)
            seen = [now] * self.edges if is_back else [*seen[:edge], now, *seen[edge + 1 :]]
        return x

    def _settle(self, controller: Controller, ask: Ask | None, x: Array, update: int) -> tuple[Array, bool]:
        while ask is not None:
            loss, share, noise_std = self.answer(ask)
            self.probes.append((loss, share))
            reply = controller.answered(loss, share, noise_std)
            if isinstance(reply, Ask):
                ask = reply
            elif reply.flat is None:
                return x, False
            else:
                self.rollbacks.append(update)
                return reply.flat.copy(), True
        return x, False
