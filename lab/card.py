"""What a report says about one run, as text: results, the meaning of its epsilon, edges, stages, how to repeat it.

Numbers come from the run's summary; where that is missing, as in a run still going on, from what the same rules make
of the records. An epsilon is claimed only where the summary has one; what edges report before is shown as "so far".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeGuard

from lab.folder import Run
from lab.rounding import at_most
from lab.simulated import LABEL, is_simulated, noise_of, reservation
from lab.verdict import rows, sentences

MISSING = "-"
STAGE_COLUMNS = ("stage", "from_update", "sensitivity", "clip_norm", "learning_rate")
COMPLETE = "complete"
SO_FAR = " so far"
CHANGES = {"add_remove": "added or removed", "replace_one": "replaced"}
"""What an adjacency means, in words."""


def describe(label: str, run: Run, colour: str) -> dict[str, Any]:
    """Everything the page says about one run."""
    summary, history = run.summary, run.history
    last = history.scores[-1] if history.scores else None
    updates, seconds = summary.get("updates", history.updates), summary.get("seconds", history.seconds)
    pace = updates / seconds if _is_number(updates) and _is_number(seconds) and seconds > 0 else None
    edges, columns, state = _edges(run), _stage_columns(history.stages), state_of(run)
    return {
        "label": label,
        "colour": colour,
        "algorithm": summary.get("algorithm") or setting(run, "algorithm", "name"),
        "dataset": summary.get("dataset") or setting(run, "data", "name"),
        "model": summary.get("model") or setting(run, "model", "name"),
        "accuracy": number(summary.get("test_accuracy", last and last.accuracy), "{:.3f}"),
        "loss": number(summary.get("test_loss", last and last.loss), "{:.3f}"),
        "epsilon": _epsilon(run),
        "updates": number(updates, "{:,.0f}"),
        "seconds": number(seconds, "{:.1f}"),
        "pace": number(pace, "{:.0f}"),
        "staleness": _staleness(run),
        "state": state,
        "complete": state == COMPLETE,
        "promise": promise_of(run),
        "simulated": is_simulated(run),
        "audits": rows(run.audit) if run.audit else [],
        "audit_text": " ".join(sentences(run.audit)) if run.audit else "",
        "edges": edges,
        "stage_names": [name.replace("_", " ") for name in columns],
        "stages": [[number(stage.get(name), "{:.4g}") for name in columns] for stage in history.stages],
        "facts": _facts(run),
    }


def state_of(run: Run) -> str:
    """Whether the run came to its end: "complete", what the summary says instead, or that it has none yet."""
    if not run.is_summed_up:
        return "no summary yet"
    return str(run.summary.get("state", COMPLETE))


def promise_of(run: Run) -> str:
    """In words: what the run's epsilon promises, or why it has none."""
    if setting(run, "privacy", "mechanism") == "none":
        return "No privacy is claimed: what the edges send has no noise (mechanism: none), so there is no epsilon."
    if setting(run, "algorithm", "rigour") == "paper":
        return "dp: not established. This run follows the paper to the letter: its noise is not proved to be private."
    if run.summary.get("dp") == "not established":
        return " ".join(["dp: not established.", *reservation(run), *_notes(run)])
    edges = run.summary.get("edges", [])
    known = [edge for edge in edges if _is_number(edge.get("epsilon_total"))]
    change = CHANGES.get(str((run.summary.get("privacy") or {}).get("adjacency")))
    if not known:
        return " ".join(["No total is known, so nothing is claimed.", *reservation(run), *_so_far(run), *_notes(run)])
    if change is None:
        return "The summary does not say which change of a record its epsilon is about, so nothing is claimed."
    worst = max(known, key=lambda edge: float(edge["epsilon_total"]))
    whose = "every single record" if len(known) == len(edges) else f"each record of {len(known)} of {len(edges)} edges"
    sentences = (
        f"Differential privacy for {whose}, towards everyone outside its edge, cloud and broker included:",
        f"with one record {change}, nothing seen in the whole run becomes more likely by a factor above",
        f"e^{at_most(worst['epsilon_total']):.3g} = {_factor(float(worst['epsilon_total']))},",
        f"except with probability {number(worst.get('dp_delta'), '{:g}')}.",
        f"This is the total of {worst['id']}, which spent most, over its {number(worst.get('releases'), '{:,}')}",
        "releases, as its own ledger counted them.",
    )
    return " ".join([*reservation(run), *sentences, *_of_all_runs(known), *_notes(run)])


