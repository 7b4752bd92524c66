"""An audit in words, made of what stands in `audit.json`: for the terminal and for the report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lab.rounding import at_least, at_most

Content = Mapping[str, Any]
CHANGES: Mapping[str, str] = {"add_remove": "added or removed", "replace_one": "replaced"}


def is_sound(content: Content) -> bool:
    """Whether all is there, and of the right type, that the words are made of."""
    parts = [content.get("one")] + ([content["whole"]] if content.get("whole") is not None else [])
    return (
        all(_are_numbers(content, (name,)) for name in ("confidence", "dp_delta", "reach", "clip_norm"))
        and isinstance(content.get("edge"), str)
        and content.get("adjacency") in CHANGES
        and all(isinstance(part, dict) and _is_part(part) for part in parts)
        and _are_numbers(parts[0] or {}, ("trials",))
        and all(_are_numbers(part or {}, ("guesses", "right")) for part in parts[1:])
    )


def sentences(content: Content) -> tuple[str, str]:
    """What was measured, and what that says about the claim: one sentence each, for anyone."""
    parts = _parts(content)
    reached = " and ".join(_reached(part) for part in parts)
    change = f"one record {CHANGES[content['adjacency']]} (dp_delta {content['dp_delta']:g})"
    first = (
        f"An attacker who knows all other records of {content['edge']}, chooses the model that it is sent and reads "
        f"what it releases off the wire was shown to reach, about {change}, {reached}."
    )
    return first, " ".join(dict.fromkeys(_judged(part) for part in parts))


def lines(content: Content) -> Iterator[str]:
    """The audit on a terminal."""
    one, whole = content["one"], content["whole"]
    yield (
        f"audit of {content['edge']}: one record {CHANGES[content['adjacency']]}, dp_delta {content['dp_delta']:g}, "
        f"{100 * content['confidence']:g} % confidence"
    )
    for part in _parts(content):
        claimed, measured = claimed_of(part), measured_of(part)
        yield f"  {_releases(part):<16} epsilon claimed {claimed}, measured {measured}: {part['verdict']}"
    yield (
        f"  one canary moved the average by {content['reach']:.1%} of what one record can, "
        f"in 2 x {one['trials']:,} trials"
        + ("" if whole is None else f"; {whole['right']:,} of {whole['guesses']:,} guesses about many were right")
    )
    yield from sentences(content)


def rows(content: Content) -> Sequence[Mapping[str, str]]:
    """The audit in a report: one row for each attack."""
    return [
        {
            "audited": f"{content['edge']}, {_releases(part)}",
            "claimed": claimed_of(part),
            "measured": measured_of(part),
            "verdict": part["verdict"],
        }
        for part in _parts(content)
    ]


def claimed_of(part: Content) -> str:
    """The claim, whosever it is."""
    claimed, printed = part["epsilon_claimed"], part["epsilon_printed"]
    if claimed is not None:
        return f"at most {at_most(claimed):.3g}"
    return "none" if printed is None else f"none (by the paper's proof: at most {at_most(printed):.3g})"


def measured_of(part: Content) -> str:
    """The measured bound."""
    return f"at least {at_least(part['epsilon_measured']):.3g}"


def _parts(content: Content) -> list[Content]:
    return [part for part in (content["one"], content["whole"]) if part is not None]


def _reached(part: Content) -> str:
    return f"an epsilon of {measured_of(part)} from {_releases(part)}"


def _judged(part: Content) -> str:
    measured, claimed, printed = (part[f"epsilon_{name}"] for name in ("measured", "claimed", "printed"))
    if claimed is not None:
        if measured > claimed:
            return f"The claim of at most {at_most(claimed):.3g} is FALSE: more gets out than code and accounting say."
        return "No claim was contradicted; that is a test of the code as shipped, not a proof."
    if printed is None:
        return "Nothing is claimed for such releases, so there is nothing to contradict."
    if measured > printed:
        return (
            "Nothing is claimed for the paper's literal reading, and rightly so: the mechanism that its proof is about "
            f"would keep epsilon to {at_most(printed):.3g}."
        )
    return (
        "Nothing is claimed for the paper's literal reading; this attack does not tell it from the mechanism that the "
        f"paper's proof is about, which keeps epsilon to {at_most(printed):.3g}."
    )


def _releases(part: Content) -> str:
    return "one release" if part["releases"] == 1 else f"{part['releases']:,} releases"


def _is_part(part: Content) -> bool:
    claims = [name for name in ("epsilon_claimed", "epsilon_printed") if part.get(name, 0) is not None]
    return _are_numbers(part, (*claims, "releases", "epsilon_measured")) and isinstance(part.get("verdict"), str)


def _are_numbers(content: Content, names: Sequence[str]) -> bool:
    found = [content.get(name) for name in names]
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in found)
