"""`mapa replay`: a whole run replays bit for bit, and whatever is missing or changed is told."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import experiment, settings_for

from cloud.transcript import END, Transcribed, read_transcript
from common.errors import RecordError
from common.messages import Bye
from common.tensors import Layout
from lab.__main__ import main
from lab.folder import RunFolder
from lab.virtual import run_virtually


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with probes, absences and losses."""
    path = tmp_path_factory.mktemp("replay") / "run"
    fleet = {
        "devices": {"any": {"speed": 1000.0}},
        "links": {"any": {"latency": 0.01, "loss": 0.1}},
        "edges": [{"device": "any", "link": "any"}],
        "churn": {"up": 1.0, "down": 0.2},
    }
    plan = experiment(**settings_for("mapa"), fleet=fleet, transcript=True, stop__updates=60, evaluation__every=20)
    RunFolder(path).create()
    assert run_virtually(plan, RunFolder(path), "replayed").code == 0
    return path


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    """A copy of it to damage."""
    return Path(shutil.copytree(made, tmp_path / "run"))


Answer = Callable[[Path], tuple[int, str]]


@pytest.fixture
def answer(capsys: pytest.CaptureFixture[str]) -> Answer:
    def ask(folder: Path) -> tuple[int, str]:
        code = main(["replay", str(folder)])
        output = capsys.readouterr()
        return code, output.out + output.err

    return ask


def test_a_whole_run_is_the_same_bit_for_bit(run: Path, answer: Answer) -> None:
    code, text = answer(run)
    assert code == 0
    assert "the same, bit for bit" in text


@pytest.mark.parametrize("kind", ["joined", "begin", "update", "answer", "probe", "left", "end", "bye"])
def test_a_row_that_is_missing_is_told(kind: str, run: Path, answer: Answer) -> None:
    records = run / "cloud" / "records.jsonl"
    lines = records.read_bytes().splitlines(keepends=True)
    lines.remove(next(line for line in reversed(lines) if json.loads(line)["kind"] == kind))
    records.write_bytes(b"".join(lines))
    code, text = answer(run)
    assert code == 1
    assert "different: cloud/records.jsonl: decision " in text
    assert "expected" in text


@pytest.mark.parametrize("kind", ["update", "stage", "refused", "made up"])
def test_a_row_too_many_is_told(kind: str, run: Path, answer: Answer) -> None:
    with (run / "cloud" / "records.jsonl").open("a") as records:
        records.write(json.dumps({"run": "replayed", "node": "cloud", "time": 1.0, "kind": kind}) + "\n")
    code, text = answer(run)
    assert code == 1
    assert f'{{"kind": "{kind}"}}: expected no more' in text


def test_a_changed_number_is_told(run: Path, answer: Answer) -> None:
    records = run / "cloud" / "records.jsonl"
    rows = [json.loads(line) for line in records.read_bytes().splitlines()]
    next(row for row in rows if row["kind"] == "probe")["loss"] += 1e-15
    records.write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, text = answer(run)
    assert code == 1
    assert '"kind": "probe"' in text


def test_rows_of_the_shell_are_no_decisions(run: Path, answer: Answer) -> None:
    with (run / "cloud" / "records.jsonl").open("a") as records:
        records.write(json.dumps({"run": "replayed", "node": "cloud", "time": 1.0, "kind": "connection"}) + "\n")
    assert answer(run)[0] == 0


def test_another_model_is_told(run: Path, answer: Answer) -> None:
    model = run / "cloud" / "model.safetensors"
    content = bytearray(model.read_bytes())
    content[-1] ^= 1
    model.write_bytes(content)
    code, text = answer(run)
    assert code == 1
    assert "different: model: cloud/model.safetensors" in text


@pytest.mark.parametrize("cut", [1, 40, 2000, -1])
def test_a_transcript_that_was_cut_short_is_told(cut: int, run: Path, answer: Answer) -> None:
    transcript = run / "cloud" / "transcript.bin"
    content = transcript.read_bytes()
    transcript.write_bytes(content[:-cut] if cut > 0 else b"")
    code, text = answer(run)
    assert code == 1
    assert "different: transcript: ends after" in text


def test_a_damaged_transcript_is_told(run: Path, answer: Answer) -> None:
    transcript = run / "cloud" / "transcript.bin"
    content = transcript.read_bytes()
    transcript.write_bytes(content.replace(b'"size"', b'"sise"', 1))
    code, text = answer(run)
    assert code == 6
    assert "transcript.bin" in text
    assert "expected the transcript of this run" in text
    transcript.write_bytes(b"[]\n" + content)
    assert answer(run)[0] == 6


def test_without_a_transcript_it_says_how_to_get_one(run: Path, answer: Answer) -> None:
    (run / "cloud" / "transcript.bin").unlink()
    code, text = answer(run)
    assert code == 6
    assert "transcript=true" in text


def test_a_folder_without_a_run_is_refused(tmp_path: Path, run: Path, answer: Answer) -> None:
    code, text = answer(tmp_path / "nothing")
    assert code == 2
    assert "nothing" in text
    (run / "run.json").unlink()
    code, text = answer(run)
    assert code == 2
    assert "run.json" in text


class Silent:
    """A node that hears everything and says nothing."""

    def start(self, now: float) -> tuple[()]:
        return ()

    def on_message(self, sender: str, message: object, now: float) -> tuple[()]:
        return ()

    def on_wake(self, name: str, now: float) -> tuple[()]:
        return ()


def test_a_transcript_holds_all_that_a_node_hears_in_its_order(tmp_path: Path) -> None:
    path, layout = tmp_path / "transcript.bin", Layout.of({"w": (3,)})
    node = Transcribed(Silent(), path)
    node.start(0.1)
    node.on_message("edge-0001", Bye(reason="tired\n\nof it"), 0.1 + 0.2)
    node.on_wake("patience", 3.0)
    node.close()
    node.close()
    events = list(read_transcript(path, layout))
    assert [(event.kind, event.now, event.who) for event in events] == [
        ("start", 0.1, ""),
        ("message", 0.1 + 0.2, "edge-0001"),
        ("wake", 3.0, "patience"),
        (END, 3.0, ""),
    ]
    assert events[1].message == Bye(reason="tired\n\nof it")
    with pytest.raises(RecordError, match="expected a new file"):
        Transcribed(Silent(), path)
