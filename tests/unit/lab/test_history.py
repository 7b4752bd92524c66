"""The fold of a cloud's records."""

from __future__ import annotations

import math

import pytest
from made_up_run import START, rows

from lab.history import History


def fold(*items: dict[str, object]) -> History:
    history = History()
    for item in items:
        history.add({"run": "r", "node": "cloud", "time": START, **item})
    return history


def test_counts_updates_scores_stages_and_edges() -> None:
    history = fold(*rows(updates=1000, edges=3))
    assert history.updates == 1000
    assert history.staleness.total() == 1000
    assert len(history.scores) == 20
    assert [stage["from_update"] for stage in history.stages] == [0, 250, 500, 750]
    assert sum(edge.updates for edge in history.edges.values()) == 1000
    assert {edge.epsilon for edge in history.edges.values()} == {2.1}
    assert history.online == 0
    assert history.reason == "all updates applied"
    assert history.seconds == pytest.approx(2.5)


def test_an_evaluation_belongs_where_its_parameters_were_made() -> None:
    update = {"kind": "update", "edge": "edge-0001", "applied": True}
    history = fold(
        {"kind": "begin"},
        {**update, "time": START + 1, "version": 4, "staleness": 2, "update": 7},
        {**update, "time": START + 2, "version": 7, "staleness": 0, "update": 8},
        {"kind": "evaluation", "time": START + 5, "version": 7, "accuracy": 0.5, "loss": 1.0},
    )
    assert (history.scores[0].updates, history.scores[0].seconds) == (7, 1.0)


def test_a_late_evaluation_of_the_first_parameters_belongs_at_the_start() -> None:
    update = {"kind": "update", "edge": "edge-0001", "applied": True, "time": START + 2}
    history = fold(
        {"kind": "begin"},
        {**update, "version": 1, "staleness": 0, "update": 1},
        {"kind": "evaluation", "time": START + 5, "version": 1, "accuracy": 0.1, "loss": 2.3},
    )
    assert (history.scores[0].updates, history.scores[0].seconds) == (0, 0.0)


def test_a_dropped_update_is_not_an_applied_one() -> None:
    update = {"kind": "update", "edge": "edge-0001", "version": 1, "update": 3}
    history = fold({**update, "staleness": 0, "applied": True}, {**update, "staleness": 40, "applied": False})
    assert history.updates == 3
    assert history.staleness == {0: 1}
    assert (history.edges["edge-0001"].updates, history.edges["edge-0001"].dropped) == (1, 1)


def test_presence_follows_joining_and_leaving() -> None:
    joined = {"kind": "joined", "samples": 5, "event": {"mechanism": "none"}}
    history = fold({**joined, "edge": "edge-0001"}, {**joined, "edge": "edge-0002"})
    assert history.online == 2
    history.add({"kind": "left", "edge": "edge-0002", "reason": "lost", "time": START + 1})
    assert history.online == 1
    history.add({**joined, "edge": "edge-0002", "time": START + 2})
    assert history.online == 2


def test_pace_is_measured_over_a_window_and_unknown_at_first() -> None:
    history = fold({"kind": "begin"})
    assert history.pace(START) is None
    for second in range(1, 61):
        row = {"kind": "update", "edge": "e", "version": 1, "staleness": 0, "applied": True}
        slow = second if second <= 30 else 30 + 10 * (second - 30)
        history.add({**row, "time": START + second, "update": slow})
    assert history.pace(START + 60) == pytest.approx(10.0, rel=0.1)


def test_a_loss_that_is_not_finite_is_read_as_nan() -> None:
    history = fold({"kind": "evaluation", "version": 1, "accuracy": 0.1, "loss": None})
    assert math.isnan(history.scores[0].loss)


def test_rows_of_unknown_kinds_are_passed_over() -> None:
    assert fold({"kind": "horoscope", "stars": 5}).latest is None


def test_what_one_process_of_several_reports_is_not_what_its_edge_has_spent() -> None:
    joined = {"kind": "joined", "edge": "edge-0001", "samples": 5, "event": {"mechanism": "gaussian"}}
    report = {"kind": "report", "edge": "edge-0001", "metrics": {"epsilon": 2.0, "releases": 7.0}}
    history = fold({**joined, "boot": "first"}, report)
    edge = history.edges["edge-0001"]
    assert (edge.epsilon, edge.releases) == (2.0, 7)
    history.add({**joined, "boot": "second", "time": START + 1})
    history.add({**report, "time": START + 2})
    assert (edge.epsilon, edge.releases) == (None, None)
