"""What a cloud finds of its checkpoint: damaged, torn, of another experiment; and what it makes of that."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import Pump, experiment, join, settings_for
from mortal import Deaths, Mortal, state_of

from cloud import durable
from cloud.build import build
from cloud.checkpoint import VERSION, About, Checkpoint, check_claim, digest_of, read_about
from cloud.recovery import recover
from cloud.snapshot import read_snapshot, write_snapshot
from common.errors import ConfigError, RecordError
from common.experiment import Experiment, edge_ids
from common.node import CLOUD, Measure

Break = Callable[[Path], object]


def plan_of(transcript: bool = False) -> Experiment:
    return experiment(**settings_for("mapa"), stop={"updates": 60}, evaluation__every=20, transcript=transcript)


@pytest.fixture(params=[False, True], ids=["without transcript", "with transcript"])
def left(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mortal:
    """A cloud in the middle of its run, killed; with two snapshots."""
    monkeypatch.setattr(durable, "EVENTS", 20)
    plan = plan_of(request.param)
    pump = Pump(seed=2)
    cloud = Mortal(plan, tmp_path, Deaths())
    pump.layout = cloud.recovery.cloud.layout
    pump.add(CLOUD, cloud)
    for edge in edge_ids(plan.data.edges):
        join(plan, pump, edge)
    pump.run(stop=lambda: len(cloud.rows("update")) >= 50)
    cloud.recorder.close()
    cloud.durable._transcript._file.close()
    return cloud


def snapshots(cloud: Mortal) -> list[Path]:
    return sorted(cloud.checkpoint.folder.glob("*.safetensors"))


def events(cloud: Mortal) -> list[Path]:
    if cloud.plan.transcript:
        return [cloud.checkpoint.folder.parent / "transcript.bin"]
    return sorted(cloud.checkpoint.folder.glob("*.events"))


def flip(path: Path, place: int = -1) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def cut(path: Path, size: int = 100) -> None:
    path.write_bytes(path.read_bytes()[:-size])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def test_of_snapshots_there_are_two_and_no_more_events_than_they_need(left: Mortal) -> None:
    assert len(snapshots(left)) == 2
    assert len(events(left)) == (1 if left.plan.transcript else 2)
    assert state_of(left.recovered().cloud.node) == state_of(left.node)


@pytest.mark.parametrize("spoil", [flip, cut, empty, zeros, Path.unlink], ids=lambda spoil: spoil.__name__)
def test_a_damaged_snapshot_is_told_and_the_one_before_it_is_used(
    spoil: Break, left: Mortal, caplog: pytest.LogCaptureFixture
) -> None:
    older, newer = snapshots(left)
    spoil(newer)
    recovered = left.recovered()
    assert recovered.number == int(older.stem)
    assert state_of(recovered.cloud.node) == state_of(left.node)
    if spoil is not Path.unlink:
        assert str(newer) in caplog.text
        assert "the one before it is tried" in caplog.text
    left._live(recovered)
    left.start(99.0)
    assert newer.with_suffix(".damaged").exists() == (spoil is not Path.unlink)
    left.close()
    assert state_of(left.recovered().cloud.node) == state_of(left.node), "and once more"


def test_with_no_sound_snapshot_the_run_cannot_go_on(left: Mortal) -> None:
    for path in snapshots(left):
        flip(path)
    if left.plan.transcript:  # which has everything since the beginning
        assert left.recovered().number == 0
        return
    with pytest.raises(RecordError, match="expected something sound to go on with; begin another run"):
        left.recovered()


@pytest.mark.parametrize("size", [1, 30, 500])
def test_a_torn_last_event_never_happened(size: int, left: Mortal) -> None:
    before = left.recovered()
    cut(events(left)[-1], size)
    after = left.recovered()
    assert after.events < before.events
    assert after.lost >= 1, "here the row was there already, as after a power failure"
    assert left.recovered().lost == 0
    left._live(after)
    left.start(99.0)
    left.close()
    assert left.recovered().events == after.events + 1, "what is torn is cut off before more is written"


def test_zeros_that_a_power_failure_left_are_no_events(left: Mortal) -> None:
    before = left.recovered()
    with events(left)[-1].open("ab") as file:
        file.write(bytes(5000))
    assert left.recovered().events == before.events


def test_events_that_are_damaged_in_their_middle_are_an_error(left: Mortal) -> None:
    recovered = left.recovered()
    assert recovered.events > 4
    flip(events(left)[-1], recovered.end - recovered.size // 2)
    with pytest.raises(RecordError, match="expected something sound"):
        left.recovered()


def test_missing_events_are_an_error(left: Mortal) -> None:
    flip(snapshots(left)[-1])
    events(left)[0].unlink()
    with pytest.raises(RecordError, match="expected"):
        left.recovered()


def test_a_row_that_was_torn_or_lost_is_made_again(left: Mortal) -> None:
    whole = left.records.read_bytes()
    left.records.write_bytes(whole[: whole.rindex(b'{"run"') + 20])
    recovered = left.recovered()
    assert len(recovered.rows) == 1
    left._live(recovered)
    left.recorder.close()
    strip = lambda text: [{**json.loads(line), "time": 0} for line in text.splitlines()]  # noqa: E731
    assert strip(left.records.read_bytes()) == strip(whole)
    left.durable._transcript._file.close()


@pytest.mark.parametrize("change", [{"kind": "update", "edge": "edge-0009"}, {"kind": "made up"}])
def test_records_that_tell_of_something_else_are_an_error(change: dict[str, str], left: Mortal) -> None:
    lines = left.records.read_bytes().splitlines(keepends=True)
    lines[-1:] = [json.dumps({**json.loads(lines[-1]), **change}).encode() + b"\n"]
    left.records.write_bytes(b"".join(lines))
    if left.plan.transcript:
        return
    with pytest.raises(RecordError, match="which the events lead to"):
        left.recovered()


def test_rows_of_events_that_are_gone_are_cut_off_and_told(left: Mortal, caplog: pytest.LogCaptureFixture) -> None:
    whole = left.records.read_bytes()
    with left.records.open("a") as file:
        for number in (1, 2):
            row = {"run": "test", "node": "cloud", "time": 1.0, "kind": "update", "update": number}
            file.write(json.dumps(row) + "\n")
    assert left.recovered().lost == 2
    assert left.records.read_bytes() == whole
    assert "2 rows tell of what came after the last event on disk" in caplog.text


def test_rows_of_the_shell_are_no_decisions(left: Mortal) -> None:
    with left.records.open("a") as file:
        file.write(json.dumps({"run": "test", "node": "cloud", "time": 1.0, "kind": "muted"}) + "\n")
    assert left.recovered().rows == []


def test_what_was_not_evaluated_is_asked_for_again(left: Mortal) -> None:
    assert left.recovered().memory.evaluating == {}
    for path in snapshots(left):
        path.unlink()  # so that all is heard again: with transcripts, from the beginning
    if not left.plan.transcript:
        return
    lines = left.records.read_bytes().splitlines(keepends=True)
    scores = [line for line in lines if b'"kind":"evaluation"' in line]
    left.records.write_bytes(b"".join(line for line in lines if line not in scores[1:]))
    recovered = left.recovered()
    assert list(recovered.memory.evaluating) == [json.loads(line)["version"] for line in scores[1:]]
    left._live(recovered)
    measured = [effect.version for effect in left.start(99.0) if isinstance(effect, Measure)]
    left.close()
    assert measured == list(recovered.memory.evaluating)


def test_the_checkpoint_of_another_experiment_is_refused_and_stays(left: Mortal) -> None:
    folder = left.checkpoint.folder
    before = {path: path.read_bytes() for path in folder.iterdir()}
    about = read_about(folder)
    assert about is not None
    other = digest_of(plan_of().model_copy(update={"seed": 99}))
    with pytest.raises(ConfigError, match=r"experiment: .*: expected that of run test, .*another --run and --out"):
        check_claim(about, "test", other, folder)
    with pytest.raises(ConfigError, match="--run: 'other': expected test, to go on with the run that has not ended"):
        check_claim(about, "other", digest_of(left.plan), folder)
    check_claim(about, "test", digest_of(left.plan), folder)
    assert before == {path: path.read_bytes() for path in folder.iterdir()}


def test_where_broker_and_data_are_does_not_matter() -> None:
    plan = plan_of()
    elsewhere = plan.model_copy(update={"data": plan.data.model_copy(update={"root": Path("/elsewhere")})})
    assert digest_of(elsewhere) == digest_of(plan)
    assert digest_of(plan.model_copy(update={"transcript": True})) != digest_of(plan)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "expected the file as it was written"),
        (b"[1]", "expected the file as it was written"),
        (b'{"run": "test"}', "expected the file as it was written"),
        (json.dumps({"run": "a", "experiment": "b", "lineage": "c", "version": 99}).encode(), f"expected {VERSION}"),
    ],
)
def test_whose_checkpoint_it_is_has_to_be_readable(content: bytes, text: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(RecordError, match=text):
        read_about(tmp_path)


def test_the_snapshot_of_another_version_is_told(left: Mortal) -> None:
    for path in snapshots(left):
        content, arrays = read_snapshot(path)
        state = json.loads(json.dumps(content))
        del state["state"]["node"]["has"]["_roster"]
        write_snapshot(path, state, arrays)
    if left.plan.transcript:
        return
    with pytest.raises(RecordError, match="by this version"):
        left.recovered()


def test_nothing_is_left_of_a_run_that_is_over(left: Mortal) -> None:
    left.checkpoint.finish("updates reached", 0)
    assert sorted(path.name for path in left.checkpoint.folder.iterdir()) == ["run.json"]
    about = left.checkpoint.about
    assert about is not None
    assert about.ended == {"reason": "updates reached", "code": 0}


def test_a_killed_process_may_leave_a_checkpoint_in_which_nothing_happened(tmp_path: Path) -> None:
    plan = plan_of()
    checkpoint = Checkpoint(tmp_path)
    checkpoint.begin(About("test", digest_of(plan), "cloud-boot-1"))
    recovered = recover(checkpoint, lambda: build(plan, "cloud-boot-2", "cloud-boot-1"), tmp_path / "records.jsonl")
    assert not recovered.has_begun
