"""The report on made-up runs: complete, still running, compared, damaged."""

from __future__ import annotations

import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from made_up_run import write_run, write_summary

from common.errors import ConfigError, RecordError
from lab.card import describe, promise_of
from lab.closing import print_closing
from lab.folder import read_run
from lab.report import labels_of, write_report


class Links(HTMLParser):
    """Collects every address a page would load, and every tag left open."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        self.depth += tag not in ("meta", "img", "br")

    def handle_endtag(self, tag: str) -> None:
        self.depth -= 1


def links_of(page: str) -> Links:
    links = Links()
    links.feed(page)
    return links


def test_page_holds_everything_it_shows(tmp_path: Path) -> None:
    written = write_report([write_run(tmp_path / "run")], tmp_path / "report")
    page = written.page.read_text()
    links = links_of(page)
    assert len(links.addresses) == 3
    assert all(address.startswith("data:image/png;base64,") for address in links.addresses)
    assert links.depth == 0
    assert not re.search(r"https?://|url\(|@import|<script", page)
    for text in ("0.928", "4.78", "edge-0002", "updates/s", "0" * 64, "Counted as: Gaussian by PLD; made up."):
        assert text in page


def test_pictures_are_png_files_of_some_size(tmp_path: Path) -> None:
    written = write_report([write_run(tmp_path / "run")], tmp_path / "report")
    assert [picture.name for picture in written.pictures] == ["scores.png", "staleness.png", "stages.png"]
    for picture in written.pictures:
        content = picture.read_bytes()
        assert content.startswith(b"\x89PNG")
        assert int.from_bytes(content[16:20]) > 1000


def test_several_runs_are_compared_with_labels(tmp_path: Path) -> None:
    folders = [
        write_run(tmp_path / "one", name="digits-mapa"),
        write_run(tmp_path / "two", name="digits-mapa", updates=400),
        write_run(tmp_path / "three", name="digits-asgd", private=False, summary=False),
    ]
    runs = [read_run(folder) for folder in folders]
    assert labels_of(runs) == ["digits-mapa (one)", "digits-mapa (two)", "digits-asgd"]
    assert labels_of([runs[0], runs[0]]) == ["digits-mapa (one) 1", "digits-mapa (one) 2"]
    page = write_report(folders, tmp_path / "report").page.read_text()
    assert "3 runs compared" in page
    assert page.count("No privacy is claimed") == 1


def test_a_run_without_summary_is_told_from_its_records(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", summary=False, updates=400)
    records = folder / "cloud" / "records.jsonl"
    lines = records.read_text().splitlines(keepends=True)
    records.write_text("".join(lines[:200]) + lines[200][:25])
    card = describe("run", read_run(folder), "")
    assert card["state"] == "no summary yet"
    assert 0 < int(card["updates"]) < 400
    assert float(card["accuracy"]) > 0.3
    assert card["epsilon"] == "2.1 so far"
    assert card["edges"][0]["epsilon"] == "2.1 so far"
    assert "No total is known, so nothing is claimed. So far, as last reported" in card["promise"]
    assert "e^" not in card["promise"]
    assert write_report([folder], tmp_path / "report").page.is_file()


def test_before_any_report_no_epsilon_is_invented(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", summary=False)
    records = folder / "cloud" / "records.jsonl"
    kept = [line for line in records.read_text().splitlines() if '"report"' not in line and '"bye"' not in line]
    records.write_text("\n".join(kept))
    card = describe("run", read_run(folder), "")
    assert card["epsilon"] == "-"
    assert "No total is known" in card["promise"]
    assert "So far" not in card["promise"]


def test_a_run_that_has_only_just_begun_can_be_reported(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", summary=False)
    (folder / "cloud" / "records.jsonl").unlink()
    page = write_report([folder], tmp_path / "report").page.read_text()
    assert "No edge has joined" in page


def test_epsilon_is_explained_or_its_absence_is(tmp_path: Path) -> None:
    private = promise_of(read_run(write_run(tmp_path / "private")))
    assert "e^4.78 = 119" in private
    assert "probability 1e-05" in private
    plain = promise_of(read_run(write_run(tmp_path / "plain", private=False)))
    assert "No privacy" in plain
    paper = write_run(tmp_path / "paper")
    settings = (paper / "experiment.yaml").read_text().replace("rigorous", "paper")
    (paper / "experiment.yaml").write_text(settings)
    assert promise_of(read_run(paper)).startswith("dp: not established")


@pytest.mark.parametrize(
    ("held", "words"),
    [
        ([(334, 4.78), (334, 4.78), (334, 4.78)], None),
        ([(None, None)] * 3, None),
        ([(334, 4.78), (1334, 9.871), (1000, 8.0)], "edge-0002 has spent an epsilon of 9.88, in 1,334 releases"),
        (
            [(334, 4.78), (1334, 9.871), (1000, None)],
            "edge-0003 has spent a total that is not known, in 1,000",
        ),
    ],
)
def test_earlier_runs_on_the_same_records_are_told_of(
    tmp_path: Path, held: list[tuple[int | None, float | None]], words: str | None
) -> None:
    folder = write_run(tmp_path / "run")
    summary = json.loads((folder / "summary.json").read_text())
    for edge, (releases, epsilon) in zip(summary["edges"], held, strict=True):
        edge |= {"releases": 334, "ledger_releases": releases, "ledger_epsilon": epsilon}
    (folder / "summary.json").write_text(json.dumps(summary))
    promise = promise_of(read_run(folder))
    assert ("Earlier runs" in promise) is (words is not None)
    assert words is None or words in promise


def test_only_the_summary_says_what_is_claimed(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")  # every edge says goodbye with an epsilon of 4.78
    write_summary(folder, [None, 3.5, None])
    run = read_run(folder)
    card = describe("run", run, "")
    assert card["epsilon"] == "3.5 (2 of 3 not known)"
    assert [edge["epsilon"] for edge in card["edges"]] == ["-", "3.5", "-"]
    assert "each record of 1 of 3 edges" in card["promise"]
    assert "e^3.5 = 33.1" in card["promise"]
    assert "edge-0001 has no total: ledger restarted." in card["promise"]
    write_summary(folder, [None, None, None])
    out = io.StringIO()
    print_closing(read_run(folder), out)
    page = write_report([folder], tmp_path / "report").page.read_text()
    for text in (out.getvalue(), page):
        assert "nothing is claimed" in text
        assert "4.78" not in text
        assert "2.1" not in text
        assert "so far" not in text


def test_a_run_without_summary_is_summed_up_by_the_clouds_own_rules(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", summary=False)
    assert describe("run", read_run(folder), "")["epsilon"] == "4.78"
    records = folder / "cloud" / "records.jsonl"
    again = next(line for line in records.read_text().splitlines() if '"edge-0001"' in line)
    records.write_text(again.replace("b-edge-0001", "b-again") + "\n" + records.read_text())
    card = describe("run", read_run(folder), "")
    assert card["edges"][0]["epsilon"] == "-"
    assert card["epsilon"] == "4.78 (1 of 3 not known)"
    assert "edge-0001 has no total: ledger restarted" in card["promise"]


@pytest.mark.parametrize(("adjacency", "words"), [("replace_one", "replaced"), ("add_remove", "added or removed")])
def test_the_promise_is_about_the_change_that_was_counted(tmp_path: Path, adjacency: str, words: str) -> None:
    folder = write_run(tmp_path / "run")
    write_summary(folder, [4.78] * 3, adjacency)
    assert f"with one record {words}, nothing" in promise_of(read_run(folder))


def texts_of(folder: Path, out: Path) -> tuple[str, str, str]:
    """What the closing of a launch, the page and the promise say."""
    stream = io.StringIO()
    print_closing(read_run(folder), stream)
    return stream.getvalue(), write_report([folder], out).page.read_text(), promise_of(read_run(folder))


def test_a_seeded_run_is_called_simulated_everywhere_and_a_secret_one_nowhere(tmp_path: Path) -> None:
    for randomness, is_simulated in (("reproducible", True), ("secure", False)):
        for summary in (True, False):
            folder = write_run(tmp_path / f"{randomness}-{summary}", summary=summary, randomness=randomness)
            for text in texts_of(folder, tmp_path / "report"):
                assert ("simulated dp" in text.lower()) is is_simulated
            card = describe("run", read_run(folder), "")
            assert card["epsilon"] == ("4.78 (simulated DP)" if is_simulated else "4.78")
            noise = "simulated DP" if is_simulated else "secret"
            assert [edge["noise"] for edge in card["edges"]] == [noise] * 3


def test_what_a_seeded_run_has_spent_so_far_is_called_simulated_too(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", summary=False, randomness="reproducible")
    records = folder / "cloud" / "records.jsonl"
    kept = [line for line in records.read_text().splitlines() if '"bye"' not in line]
    records.write_text("\n".join(kept))
    assert describe("run", read_run(folder), "")["epsilon"] == "2.1 so far (simulated DP)"
    assert promise_of(read_run(folder)).startswith(
        "No total is known, so nothing is claimed. Simulated DP: the noise of"
    )


def test_a_mixed_run_names_the_seeded_edges(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    content = json.loads((folder / "summary.json").read_text())
    for edge, simulated in zip(content["edges"], (False, True, False), strict=True):
        edge["simulated"] = simulated
    (folder / "summary.json").write_text(json.dumps(content))
    closing, page, promise = texts_of(folder, tmp_path / "report")
    assert promise.startswith("Simulated DP: the noise of edge-0002 follows from a seed")
    for text in (closing, page):
        assert "4.78 (simulated DP)" in text
        assert "secret" in text
    assert [edge["noise"] for edge in describe("run", read_run(folder), "")["edges"]] == [
        "secret",
        "simulated DP",
        "secret",
    ]


def test_a_folder_of_a_version_that_knew_no_secret_noise_is_simulated(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    settings = (folder / "experiment.yaml").read_text()
    (folder / "experiment.yaml").write_text(settings.replace("  randomness: secure\n", ""))
    assert promise_of(read_run(folder)).startswith("Simulated DP: the noise of every edge")


def test_without_noise_nothing_is_simulated(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", private=False)
    assert not any("simulated" in text.lower() for text in texts_of(folder, tmp_path / "report"))
    assert [edge["noise"] for edge in describe("run", read_run(folder), "")["edges"]] == ["-"] * 3


def test_names_from_a_run_cannot_inject_markup(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", name="<script>alert(1)</script>")
    assert "<script" not in write_report([folder], tmp_path / "report").page.read_text()


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a run folder"):
        write_report([tmp_path], tmp_path / "report")


def test_a_place_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(RecordError, match="taken"):
        write_report([folder], tmp_path / "taken")
