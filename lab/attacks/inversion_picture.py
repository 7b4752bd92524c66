"""The picture of an inversion, as the paper's Fig. 4: a row for each record and model, a column for each epsilon."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from lab.attacks.inversion import Inversion, Outcome
from lab.attacks.inversion_words import MECHANISMS, MODELS
from lab.attacks.similarity import MOST_PSNR, Picture
from lab.plots import INK, SOFT

MOST_ROWS = 2
"""Records that are drawn of each model."""
BETTER = "#D55E00"
"""The frame of a picture that beats a guess; its caption says so too, for who sees no colours."""
_CELL, _CAPTION, _MARGIN, _HEAD, _FOOT = 1.55, 0.36, 1.15, 0.95, 0.45  # inches


def draw(result: Inversion) -> Figure:
    """The whole grid."""
    epsilons = _epsilons(result)
    rows = list(dict.fromkeys((o.release.model, o.release.record) for o in result.outcomes))
    rows = [row for row in rows if row[1] < MOST_ROWS]
    found = {(o.release.model, o.release.record, o.release.epsilon): o for o in result.outcomes}
    columns = len(epsilons) + (result.truth is not None)
    width, height = _MARGIN + _CELL * columns, _HEAD + (_CELL + _CAPTION) * len(rows) + _FOOT
    figure = Figure(figsize=(width, height), dpi=130, facecolor="white")
    grid = figure.subplots(len(rows), columns, squeeze=False)
    figure.subplots_adjust(
        left=_MARGIN / width,
        right=1 - 0.1 / width,
        top=1 - _HEAD / height,
        bottom=(_FOOT + _CAPTION) / height,
        wspace=0.1,
        hspace=(_CAPTION + 0.1) / (_CELL - 0.1),
    )
    for place, (model, record) in enumerate(rows):
        axes = list(grid[place])
        _name(axes[0], model, record)
        if result.truth is not None:
            label = f"label {result.truth.labels[record]}"
            if model == "logistic":
                label += f", half {result.truth.upper[record]}"
            _show(axes.pop(0), result.truth.pictures[record], label)
        for axis, epsilon in zip(axes, epsilons, strict=True):
            _outcome(axis, found.get((model, record, epsilon)))
    heads = [] if result.truth is None else ["original"]
    heads += ["no noise" if epsilon is None else f"ε = {epsilon:g}" for epsilon in epsilons]
    for axis, head in zip(grid[0], heads, strict=True):
        axis.set_title(head, color=INK, fontsize=11, pad=6)
    _frame_words(figure, result, height)
    return figure


def _epsilons(result: Inversion) -> list[float | None]:
    """Without noise first, then from weak to strong."""
    values = {outcome.release.epsilon for outcome in result.outcomes}
    noisy = sorted((value for value in values if value is not None), reverse=True)
    return [*([None] if None in values else []), *noisy]


def _outcome(axis: Axes, outcome: Outcome | None) -> None:
    if outcome is None:
        axis.set_axis_off()
        return
    if outcome.score is None:
        _show(axis, outcome.picture, f"label {outcome.label}")
        return
    score = outcome.score
    mark = "right" if score.is_label_right else "wrong"
    decibels = f"{score.psnr:.1f}" if score.psnr < MOST_PSNR else f"over {MOST_PSNR:.0f}"
    caption = f"PSNR {decibels} dB, SSIM {score.ssim:.2f}\nlabel {mark}"
    _show(axis, outcome.picture, f"{caption}, recovered" if score.beats_guessing else caption)
    if score.beats_guessing:
        for side in axis.spines.values():
            side.set_color(BETTER)
            side.set_linewidth(2.2)


def _show(axis: Axes, picture: Picture, caption: str) -> None:
    values: NDArray[Any] = np.clip(picture, 0, 1).transpose(1, 2, 0)
    if values.shape[2] == 1:
        axis.imshow(values[..., 0], cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    else:
        axis.imshow(values[..., :3], interpolation="nearest")
    axis.set_xticks([])
    axis.set_yticks([])
    for side in axis.spines.values():
        side.set_color(SOFT)
        side.set_linewidth(0.6)
    axis.set_xlabel(caption, color=INK, fontsize=7, labelpad=3)


def _name(axis: Axes, model: str, record: int) -> None:
    name = MODELS[model].replace(" ", "\n")
    axis.set_ylabel(
        f"{name}\nrecord {record + 1}", color=INK, fontsize=10, rotation=0, ha="right", va="center", labelpad=10
    )


def _frame_words(figure: Figure, result: Inversion, height: float) -> None:
    index = result.index
    title = f"What a release says about its record ({index.data}, batches of one)"
    figure.text(0.02, 1 - 0.22 / height, title, color=INK, fontsize=13, va="center", weight="bold")
    figure.text(0.02, 1 - 0.48 / height, MECHANISMS[index.mechanism], color=SOFT, fontsize=9.5, va="center")
    scores = [outcome.score for outcome in result.outcomes if outcome.score is not None]
    if scores:
        psnr, ssim = (np.mean([getattr(score, f"guess_{name}") for score in scores]) for name in ("psnr", "ssim"))
        words = (
            f"recovered, orange frame: more like the original than 95 % of unrelated pictures are "
            f"(about {psnr:.1f} dB and SSIM {ssim:.2f})"
        )
        figure.text(0.02, 0.24 / height, words, color=SOFT, fontsize=8.5, va="center")
