"""What a launch shows while it runs."""

from __future__ import annotations

import io

import pytest
from made_up_run import START, rows
from rich.console import Console

from common.experiment import Experiment, parse
from lab.history import History
from lab.progress import LiveScreen, PlainScreen, screen_for, status_of


def experiment(**stop: float) -> Experiment:
    content = {"name": "demo", "data": {"name": "digits", "edges": 3}, "model": {"name": "softmax"}}
    return parse({**content, "algorithm": {"name": "mapa"}, "stop": stop or {"updates": 1000}})


def half_way() -> History:
    history = History()
    for row in rows(updates=1000, edges=3, speed=100.0):
        if row["kind"] not in ("bye", "end") and row["time"] <= START + 5:
            history.add(row)
    return history


def test_status_reads_updates_stage_accuracy_edges_pace_and_time_left() -> None:
    status = status_of(half_way(), experiment(), START + 5)
    assert (status.updates, status.stage, status.online, status.share) == (500, 3, 3, 0.5)
    assert status.accuracy == pytest.approx(0.89, abs=0.01)
    assert status.pace == pytest.approx(100, rel=0.1)
    assert status.left == pytest.approx(5, rel=0.1)
    assert status.line() == (
        f"updates 500/1,000 | edges 3/3 | stage 3 | accuracy {status.accuracy:.3f} | epsilon 2.1 so far | "
        f"{status.pace:.0f} updates/s | 0:05 left"
    )


def test_a_seeded_run_is_called_simulated_while_it_runs() -> None:
    content = experiment().model_dump(mode="json")
    content["privacy"]["randomness"] = "reproducible"
    status = status_of(half_way(), Experiment.model_validate(content, strict=False), START + 5)
    assert status.privacy == "epsilon 2.1 so far (simulated DP)"


def test_the_nearer_end_of_the_stop_rule_counts() -> None:
    status = status_of(half_way(), experiment(updates=1000, seconds=6.0), START + 5)
    assert status.share == pytest.approx(5 / 6)
    assert status.left == pytest.approx(1.0)


def test_before_the_first_row_nothing_is_invented() -> None:
    assert status_of(History(), experiment(), START).line() == "updates 0/1,000 | edges 0/3 | epsilon -"


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [("mechanism", "none", "no privacy"), ("rigour", "paper", "dp: not established")],
)
def test_a_run_without_epsilon_says_why(key: str, value: str, text: str) -> None:
    chosen = experiment()
    section = "privacy" if key == "mechanism" else "algorithm"
    changed = getattr(chosen, section).model_copy(update={key: value})
    assert status_of(half_way(), chosen.model_copy(update={section: changed}), START + 5).privacy == text


def test_plain_lines_are_spaced_and_quiet_says_only_what_happened() -> None:
    status = status_of(half_way(), experiment(), START + 5)
    stream = io.StringIO()
    screen = PlainScreen(stream)
    for tenth in range(50):
        screen.show(status, START + tenth / 10)
    assert len(stream.getvalue().splitlines()) == 3
    quiet = io.StringIO()
    with screen_for(quiet, "run", quiet=True) as screen_of_few_words:
        screen_of_few_words.show(status, START)
        screen_of_few_words.say("edge-0002 ended with exit code 3")
    assert quiet.getvalue() == "edge-0002 ended with exit code 3\n"


def test_the_panel_shows_every_number_and_leaves_the_terminal_clean() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=110, color_system=None)
    status = status_of(half_way(), experiment(), START + 5)
    with LiveScreen(console, "demo") as screen:
        screen.show(status, START)
        screen.say("broker: mosquitto")
    text = stream.getvalue()
    for word in ("demo", "500/1,000", "3 of 3", "epsilon 2.1", "broker: mosquitto", "\x1b[?25h"):
        assert word in text
