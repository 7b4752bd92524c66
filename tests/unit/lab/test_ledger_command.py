"""`mapa ledger`: what is in ledgers, whether they are sound, and how a new one is begun."""

from __future__ import annotations

import io
import json
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from common.events import Event
from common.privacy.accountant import total
from common.records import Recorder
from edge.ledger_database import look
from edge.ledger_file import LedgerFile
from edge.owner import Owner
from lab.__main__ import main

TRAINING = Event(mechanism="gaussian", noise_multiplier=4.0, dimension=10)
PROBE = Event(mechanism="gaussian", noise_multiplier=15.0, dimension=2)
OWNER = Owner("edge-0001", "digits", 20, "ab" * 32)


def release(folder: Path, releases: int, owner: Owner = OWNER, run: str = "run-1", **changes: Any) -> None:
    """One process of a run; its records are where a run folder has them."""
    recorder = Recorder(folder / run / "edges" / owner.edge / "records.jsonl", run, owner.edge)
    name = folder / "ledgers" / f"{owner.edge}.db"
    with LedgerFile(name, run, f"boot-{run}", changes.get("randomness", "secure"), patience=0.05) as ledger:
        ledger.open(owner)
        for ticket in range(1, releases + 1):
            event = PROBE if ticket == 1 else TRAINING
            ledger.write(event, ticket)
            recorder.append("release", {"ticket": ticket, "event": event.model_dump(exclude_none=True)}, 0.0)
    recorder.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two edges; the first took part in two runs."""
    release(tmp_path, 5)
    release(tmp_path, 3, run="run-2")
    release(tmp_path, 4, replace(OWNER, edge="edge-0002"))
    return tmp_path


def test_show_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ledger", "show", str(folder / "ledgers"), "--json", "--delta", "1e-6"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert first == {
        "edge": "edge-0001",
        "file": str(folder / "ledgers" / "edge-0001.db"),
        "closed": False,
        "data_set": "digits",
        "records": 20,
        "fingerprint": "ab" * 32,
        "releases": 8,
        "carried": 0,
        "runs": {"run-1": 5, "run-2": 3},
        "processes": 2,
        "events": [
            {"event": PROBE.model_dump(exclude_none=True), "count": 2},
            {"event": TRAINING.model_dump(exclude_none=True), "count": 6},
        ],
        "epsilon": total({PROBE: 2, TRAINING: 6}, 1e-6).epsilon,
        "dp_delta": 1e-6,
        "simulated": False,
        "note": total({PROBE: 2, TRAINING: 6}, 1e-6).note,
    }
    assert (second["edge"], second["releases"]) == ("edge-0002", 4)


def test_show_to_people_below_the_folder_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    release(folder, 1, run="run-3", randomness="reproducible")
    assert main(["ledger", "show", str(folder), "--edge", "edge-0001"]) == 0
    text = capsys.readouterr().out
    for words in (
        "edge-0001: 9 releases, epsilon 2.552",
        "at delta 1e-05",
        "run-1 5, run-2 3, run-3 1",
        "6 x",
        "simulated",
    ):
        assert words in text
    assert "edge-0002" not in text


def test_verify_with_the_records_of_a_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = ["ledger", "verify", str(folder / "ledgers")]
    assert main(call) == 0
    for run in ("run-1", "run-2"):
        assert main([*call, "--run", str(folder / run)]) == 0
    assert "edge-0002: holds every release" in capsys.readouterr().out
    recorder = Recorder(folder / "run-1" / "edges" / "edge-0002" / "records.jsonl", "run-1", "edge-0002")
    recorder.append("release", {"ticket": 9, "event": TRAINING.model_dump(exclude_none=True)}, 0.0)
    recorder.close()
    assert main([*call, "--run", str(folder / "run-1")]) == 7
    assert "1 of 5 releases" in (text := capsys.readouterr().out)
    assert "ticket 9 of run run-1" in text
    assert main([*call, "--run", str(folder / "run-1"), "--edge", "edge-0001"]) == 0


def test_verify_finds_the_end_cut_off(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The one alteration that the chain cannot show: the records of the run do."""
    connection = sqlite3.connect(folder / "ledgers" / "edge-0002.db")
    (trigger,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'releases_DELETE'").fetchone()
    later = [text for (text,) in connection.execute("SELECT sql FROM sqlite_master WHERE type = 'trigger'")]
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute("DELETE FROM releases WHERE number = 4")
    connection.execute("DELETE FROM reserves WHERE after = 4")
    for text in later:
        connection.execute(text)
    connection.commit()
    connection.close()
    assert trigger in later
    call = ["ledger", "verify", str(folder / "ledgers")]
    assert main(call) == 0
    assert main([*call, "--run", str(folder / "run-1")]) == 7
    assert "1 of 4 releases" in capsys.readouterr().out


def test_what_cannot_be_relied_on_is_said_and_the_others_are_shown(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "ledgers" / "edge-0001.db").write_bytes(b"?" * 5000)
    (folder / "ledgers" / "edge-0002.db").unlink()
    release(folder, 2, replace(OWNER, edge="edge-0003"))
    for action in ("show", "verify"):
        assert main(["ledger", action, str(folder / "ledgers")]) == 7
        text = capsys.readouterr().out
        for words in ("edge-0001", "not a database", "edge-0002", "missing", "edge-0003"):
            assert words in text


def test_new_closes_what_was_and_begins_from_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledgers = folder / "ledgers"
    for number in (1, 2):
        assert main(["ledger", "new", str(ledgers), "--edge", "edge-0001", "--yes"]) == 0
        text = capsys.readouterr().out
        assert "stays with whoever received it" in text
        assert f"closed as {ledgers / f'edge-0001.closed-{number}.db'}" in text
        assert look(ledgers / "edge-0001.db").counts == {}
        release(folder, number, replace(OWNER, fingerprint=f"{number}" * 64), run=f"run-{number + 2}")  # other records
    assert look(ledgers / "edge-0001.closed-1.db").releases == 8
    assert look(ledgers / "edge-0001.closed-2.db").releases == 1
    assert look(ledgers / "edge-0001.db").releases == 2
    assert look(ledgers / "edge-0002.db").releases == 4
    for run in ("run-1", "run-3"):  # closed ledgers still answer for their runs
        assert main(["ledger", "verify", str(ledgers), "--run", str(folder / run)]) == 0
    assert "edge-0001 (closed): sound" in capsys.readouterr().out


def test_new_with_carry_keeps_the_counts_and_takes_grown_data(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    grown = replace(OWNER, records=25, fingerprint="cd" * 32)
    for _ in (1, 2):
        assert main(["ledger", "new", str(folder / "ledgers"), "--edge", "edge-0001", "--carry", "--yes"]) == 0
    assert "goes on from the same counts" in capsys.readouterr().out
    release(folder, 2, grown, run="run-3")
    content = look(folder / "ledgers" / "edge-0001.db")
    assert (content.carried, content.releases, content.owner) == (8, 2, grown)
    assert content.events() == {PROBE: 3, TRAINING: 7}
    assert content.events("run-1") == {PROBE: 1, TRAINING: 4}


def test_new_with_carry_remembers_that_noise_came_from_a_seed(folder: Path) -> None:
    """The process that drew it is not carried; what it released is."""
    for name, randomness in (("edge-0001", "reproducible"), ("edge-0002", "secure")):
        path = folder / "seeded" / f"{name}.db"
        with LedgerFile(path, "run-1", "b1", randomness) as ledger:
            ledger.open(replace(OWNER, edge=name))
            ledger.write(TRAINING, 1)
        for _ in (1, 2):
            assert main(["ledger", "new", str(folder / "seeded"), "--edge", name, "--carry", "--yes"]) == 0
        content = look(path)
        assert (content.is_simulated, content.carried) == (randomness != "secure", 1)


def test_new_where_the_old_one_is_beyond_use(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledgers = folder / "ledgers"
    (ledgers / "edge-0001.db").write_bytes(b"?" * 5000)
    (ledgers / "edge-0002.db").unlink()
    assert main(["ledger", "new", str(ledgers), "--carry", "--yes"]) == 7  # nothing to carry on from
    assert (ledgers / "edge-0001.db").read_bytes() == b"?" * 5000
    assert main(["ledger", "new", str(ledgers), "--yes"]) == 0
    assert (ledgers / "edge-0001.closed-1.db").read_bytes() == b"?" * 5000
    assert look(ledgers / "edge-0001.db").edge == "edge-0001"
    assert look(ledgers / "edge-0002.db").edge == "edge-0002"
    assert "missing" in capsys.readouterr().out


def test_new_leaves_alone_what_an_edge_holds(folder: Path) -> None:
    with LedgerFile(folder / "ledgers" / "edge-0001.db", "run-9", "b9", "secure") as ledger:
        ledger.open(OWNER)
        for more in ([], ["--carry"]):
            call = ["ledger", "new", str(folder / "ledgers"), "--edge", "edge-0001", "--yes", *more]
            assert main(call) == 7
        ledger.write(TRAINING, 1)
    assert look(folder / "ledgers" / "edge-0001.db").releases == 9


@pytest.mark.parametrize(("answer", "is_done"), [("yes", True), ("y", False), ("", False)])
def test_new_asks(folder: Path, monkeypatch: pytest.MonkeyPatch, answer: str, is_done: bool) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal(f"{answer}\n"))
    assert main(["ledger", "new", str(folder / "ledgers"), "--edge", "edge-0002"]) == 0
    assert (look(folder / "ledgers" / "edge-0002.db").releases == 0) == is_done


@pytest.mark.parametrize(
    ("arguments", "clue"),
    [
        (["new", "ledgers"], "--yes"),
        (["show", "nowhere"], "a folder with ledgers"),
        (["show", "ledgers", "--edge", "edge-0009"], "an edge with a ledger"),
        (["show", "ledgers", "--delta", "1.5"], "--delta"),
        (["verify", "ledgers", "--run", "ledgers"], "a run folder"),
    ],
)
def test_what_is_asked_wrongly(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: list[str], clue: str
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.stdin", io.StringIO("yes\n"))
    assert main(["ledger", *arguments]) == 2
    assert clue in capsys.readouterr().err
    assert look(folder / "ledgers" / "edge-0002.db").releases == 4
