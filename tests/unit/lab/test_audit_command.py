"""`mapa audit`: what it prints, writes and refuses, and how a report shows it."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from made_up_run import write_run

from common.events import Event
from common.experiment import load
from lab.__main__ import main
from lab.attacks.crowd import Guessed
from lab.attacks.trials import Measured
from lab.audit import audit, claim_for
from lab.countdown import Countdown
from lab.findings import Audit, Claim, Finding, Request, Whole
from lab.folder import read_run
from lab.report import write_report
from lab.verdict import is_sound, lines, sentences

GOOD: dict[str, Any] = {
    "name": "good",
    "data": {"name": "digits", "edges": 40},
    "model": {"name": "softmax"},
    "algorithm": {"name": "audp", "batch_size": 12},
    "privacy": {"mechanism": "gaussian", "noise_multiplier": 2.0, "sampling": "all"},
    "stop": {"updates": 400},
}
QUICK = ("--trials", "200", "--runs", "2", "--updates", "5")


def write(folder: Path) -> str:
    path = folder / "experiment.yaml"
    path.write_text(yaml.safe_dump(GOOD))
    return str(path)


def made_up(measured: float = 0.4, claimed: float | None = 1.0, printed: float | None = None) -> Audit:
    event = Event(mechanism="gaussian", noise_multiplier=2.0, dimension=3)
    counted = Measured(measured, "claimed evidence of at least 1", 400, 100, 1000)
    one = Finding(event, 1e-5, 0.5, 0.999, Claim(1, claimed, printed, "counted somehow"), counted)
    return Audit("good", "0" * 64, Request(), one, Whole(Claim(500, 4.0, None, ""), Guessed(1.5, 640, 100, 95)))


def test_an_audit_is_told_written_and_the_same_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, contents = write(tmp_path), []
    for out in (tmp_path / "one", tmp_path / "two"):
        assert main(["audit", file, *QUICK, "--out", str(out)]) == 0
        contents.append((out / "audit.json").read_text())
    told = capsys.readouterr().out
    assert "audit of edge-0001: one record added or removed, dp_delta 1e-05, 99.9 % confidence" in told
    assert "No claim was contradicted" in told
    assert contents[0] == contents[1]
    content = json.loads(contents[0])
    assert is_sound(content)
    assert content["one"]["epsilon_measured"] <= content["one"]["epsilon_claimed"]
    assert content["whole"]["releases"] == 5
    assert content["whole"]["epsilon_claimed"] > content["one"]["epsilon_claimed"]


def test_with_json_nothing_else_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--trials", "100", "--runs", "0", "--edge", "edge-0002", "--steps", "2", "--json")
    assert main(["audit", write(tmp_path), *options, "--out", str(tmp_path)]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content == json.loads((tmp_path / "audit.json").read_text())
    assert (content["edge"], content["whole"], content["one"]["releases"]) == ("edge-0002", None, 2)


def test_a_whole_run_has_as_many_releases_as_the_edge_is_expected_to_make(tmp_path: Path) -> None:
    request = Request(trials=100, runs=2)
    whole = audit(load(Path(write(tmp_path))), request).whole
    assert whole is not None
    assert whole.claim.releases == 10
    endless = load(Path(write(tmp_path)), ["stop.updates=null", "stop.seconds=5"])
    assert audit(endless, request).whole is None


def test_without_noise_nothing_is_claimed_and_much_is_measured(tmp_path: Path) -> None:
    changes = ["algorithm.name=asgd", "privacy.mechanism=none", "privacy.noise_multiplier=null"]
    found = audit(load(Path(write(tmp_path)), changes), Request(trials=400, runs=0))
    assert (found.one.claim.claimed, found.one.verdict, found.is_refuted) == (None, "no claim", False)
    assert found.one.measured.epsilon > 3
    assert "nothing to contradict" in sentences(found.content())[1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--trials", "99"), "--trials: 99: expected at least 100"),
        (("--steps", "0"), "--steps: 0"),
        (("--steps", "1000000"), "--steps: 1000000: expected 1 to 10,000 with 10,000 trials"),
        (("--runs", "1"), "--runs: 1: expected 0, or at least 2"),
        (("--updates", "0"), "--updates: 0"),
        (("--confidence", "1"), "--confidence: 1.0"),
        (("--confidence", "nan"), "--confidence: nan"),
        (("--seed", "-1"), "--seed: -1"),
        (("--clip-norm", "nan"), "--clip-norm: nan"),
        (("--clip-norm", "-1"), "--clip-norm: -1.0"),
        (("--edge", "edge-0041"), "edge id: 'edge-0041'"),
        (("--set", "privacy.noise_multiplier=-1"), "privacy.noise_multiplier"),
        (("--run", "nowhere"), "--run: 'nowhere': expected a run folder"),
    ],
)
def test_a_bad_request_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], said: str
) -> None:
    assert main(["audit", write(tmp_path), *options]) == 2
    assert said in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path)
    assert main(["audit", file, "--trials", "100", "--runs", "0", "--out", file]) == 6
    assert "expected a folder that can be written" in capsys.readouterr().err


def test_a_run_takes_the_audit_of_its_own_experiment_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, run = write(tmp_path), write_run(tmp_path / "run")
    assert main(["audit", file, *QUICK, "--run", str(run)]) == 2
    assert "expected a run of this experiment" in capsys.readouterr().err
    (run / "experiment.yaml").write_text(Path(file).read_text())
    assert main(["audit", file, *QUICK, "--run", str(run)]) == 0
    assert read_run(run).audit["edge"] == "edge-0001"


def test_a_report_shows_measured_beside_claimed(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    page = write_report([run], tmp_path / "before").page.read_text()
    assert "epsilon measured" not in page
    made_up().write(run)
    page = write_report([run], tmp_path / "after").page.read_text()
    for text in ("edge-0001, one release", "edge-0001, 500 releases", "at least 0.4", "at least 1.5", "No claim was"):
        assert text in page


@pytest.mark.parametrize("content", ["{", "{}", '{"edge": "edge-0001"}', json.dumps(made_up().content() | {"one": 3})])
def test_a_damaged_audit_is_passed_over_with_a_warning(tmp_path: Path, content: str) -> None:
    run = write_run(tmp_path / "run")
    (run / "audit.json").write_text(content)
    damaged = read_run(run)
    assert damaged.audit == {}
    assert "audit.json" in " ".join(damaged.warnings)


def test_what_contradicts_a_claim_says_so_in_words_and_in_the_exit_code() -> None:
    broken = made_up(measured=1.2)
    assert (broken.one.verdict, broken.is_refuted) == ("refuted", True)
    assert "The claim of at most 1 is FALSE" in "\n".join(lines(broken.content()))
    literal = made_up(measured=1.2, claimed=None, printed=1.0)
    assert (literal.one.verdict, literal.is_refuted) == ("refuted", False)  # no claim of ours
    assert "would keep epsilon to 1." in " ".join(sentences(literal.content()))
    assert "does not tell it from" in " ".join(sentences(made_up(claimed=None, printed=1.0).content()))
    assert replace(broken, one=made_up().one).is_refuted is False


def test_the_claim_for_the_paper_is_what_the_paper_takes_it_for() -> None:
    paper = Event(mechanism="paper", epsilon=1.0, dimension=1, adjacency="replace_one")
    claim = claim_for(paper, 1, 0.0)
    assert claim.claimed is None
    assert claim.printed == pytest.approx(1.0)
    assert claim_for(Event(mechanism="none"), 1, 0.0).verdict(9.0) == "no claim"


def test_a_countdown_tells_now_and_then() -> None:
    now, stream = [0.0], StringIO()
    countdown = Countdown("releases", stream, lambda: now[0])
    for second in range(5):
        now[0] = float(second)
        countdown.show(second * 1000, 10_000)
    countdown.close()
    assert stream.getvalue().splitlines() == [
        "0 of 10,000 releases, 0:00 left",
        "2,000 of 10,000 releases, 0:08 left",
        "4,000 of 10,000 releases, 0:06 left",
    ]
