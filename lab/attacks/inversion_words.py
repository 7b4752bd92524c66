"""An inversion in words: a table of scores, and what they say in two sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean

from lab.attacks.inversion import Inversion, Outcome, Score

MECHANISMS = {
    "paper": "the paper's literal noise, whose epsilon is claimed and not established",
    "rigorous": "spherical Laplace noise of that pure epsilon for one record replaced",
    "gaussian": "Gaussian noise of the same size as spherical Laplace noise of that epsilon",
}
MODELS = {"logistic": "logistic regression", "softmax": "softmax regression", "svm": "linear SVM", "cnn": "CNN"}


def lines(result: Inversion) -> Iterator[str]:
    """The inversion on a terminal."""
    yield f"{'model':<20} {'epsilon':>8} {'PSNR dB':>8} " + " ".join(
        f"{name:>{width}}" for name, width in (("SSIM", 6), ("label", 6), ("better", 7), ("picked", 7), ("seconds", 8))
    )
    for outcomes in _groups(result):
        first, scores = outcomes[0].release, _scores(outcomes)
        seconds = fmean(outcome.seconds for outcome in outcomes)
        name, epsilon = MODELS[first.model], _epsilon(first.epsilon)
        if scores:
            counts = [_share(scores, rule) for rule in (_is_right, _is_better, _is_picked)]
            means = f"{fmean(score.psnr for score in scores):8.1f} {fmean(score.ssim for score in scores):6.2f}"
            yield f"{name:<20} {epsilon:>8} {means} {counts[0]:>6} {counts[1]:>7} {counts[2]:>7} {seconds:8.2f}"
        else:
            yield f"{name:<20} {epsilon:>8} {'-':>8} {'-':>6} {'-':>6} {'-':>7} {'-':>7} {seconds:8.2f}"
    if result.truth is not None:
        others = len(result.truth.others)
        yield "better: more like the record, by PSNR and by SSIM, than 95 % of unrelated pictures are"
        yield f"picked: what came back points to the record among {others} others (by chance: 1 in {others + 1})"
    yield from sentences(result)


def sentences(result: Inversion) -> Sequence[str]:
    """What is seen without noise and with it: one sentence each, for anyone."""
    if result.truth is None:
        return ("Nobody kept the records, so how well they came back is for the eye to judge.",)
    found = []
    plain = _scores([outcome for outcome in result.outcomes if outcome.release.epsilon is None])
    if plain:
        better, labels = _share(plain, _is_better), _share(plain, _is_right)
        found.append(
            f"Without noise a gradient gives its record away: {better} pictures came back better than a guess, at a "
            f"PSNR of {fmean(score.psnr for score in plain):.0f} dB on average where a good guess has "
            f"{fmean(score.guess_psnr for score in plain):.0f}, and {labels} labels."
        )
    noisy: dict[float, list[Score]] = {}
    for outcome in result.outcomes:
        if outcome.release.epsilon is not None:
            noisy.setdefault(outcome.release.epsilon, []).extend(_scores([outcome]))
    if noisy:
        order = sorted(noisy, reverse=True)
        better = _listed([f"{_share(noisy[epsilon], _is_better)} at epsilon {epsilon:g}" for epsilon in order])
        picked = _listed([_share(noisy[epsilon], _is_picked) for epsilon in order])
        others = len(result.truth.others)
        found.append(
            f"With {MECHANISMS[result.index.mechanism]}, pictures better than a guess were {better}; what came back "
            f"pointed to its record among {others} others in {picked} cases (by chance in 1 of {others + 1})."
        )
    return found


def _groups(result: Inversion) -> Iterator[Sequence[Outcome]]:
    """Outcomes of the same model and epsilon."""
    keys = dict.fromkeys((outcome.release.model, outcome.release.epsilon) for outcome in result.outcomes)
    for key in keys:
        yield [outcome for outcome in result.outcomes if (outcome.release.model, outcome.release.epsilon) == key]


def _listed(parts: Sequence[str]) -> str:
    return " and ".join(part for part in (", ".join(parts[:-1]), parts[-1]) if part)


def _scores(outcomes: Sequence[Outcome]) -> list[Score]:
    return [outcome.score for outcome in outcomes if outcome.score is not None]


def _share(scores: Sequence[Score], rule: Callable[[Score], bool]) -> str:
    return f"{sum(map(rule, scores))}/{len(scores)}"


def _is_better(score: Score) -> bool:
    return score.beats_guessing


def _is_right(score: Score) -> bool:
    return score.is_label_right


def _is_picked(score: Score) -> bool:
    return score.picked


def _epsilon(value: float | None) -> str:
    return "no noise" if value is None else f"{value:g}"
