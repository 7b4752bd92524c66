"""The summary of made-up records, worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from harness import experiment

from cloud.summary import summarise
from common.events import Event
from common.privacy.accountant import total

EVENT = {
    "mechanism": "gaussian",
    "noise_multiplier": 2.0,
    "dimension": 650,
    "sampling": "poisson",
    "sampling_rate": 0.5,
}


def row(time: float, kind: str, **content: Any) -> dict[str, Any]:
    return {"run": "r", "node": "cloud", "time": time, "kind": kind, **content}


def joined(time: float, edge: str, boot: str = "b1", **event: Any) -> dict[str, Any]:
    return row(time, "joined", edge=edge, samples=24, event=EVENT | event, boot=boot)


def update(time: float, edge: str, number: int, staleness: int, applied: bool = True) -> dict[str, Any]:
    return row(
        time, "update", edge=edge, ticket=1, version=1, staleness=staleness, stage=1, applied=applied, update=number
    )


def bye(time: float, edge: str, **content: Any) -> dict[str, Any]:
    said = {
        "reason": "updates reached",
        "releases": 3,
        "epsilon": 1.5,
        "dp_delta": 1e-5,
        "note": "by PLD",
        "boot": "b1",
    }
    return row(time, "bye", edge=edge, **(said | content))


def answer(time: float, edge: str) -> dict[str, Any]:
    return row(time, "answer", edge=edge, ticket=2, version=1, used=True)


def run() -> list[dict[str, Any]]:
    return [
        joined(1.0, "edge-0002"),
        joined(1.0, "edge-0001"),
        row(2.0, "begin", kappa=650.0),
        row(2.0, "evaluation", version=1, accuracy=0.1, loss=2.3),
        row(2.0, "stage", stage=1, from_update=0, sensitivity=0.2, clip_norm=1.2, learning_rate=0.1),
        update(2.5, "edge-0001", 1, 0),
        update(3.0, "edge-0002", 2, 1),
        update(3.5, "edge-0002", 2, 9, applied=False),
        row(3.5, "probe", version=3, loss=1.0, share=0.5, answers=2, rollback=True),
        answer(3.4, "edge-0001"),
        update(4.0, "edge-0001", 3, 2),
        row(4.5, "refused", edge="edge-0002", reason="ticket"),
        row(6.0, "end", reason="updates reached", updates=3, failed=False),
        bye(7.0, "edge-0001"),
        bye(8.0, "edge-0002", releases=4, epsilon=2.5),
        row(9.0, "evaluation", version=4, accuracy=0.9, loss=0.4),
        row(9.0, "something new", whatever=1),
    ]


def test_a_whole_run() -> None:
    summary = summarise(experiment(), run())
    assert {key: summary[key] for key in ("state", "reason", "algorithm", "dataset", "model", "dp")} == {
        "state": "complete",
        "reason": "updates reached",
        "algorithm": "audp",
        "dataset": "digits",
        "model": "softmax",
        "dp": "established",
    }
    assert (summary["updates"], summary["seconds"], summary["updates_per_second"]) == (3, 4.0, 0.75)
    assert (summary["test_accuracy"], summary["test_loss"], summary["dp_delta"]) == (0.9, 0.4, 1e-5)
    assert summary["staleness"] == {"mean": 1.0, "max": 2}
    assert (summary["probes"], summary["rollbacks"]) == (1, 1)
    assert summary["stages"] == [
        {"stage": 1, "from_update": 0, "sensitivity": 0.2, "clip_norm": 1.2, "learning_rate": 0.1}
    ]
    first, second = summary["edges"]
    alone = total({Event.model_validate(EVENT): 1}, 1e-5).epsilon
    assert first == {
        "id": "edge-0001",
        "samples": 24,
        "updates": 2,
        "dropped": 0,
        "answers": 1,
        "refused": 0,
        "releases": 3,
        "epsilon_per_release": alone,
        "epsilon_total": 1.5,
        "ledger_releases": None,
        "ledger_epsilon": None,
        "dp_delta": 1e-5,
        "simulated": True,
        "note": "by PLD",
        "left": "updates reached",
    }
    assert (second["id"], second["updates"], second["dropped"], second["refused"]) == ("edge-0002", 1, 1, 1)
    assert (second["releases"], second["epsilon_total"]) == (4, 2.5)
    assert summary["privacy"]["unit"] == "one record"
    assert summary["privacy"]["simulated"]
    assert "simulated DP: the noise of every edge follows from a seed" in summary["privacy"]["note"]


@pytest.mark.parametrize(
    ("declared", "said", "found", "label"),
    [
        ("secure", (False, False), (False, False), None),
        ("secure", (None, None), (False, False), None),
        ("secure", (False, True), (False, True), "the noise of edge-0002 follows"),
        ("reproducible", (True, True), (True, True), "the noise of every edge follows"),
        ("reproducible", (None, False), (True, False), "the noise of edge-0001 follows"),
        ("reproducible", (False, False), (False, False), None),
    ],
)
def test_what_an_edge_says_of_its_noise_counts_and_else_what_the_experiment_says(
    declared: str, said: tuple[bool | None, ...], found: tuple[bool, ...], label: str | None
) -> None:
    """The cloud's file may say something else than that of an edge's host."""
    rows = [row for row in run() if row["kind"] != "bye"]
    for edge, simulated in zip(("edge-0001", "edge-0002"), said, strict=True):
        if simulated is not None:
            rows.append(bye(7.0, edge, simulated=simulated))
    summary = summarise(experiment(privacy__randomness=declared), rows)
    assert tuple(edge["simulated"] for edge in summary["edges"]) == found
    assert summary["privacy"]["simulated"] is any(found)
    assert ("simulated DP" in summary["privacy"]["note"]) is (label is not None)
    assert label is None or label in summary["privacy"]["note"]


def test_one_seeded_process_of_an_edge_is_enough() -> None:
    rows = [*run(), bye(8.5, "edge-0001", simulated=True), bye(8.6, "edge-0001", simulated=False)]
    assert [edge["simulated"] for edge in summarise(experiment(privacy__randomness="secure"), rows)["edges"]] == [
        True,
        False,
    ]


def test_before_any_edge_joins_the_experiment_decides() -> None:
    for randomness, is_simulated in (("secure", False), ("reproducible", True)):
        assert summarise(experiment(privacy__randomness=randomness), [])["privacy"]["simulated"] is is_simulated
    assert not summarise(experiment(privacy={"mechanism": "none"}, algorithm__name="asgd"), [])["privacy"]["simulated"]


@pytest.mark.parametrize(
    ("rows", "state"),
    [
        ([], "broken off"),
        (run()[:6], "broken off"),
        ([*run()[:6], row(6.0, "end", reason="interrupted", updates=1, failed=False)], "interrupted"),
        ([*run()[:6], row(6.0, "end", reason="diverged", updates=1, failed=True)], "failed"),
        (
            [*run()[:6], row(6.0, "end", reason="budgets spent after 1 updates", updates=1, failed=False)],
            "budgets spent",
        ),
    ],
)
def test_what_became_of_it(rows: list[dict[str, Any]], state: str) -> None:
    assert summarise(experiment(), rows)["state"] == state


def test_an_edge_that_never_said_bye_has_no_total() -> None:
    (edge, _) = summarise(experiment(), run()[:12])["edges"]
    assert edge["epsilon_total"] is None
    assert "no Bye" in edge["note"]


def test_a_ledger_that_holds_less_than_was_received_is_not_believed() -> None:
    """An edge started again elsewhere, without its folder, knows of no earlier release: here of two of three."""
    for releases, total_epsilon in ((3, 1.5), (2, None), (0, None)):
        rows = [*run()[:-4], bye(7.0, "edge-0001", releases=releases)]
        first = summarise(experiment(), rows)["edges"][0]
        assert first["epsilon_total"] == total_epsilon
        assert ("contradicted" in first["note"]) is (total_epsilon is None)


@pytest.mark.parametrize("boot", ["b2", None])
def test_a_ledger_of_a_process_that_did_not_join_is_not_believed(boot: str | None) -> None:
    first = summarise(experiment(), [*run()[:-4], bye(7.0, "edge-0001", boot=boot)])["edges"][0]
    assert first["epsilon_total"] is None
    assert "restarted" in first["note"]


def test_an_event_that_the_accountant_refuses_costs_one_note_and_not_the_summary() -> None:
    rows = [joined(1.0, "edge-0001"), joined(1.0, "edge-0002", sampling="fixed")]  # fixed, and add_remove
    summary = summarise(experiment(), rows)
    assert [edge["epsilon_per_release"] is None for edge in summary["edges"]] == [False, True]
    assert summary["dp"] == "not established"
    assert "UnsupportedEvent" in summary["privacy"]["note"]


def test_an_edge_of_several_processes_has_no_total() -> None:
    rows = run()
    rows.insert(8, joined(3.6, "edge-0001", boot="b2"))
    first, second = summarise(experiment(), rows)["edges"]
    assert first["epsilon_total"] is None
    assert "restarted" in first["note"]
    assert second["epsilon_total"] == 2.5


@pytest.mark.parametrize(("releases", "is_believed"), [(3, True), (4, True), (2, False)])
def test_a_ledger_that_outlives_its_processes_is_believed_if_it_holds_what_was_received(
    releases: int, is_believed: bool
) -> None:
    rows = [row for row in run() if row["kind"] != "bye" or row["edge"] != "edge-0001"]
    rows.insert(8, joined(3.6, "edge-0001", boot="b2"))
    rows.append(
        bye(7.0, "edge-0001", boot="b2", releases=releases, epsilon=1.7, ledger_releases=90, ledger_epsilon=8.0)
    )
    first = summarise(experiment(), rows)["edges"][0]
    assert first["ledger_releases"] == 90
    assert (first["epsilon_total"], first["ledger_epsilon"]) == ((1.7, 8.0) if is_believed else (None, None))
    assert ("contradicted" in first["note"]) is not is_believed


def test_an_account_does_not_cover_a_process_that_came_after_it() -> None:
    """It left with a margin of releases that never arrived; its successor was killed and said nothing."""
    told = {"releases": 9, "epsilon": 1.7, "ledger_releases": 90, "ledger_epsilon": 8.0}
    rows = [row for row in run() if row["kind"] != "bye" or row["edge"] != "edge-0001"]
    rows.append(bye(6.1, "edge-0001", **told))
    first = summarise(experiment(), rows)["edges"][0]
    assert (first["epsilon_total"], first["ledger_epsilon"]) == (1.7, 8.0)  # the control
    rows.append(joined(6.2, "edge-0001", boot="b2"))
    first = summarise(experiment(), rows)["edges"][0]
    assert (first["epsilon_total"], first["ledger_epsilon"]) == (None, None)
    assert "no Bye of the last process, b2" in first["note"]


@pytest.mark.parametrize(
    ("event", "dp"),
    [
        ({"mechanism": "none", "noise_multiplier": None}, "none"),
        ({"mechanism": "paper"}, "not established"),
        ({"sampling": "replacement", "adjacency": "replace_one"}, "not established"),
    ],
)
def test_the_weakest_edge_decides_what_may_be_said(event: dict[str, Any], dp: str) -> None:
    rows = [joined(1.0, "edge-0001"), joined(1.0, "edge-0002", **event)]
    summary = summarise(experiment(), rows)
    assert summary["dp"] == dp
    assert [edge["epsilon_per_release"] is None for edge in summary["edges"]] == [False, True]
