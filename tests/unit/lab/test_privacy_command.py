"""`mapa privacy`: published totals from the command line, the table, the noise for a total, and clear refusals."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from common.answers import Answers
from lab.__main__ import main
from lab.privacy import Asked, account

GOLDEN = json.loads((Path(__file__).parents[2] / "reference" / "golden_privacy.json").read_text())
LAPLACE = "--mechanism spherical-laplace --dimension 785"
GAUSSIAN = "--mechanism gaussian"
KEYS = ("epsilon_pld", "epsilon_rdp", "epsilon_basic", "epsilon_advanced")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "mapa" / "answers"


def ask(capsys: pytest.CaptureFixture[str], words: str) -> Any:
    """The JSON object."""
    assert main(["privacy", *words.split(), "--json"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    return json.loads(said.out)


@pytest.mark.parametrize(
    "row", GOLDEN["composition"][::9], ids=lambda row: f"{row['d']}-{row['eps_step']}-{row['T']}-{row['q']}"
)
def test_published_totals(row: Mapping[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    words = f"account --mechanism spherical-laplace --dimension {row['d']} --epsilon {row['eps_step']}"
    words += f" --releases {row['T']} --sampling-rate {row['q']} --delta {row['delta']}"
    found = ask(capsys, words)
    assert found["epsilon_pld"] == pytest.approx(row["eps_total_upper"], rel=row["tol_rel"])
    assert found["epsilon_basic"] == pytest.approx(row["basic"], rel=1e-6)
    assert found["epsilon_advanced"] == pytest.approx(row["advanced"], rel=1e-6)
    assert found["epsilon_pld"] <= min(found["epsilon_rdp"], found["epsilon_advanced"], found["epsilon_basic"])


@pytest.mark.parametrize("row", GOLDEN["rdp_total"], ids=lambda row: f"{row['d']}-{row['T']}")
def test_published_totals_by_rdp(row: Mapping[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    words = f"account --mechanism spherical-laplace --dimension {row['d']} --epsilon {row['eps_step']} --delta 1e-5"
    for adjacency in ("add-remove", "replace-one"):  # without sampling, an epsilon of one release says it all
        found = ask(capsys, f"{words} --releases {row['T']} --adjacency {adjacency}")
        assert found["epsilon_rdp"] == pytest.approx(row["eps_total_rdp"], rel=row["tol_rel"])
        assert found["epsilon_pld"] == pytest.approx(row["eps_total_pld"], rel=row["tol_rel"])


@pytest.mark.parametrize("row", GOLDEN["gaussian"], ids=lambda row: f"{row['T']}")
def test_published_totals_of_gaussian_noise(row: Mapping[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    words = f"account {GAUSSIAN} --noise-multiplier {row['noise_multiplier']} --releases {row['T']}"
    found = ask(capsys, f"{words} --sampling-rate {row['q']} --delta {row['delta']} --adjacency add-remove")
    assert found["epsilon_pld"] == pytest.approx(row["eps_pld"], rel=row["tol_rel"])
    assert found["epsilon_rdp"] == pytest.approx(row["eps_rdp"], rel=row["tol_rel"])


def test_published_totals_of_each_way_to_sample(capsys: pytest.CaptureFixture[str]) -> None:
    row = GOLDEN["sampling_schemes"][0]
    words = f"account --mechanism spherical-laplace --dimension {row['d']} --releases {row['T']} --delta {row['delta']}"
    rate = f"--sampling-rate {row['batch'] / row['records']}"
    for more, name in (
        (f"--epsilon {row['eps_step']}", "no_amplification_replace_one"),
        (f"--epsilon {row['eps_step'] / 2} {rate}", "poisson_add_remove"),
        (f"--epsilon {row['eps_step']} {rate} --sampling fixed", "without_replacement_replace_one"),
    ):
        assert ask(capsys, f"{words} {more}")["epsilon_pld"] == pytest.approx(row[name], rel=row["tol_rel"])


def test_a_way_that_does_not_apply_is_null(capsys: pytest.CaptureFixture[str]) -> None:
    words = f"account {GAUSSIAN} --noise-multiplier 2 --releases 100 --sampling-rate 0.1"
    swapped, added = (ask(capsys, f"{words} --adjacency {adjacency}") for adjacency in ("replace-one", "add-remove"))
    assert swapped["epsilon_rdp"] is None  # it would be that of another relation
    assert swapped["epsilon_pld"] > added["epsilon_pld"]
    pure = ask(capsys, f"account {LAPLACE} --epsilon 0.5 --delta 0")
    assert [pure[key] for key in KEYS] == [0.5, None, 0.5, None]


def test_the_table_says_what_each_number_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["privacy", *f"account {LAPLACE} --epsilon 0.5 --releases 1000 --sampling-rate 0.1".split()]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "spherical-laplace, epsilon 0.5 in 785 dimensions, 1,000 releases"
    text = "\n".join(lines)
    for word in ("one record", "add-remove", "probability 0.1", "1e-05", "0.1829", "62.86", "the number to quote"):
        assert word in text
    for way in ("one release", "basic", "advanced", "RDP", "PLD"):
        assert sum(line.strip().startswith(way) for line in lines) == 1
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize(
    "words", [LAPLACE, GAUSSIAN, f"{GAUSSIAN} --sampling fixed", f"{LAPLACE} --adjacency replace-one"]
)
def test_the_noise_for_a_total_costs_this_total(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    releases = f"{words} --releases 300 --sampling-rate 0.05"
    found = ask(capsys, f"calibrate {releases} --target-epsilon 1.5")
    assert 0.997 * 1.5 <= found["epsilon_pld"] <= found["target_epsilon"] == 1.5
    name, other = ("epsilon", "noise_multiplier") if words.startswith(LAPLACE) else ("noise_multiplier", "epsilon")
    assert found[other] is None
    again = ask(capsys, f"account {releases} --{name.replace('_', '-')} {found[name]!r}")
    assert {key: again[key] for key in KEYS} == {key: found[key] for key in KEYS}


def test_published_noise_for_a_total(capsys: pytest.CaptureFixture[str]) -> None:
    row = next(row for row in GOLDEN["calibration"] if row["q"] < 1)
    words = (
        f"--dimension {row['d']} --releases {row['T']} --sampling-rate {row['q']} --target-epsilon {row['eps_total']}"
    )
    found = ask(capsys, f"calibrate --mechanism spherical-laplace {words}")
    assert found["epsilon"] == pytest.approx(row["spherical_eps_step"], rel=row["tol_rel"])


ACCOUNT = f"account {LAPLACE} --epsilon 0.5"
CALIBRATE = f"calibrate {GAUSSIAN} --target-epsilon 1"
BAD = [
    *((f"account {LAPLACE} --epsilon {bad}", "--epsilon") for bad in ("0", "-1", "nan", "inf", "1e9", "6e5", "1e-9")),
    *(
        (f"account {GAUSSIAN} --noise-multiplier {bad}", "--noise-multiplier")
        for bad in ("0", "-1", "nan", "inf", "1e9")
    ),
    *((f"{ACCOUNT} --releases {bad}", "--releases") for bad in ("0", "-5", "1000000000")),
    *((f"{ACCOUNT} --delta {bad}", "--delta") for bad in ("-0.1", "1", "nan", "inf")),
    *((f"{ACCOUNT} --sampling-rate {bad}", "--sampling-rate") for bad in ("0", "-0.1", "1.1", "nan", "1e-12")),
    *((f"{ACCOUNT} --dimension {bad}", "--dimension") for bad in ("0", "-1", "10000000000")),
    *((f"calibrate {GAUSSIAN} --target-epsilon {bad}", "--target-epsilon") for bad in ("0", "-1", "nan", "inf", "1e9")),
    (f"account {GAUSSIAN} --noise-multiplier 1 --delta 0", "--delta: 0.0: expected at least 1e-10 with gaussian noise"),
    (f"{CALIBRATE} --delta 0", "--delta: 0.0: expected at least 1e-10 with gaussian noise"),
    (f"{ACCOUNT} --noise-multiplier 1", "--noise-multiplier: 1.0: expected nothing, for mechanism spherical-laplace"),
    (
        f"account {GAUSSIAN} --noise-multiplier 1 --epsilon 1",
        "--epsilon: 1.0: expected nothing, for mechanism gaussian",
    ),
    (f"account {GAUSSIAN}", "--noise-multiplier: None: expected 1e-06 to 1e+06"),
    ("account --mechanism spherical-laplace --epsilon 1", "--dimension: None: expected the number of parameters"),
    (f"{ACCOUNT} --sampling all --sampling-rate 0.5", "--sampling-rate: 0.5: expected 1 with --sampling all"),
    (
        f"{ACCOUNT} --sampling fixed --sampling-rate 0.5 --adjacency add-remove",
        "--adjacency: 'add-remove': expected replace-one with --sampling fixed",
    ),
    (
        f"calibrate {LAPLACE} --releases 1000 --target-epsilon 1e-5 --delta 0",
        "--target-epsilon: 1e-05: expected at least 0.0005, what 1000 releases cost with the strongest noise",
    ),
]


@pytest.mark.parametrize(("words", "text"), BAD)
def test_what_is_wrong_is_one_clear_line(words: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["privacy", *words.split()]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert line.startswith(f"error: {text}")


@pytest.mark.parametrize(
    "words", ["", "account", "account --mechanism laplace", f"{ACCOUNT} --releases 1.5", f"calibrate {GAUSSIAN}"]
)
def test_what_is_no_question_is_refused(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["privacy", *words.split()])
    assert caught.value.code == 2
    assert capsys.readouterr().out == ""


def test_extreme_numbers_have_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        f"account {GAUSSIAN} --noise-multiplier 1e-6 --sampling-rate 0.5 --releases 1000",
        f"account {GAUSSIAN} --noise-multiplier 1e6 --sampling-rate 1e-9",
        f"account {LAPLACE} --epsilon 4e5 --sampling-rate 0.01 --releases 10",
        "account --mechanism spherical-laplace --dimension 1000000000 --epsilon 1e-6",
    ):
        found = ask(capsys, words)
        numbers = [found[key] for key in KEYS]
        assert all(number is None or number >= 0 for number in numbers)
        assert found["epsilon_pld"] is None or found["epsilon_pld"] <= found["epsilon_basic"]


def test_answers_are_kept(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = f"account {LAPLACE} --epsilon 0.5 --releases 10"
    first = ask(capsys, words)
    (file,) = cache.glob("*.json")
    asked = Asked("spherical-laplace", releases=10, dimension=785, epsilon=0.5)
    kept = account(asked, lambda question, _: Answers(cache).ask(question, lambda: pytest.fail("computed anew")))
    assert list(kept.content().items()) == list(first.items()), "the same text"
    file.write_text("{}")
    assert ask(capsys, words) == first


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon_pld": -0.1},
        {"epsilon_pld": 0.0},  # less than one of the releases
        {"epsilon_pld": 1e9},  # more than basic composition
        {"epsilon_rdp": math.nan},
        {"epsilon_rdp": math.inf},
        {"epsilon_rdp": "1"},
        {"more": 1.0},
    ],
)
def test_a_kept_answer_that_cannot_be_true_is_computed_anew(change: dict[str, object]) -> None:
    asked = Asked("spherical-laplace", releases=10, dimension=785, epsilon=0.5)
    true = account(asked)
    assert account(asked, lambda _, compute: {**compute(), **change}) == true
    assert account(asked, lambda _, compute: [0.1]) == true
    for other in ({"epsilon_rdp": 7.0}, {"epsilon_pld": None}):
        kept = account(asked, lambda _, compute, other=other: {**compute(), **other})
        assert kept.epsilons == {**true.epsilons, **other}


def test_nothing_else_reaches_standard_output(tmp_path: Path) -> None:
    words = f"privacy account {GAUSSIAN} --noise-multiplier 1 --sampling-rate 0.1 --json"
    done = subprocess.run(
        [sys.executable, "-m", "lab", *words.split()],
        capture_output=True,
        text=True,
        check=True,
        env={"XDG_CACHE_HOME": str(tmp_path), "OMP_NUM_THREADS": "1"},
        cwd=Path(__file__).parents[3],
    )
    assert json.loads(done.stdout)["releases"] == 1
    assert done.stderr == ""