def _of_all_runs(edges: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the ledgers hold beside this run: a record that took part before has paid for that as well."""
    older = [edge for edge in edges if int(edge.get("ledger_releases") or 0) > int(edge.get("releases") or 0)]
    if not older:
        return []
    worst = max(older, key=lambda edge: float("inf") if edge["ledger_epsilon"] is None else edge["ledger_epsilon"])
    spent = worst["ledger_epsilon"]
    total = f"an epsilon of {at_most(spent):.3g}" if spent is not None else "a total that is not known"
    text = "Earlier runs on the same records count as well: since its ledger was begun,"
    return [f"{text} {worst['id']} has spent {total}, in {worst['ledger_releases']:,} releases."]


def _so_far(run: Run) -> list[str]:
    """What edges have reported of a run that is not summed up."""
    spent = [] if run.is_summed_up else _reported(run)
    text = "So far, as last reported, the edge that spent most is at epsilon"
    return [f"{text} {at_most(max(spent)):.3g}."] if spent else []


def _reported(run: Run) -> list[float]:
    return [edge.epsilon for edge in run.history.edges.values() if edge.epsilon is not None]


def _notes(run: Run) -> list[str]:
    """How the totals were counted, and which edges have none."""
    edges = run.summary.get("edges", [])
    known = [_is_number(edge.get("epsilon_total")) for edge in edges]
    parts = [part for edge, is_known in zip(edges, known, strict=True) if is_known for part in _parts(edge)]
    parts += _parts(run.summary.get("privacy") or {})
    notes = [
        f"{edge['id']} has no total: {edge.get('note') or 'the summary does not say why'}."
        for edge, is_known in zip(edges, known, strict=True)
        if not is_known
    ]
    counted = [part for part in dict.fromkeys(parts) if part]
    return [f"Counted as: {'; '.join(counted)}.", *notes] if counted else notes


def _parts(said: Mapping[str, Any]) -> list[str]:
    return [part for part in str(said.get("note") or "").split("; ") if not part.startswith(LABEL)]


def _factor(epsilon: float) -> str:
    return number(math.exp(epsilon) if epsilon < 700 else None, "{:,.3g}")


def _edges(run: Run) -> list[dict[str, str]]:
    """The per-edge table: what the summary says; before there is one, also what an edge has reported so far."""
    told = {str(edge["id"]): edge for edge in run.summary.get("edges", [])}
    rows = []
    for name in sorted({*told, *run.history.edges}):
        seen, said = run.history.edge(name), told.get(name, {})
        row = {
            "id": name,
            "samples": number(said.get("samples", seen.samples), "{:,}"),
            "updates": number(said.get("updates", seen.updates), "{:,}"),
            "releases": _or_so_far(run, said.get("releases"), seen.releases, "{:,}"),
            "per_release": number(_raised(said.get("epsilon_per_release")), "{:.3g}"),
            "epsilon": _or_so_far(run, _raised(said.get("epsilon_total")), _raised(seen.epsilon), "{:.3g}"),
            "dp_delta": number(said.get("dp_delta"), "{:g}"),
            "noise": noise_of(said, run) or MISSING,
            "dropped": number(said.get("dropped", seen.dropped), "{:,}"),
            "refused": number(said.get("refused", seen.refused), "{:,}"),
        }
        rows.append(row)
    return rows


def _or_so_far(run: Run, final: object, reported: object, form: str) -> str:
    if final is None and not run.is_summed_up:
        return number(reported, form + SO_FAR)
    return number(final, form)


def _epsilon(run: Run) -> str:
    """One text for the totals of all edges."""
    edges = run.summary.get("edges", [])
    known = [float(edge["epsilon_total"]) for edge in edges if _is_number(edge.get("epsilon_total"))]
    if not known and not run.is_summed_up:
        spent = _reported(run)
        return _span(spent) + SO_FAR + (f" ({LABEL})" if is_simulated(run) else "") if spent else MISSING
    missing = len(edges) - len(known)
    remarks = [f"{missing} of {len(edges)} not known"] * (missing > 0) + [LABEL] * is_simulated(run)
    return f"{_span(known)} ({'; '.join(remarks)})" if known and remarks else _span(known)


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
    facts = [("folder", str(run.path)), ("end", str(run.summary.get("reason") or run.history.reason or MISSING))]
    return facts + [(name.replace("_", " "), str(value)) for name, value in run.about.items()]


def setting(run: Run, section: str, key: str) -> str:
    """A value of the resolved experiment."""
    return str((run.settings.get(section) or {}).get(key, MISSING))


def _span(values: Iterable[float]) -> str:
    """One text for the epsilons of all edges: the value they share, or the smallest and the largest."""
    texts = list(dict.fromkeys(f"{at_most(value):.3g}" for value in sorted(values)))
    if not texts:
        return MISSING
    return texts[0] if len(texts) == 1 else f"{texts[0]} to {texts[-1]}"


def number(value: object, form: str) -> str:
    """The number in this form, or a dash where there is none."""
    return form.format(value) if _is_number(value) else MISSING


def _raised(epsilon: object) -> object:
    """To three digits, upwards."""
    return at_most(epsilon) if _is_number(epsilon) else epsilon


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
