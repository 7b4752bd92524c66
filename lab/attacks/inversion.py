"""Recovers training pictures from recorded gradients, and says how well.

Source: MAPA (arXiv 1912.07902), Fig. 4. Linear models are inverted in closed form, the network by a search.
A release of one record only: what comes back from a larger batch is a mix of its records.

Whether noise protects is judged against pictures that have nothing to do with the release: a result counts as better
than a guess if it is more like its record, by PSNR and by SSIM, than all but one in twenty of them are. And a picture
that looks like noise may still tell which record it was: `picked` says that no unrelated picture correlates with it as
the record does, which happens by chance once in as many cases as there are candidates.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from common.errors import WireError
from common.seeds import stream
from lab.attacks import closed_form
from lab.attacks.recording import Index, Release, Truth, load, read
from lab.attacks.similarity import Picture, correlation, psnr, ssim
from lab.attacks.victim import seen

USUAL = 0.95
"""The share of unrelated pictures that a result has to be better than."""
NETWORK = frozenset(f"{layer}.{part}" for layer in ("conv1", "conv2", "full") for part in ("weight", "bias"))


@dataclass(frozen=True)
class Score:
    """How a result compares with its record.

    Attributes:
        psnr: in dB.
        ssim: -1..1.
        guess_psnr: that of an unrelated picture, at the share USUAL.
        guess_ssim: the same of SSIM.
        is_label_right: whether the label was recovered too.
        closer: how many unrelated pictures correlate with the result more than the record does.
    """

    psnr: float
    ssim: float
    guess_psnr: float
    guess_ssim: float
    is_label_right: bool
    closer: int

    @property
    def beats_guessing(self) -> bool:
        """More like the record than an unrelated picture."""
        return self.psnr > self.guess_psnr and self.ssim > self.guess_ssim

    @property
    def picked(self) -> bool:
        """The record is the first of all candidates."""
        return self.closer == 0


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came back from one release; `score` is None where nobody knows the record."""

    release: Release
    picture: Picture = field(repr=False)
    label: int | None
    seconds: float
    score: Score | None


@dataclass(frozen=True, eq=False)
class Inversion:
    """Everything that came back from a recording."""

    index: Index
    truth: Truth | None
    outcomes: tuple[Outcome, ...]

    def content(self) -> dict[str, Any]:
        """For `inversion.json`."""
        return {
            "data": self.index.data,
            "mechanism": self.index.mechanism,
            "unrelated": None if self.truth is None else len(self.truth.others),
            "results": [_row(outcome) for outcome in self.outcomes],
        }


def invert(
    folder: Path, steps: int, seed: int, show: Callable[[int, int], None] = lambda _done, _whole: None
) -> Inversion:
    """Attacks every release of a recording.

    Args:
        folder: of the recording.
        steps: of one search.
        seed: of the starts of a search.
        show: told how many of how many releases are done.

    Raises:
        ConfigError: the folder is no recording.
        WireError: a message is missing, damaged or of another model.
    """
    index, truth = read(folder)
    whole, outcomes = len(index.releases), []
    for done, release in enumerate(index.releases):
        show(done, whole)
        start = time.perf_counter()
        picture, label = _attack(folder, index, release, steps, seed)
        seconds = time.perf_counter() - start
        score = None if truth is None else score_of(picture, label, release, truth)
        outcomes.append(Outcome(release, picture, label, seconds, score))
    return Inversion(index, truth, tuple(outcomes))


def score_of(picture: Picture, label: int | None, release: Release, truth: Truth) -> Score:
    """Compares what came back with the record, and unrelated pictures with both."""
    record = truth.pictures[release.record]
    labels = truth.upper if release.model == "logistic" else truth.labels
    own = correlation(picture, record)
    return Score(
        psnr=psnr(picture, record),
        ssim=ssim(picture, record),
        guess_psnr=float(np.quantile([psnr(other, record) for other in truth.others], USUAL)),
        guess_ssim=float(np.quantile([ssim(other, record) for other in truth.others], USUAL)),
        is_label_right=label == int(labels[release.record]),
        closer=sum(correlation(picture, other) >= own for other in truth.others),
    )


def _attack(folder: Path, index: Index, release: Release, steps: int, seed: int) -> tuple[Picture, int | None]:
    sight = seen(load(folder, index.questions[release.model]), load(folder, release.file), index.l2)
    shape = index.shape
    if release.model == "cnn":
        if set(sight.gradient) != NETWORK:
            raise WireError(f"{release.file}: {sorted(sight.gradient)}: expected {sorted(NETWORK)}")
        from lab.attacks import matching  # noqa: PLC0415 - imports torch, which linear models need not

        rng = stream(seed, "inversion", "search", release.file)
        search = matching.Search(exact=sight.mechanism == "none", steps=steps, rng=rng)
        return matching.invert(sight.parameters, sight.gradient, shape, search)
    width = math.prod(shape) + 1
    if set(sight.gradient) != {"weight"} or sight.gradient["weight"].shape[1:] != (width,):
        raise WireError(f"{release.file}: {sight.gradient!r}: expected one matrix of {width} columns")
    return closed_form.invert(sight.gradient["weight"], shape)


def _row(outcome: Outcome) -> Mapping[str, Any]:
    row: dict[str, Any] = outcome.release.model_dump(exclude={"file"})
    row |= {"label": outcome.label, "seconds": round(outcome.seconds, 3)}
    if outcome.score is not None:
        row |= asdict(outcome.score)
        row |= {"beats_guessing": outcome.score.beats_guessing, "picked": outcome.score.picked}
    return row
