"""What a report says about one run, as text: results, the meaning of its epsilon, edges, stages, how to repeat it.

Numbers come from the run's summary; where that is missing, as in a run still going on, from the records.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from lab.folder import Run

MISSING = "-"
STAGE_COLUMNS = ("stage", "from_update", "sensitivity", "clip_norm", "learning_rate")
COMPLETE = "complete"


def describe(label: str, run: Run, colour: str) -> dict[str, Any]:
    """Everything the page says about one run."""
    summary, history = run.summary, run.history
    last = history.scores[-1] if history.scores else None
    updates, seconds = summary.get("updates", history.updates), summary.get("seconds", history.seconds)
    edges, columns, state = _edges(run), _stage_columns(history.stages), state_of(run)
    return {
        "label": label,
        "colour": colour,
        "algorithm": summary.get("algorithm") or setting(run, "algorithm", "name"),
        "dataset": summary.get("dataset") or setting(run, "data", "name"),
        "model": summary.get("model") or setting(run, "model", "name"),
        "accuracy": number(summary.get("test_accuracy", last and last.accuracy), "{:.3f}"),
        "loss": number(summary.get("test_loss", last and last.loss), "{:.3f}"),
        "epsilon": _span([edge.epsilon for edge in history.edges.values() if edge.epsilon is not None]),
        "updates": number(updates, "{:,.0f}"),
        "seconds": number(seconds, "{:.1f}"),
        "pace": number(updates / seconds if seconds else None, "{:.0f}"),
        "staleness": _staleness(run),
        "state": state,
        "complete": state == COMPLETE,
        "promise": promise_of(run),
        "edges": edges,
        "stage_names": [name.replace("_", " ") for name in columns],
        "stages": [[number(stage.get(name), "{:.4g}") for name in columns] for stage in history.stages],
        "facts": _facts(run),
    }


def state_of(run: Run) -> str:
    """Whether the run came to its end: "complete", what the summary says instead, or that it has none yet."""
    if not run.summary:
        return "no summary yet"
    return str(run.summary.get("state", COMPLETE))


def promise_of(run: Run) -> str:
    """In words: what the run's epsilon promises, or why it has none."""
    privacy = run.settings.get("privacy") or {}
    known = [edge for edge in run.history.edges.values() if edge.epsilon is not None]
    if privacy.get("mechanism") == "none":
        return "No privacy is claimed: what the edges send has no noise (mechanism: none), so there is no epsilon."
    if setting(run, "algorithm", "rigour") == "paper":
        return "dp: not established. This run follows the paper to the letter: its noise is not proved to be private."
    if not known:
        return " ".join(["No edge has reported its ledger, so the total is not known.", *_notes(run)])
    worst = max(known, key=lambda edge: edge.epsilon or 0.0)
    dp_delta = privacy.get("dp_delta") if worst.dp_delta is None else worst.dp_delta
    adjacency = "replaced" if privacy.get("adjacency") == "replace_one" else "added or removed"
    sentences = (
        "Differential privacy for every single record, towards everyone outside its edge, cloud and broker included:",
        f"with one record {adjacency}, nothing seen in the whole run becomes more likely by a factor above",
        f"e^{number(worst.epsilon, '{:.3g}')} = {_factor(worst.epsilon)},",
        f"except with probability {number(dp_delta, '{:.2g}')}.",
        f"This is the total of {worst.id}, which spent most, over its {number(worst.releases, '{:,}')} releases,",
        "as its own ledger counted them." if worst.has_settled else "as last reported; it did not say goodbye.",
    )
    return " ".join([*sentences, *_notes(run)])


def _notes(run: Run) -> list[str]:
    """How the totals were counted, and which edges have none."""
    edges = [run.history.edges[name] for name in sorted(run.history.edges)]
    parts = [part for edge in edges if edge.epsilon is not None for part in edge.note.split("; ")]
    parts += str((run.summary.get("privacy") or {}).get("note", "")).split("; ")
    notes = [f"{edge.id} has no total: {edge.note or 'it has not reported'}." for edge in edges if edge.epsilon is None]
    counted = [part for part in dict.fromkeys(parts) if part]
    return [f"Counted as: {'; '.join(counted)}.", *notes] if counted else notes


def _factor(epsilon: float | None) -> str:
    return number(math.exp(epsilon) if epsilon is not None and epsilon < 700 else None, "{:,.3g}")


def _edges(run: Run) -> list[dict[str, str]]:
    """The per-edge table. Ledgers come from the edges' farewells, the rest from what the cloud counted."""
    told = {str(edge.get("id")): edge for edge in run.summary.get("edges", [])}
    rows = []
    for name in sorted({*told, *run.history.edges}):
        seen, said = run.history.edge(name), told.get(name, {})
        row = {
            "id": name,
            "samples": number(said.get("samples", seen.samples), "{:,}"),
            "updates": number(said.get("updates", seen.updates), "{:,}"),
            "releases": number(seen.releases, "{:,}" if seen.has_settled else "{:,} so far"),
            "per_release": number(said.get("epsilon_per_release"), "{:.3g}"),
            "epsilon": number(seen.epsilon, "{:.3g}" if seen.has_settled else "{:.3g} so far"),
            "dp_delta": number(seen.dp_delta, "{:.2g}"),
            "dropped": number(seen.dropped, "{:,}"),
            "refused": number(seen.refused, "{:,}"),
        }
        rows.append(row)
    return rows


def _staleness(run: Run) -> str:
    counts = run.history.staleness
    if not counts:
        return MISSING
    mean = sum(key * count for key, count in counts.items()) / counts.total()
    return f"{mean:.1f} ({max(counts)})"


def _stage_columns(stages: Sequence[Mapping[str, Any]]) -> list[str]:
    """The columns every stage has first, then whatever else a controller tells."""
    present = {name for stage in stages for name in stage}
    return [name for name in STAGE_COLUMNS if name in present] + sorted(present - set(STAGE_COLUMNS))


def _facts(run: Run) -> list[tuple[str, str]]:
    """What it takes to make the run again."""
    facts = [("folder", str(run.path)), ("end", run.history.reason or MISSING)]
    return facts + [(name.replace("_", " "), str(value)) for name, value in run.about.items()]


def setting(run: Run, section: str, key: str) -> str:
    """A value of the resolved experiment."""
    return str((run.settings.get(section) or {}).get(key, MISSING))


def _span(values: Sequence[float]) -> str:
    """One text for the values of all edges: the value they share, or the smallest and the largest."""
    texts = list(dict.fromkeys(f"{value:.3g}" for value in sorted(values)))
    if not texts:
        return MISSING
    return texts[0] if len(texts) == 1 else f"{texts[0]} to {texts[-1]}"


def number(value: object, form: str) -> str:
    """The number in this form, or a dash where there is none."""
    return form.format(value) if isinstance(value, int | float) and not isinstance(value, bool) else MISSING
