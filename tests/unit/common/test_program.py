"""Arguments, environment and log of the programs."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from common.errors import ConfigError, DataError, Fault, RecordError
from common.messages import Message, Stop
from common.node import Effect, Record, Wake
from common.program import Attended, Call, guard, make_folder, parse, touch

EXPERIMENT = {
    "name": "small",
    "data": {"name": "digits"},
    "model": {"name": "softmax"},
    "algorithm": {"name": "audp"},
    "stop": {"updates": 10},
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(EXPERIMENT))
    return path


def call(file: Path, *more: str, program: str = "edge", **environment: str) -> Call:
    return parse(program, ["--experiment", str(file), "--run", "r1", "--out", "/out", *more], environment)


def test_the_command_line_says_it_all(file: Path) -> None:
    given = call(file, "--broker", "10.0.0.7:2883", "--id", "edge-0002", "--alive", "/tmp/x", "--set", "seed=9")
    assert (given.run, given.out, given.alive, given.edge) == ("r1", Path("/out"), Path("/tmp/x"), "edge-0002")
    assert (given.broker.host, given.broker.port, given.experiment.seed) == ("10.0.0.7", 2883, 9)


def test_what_it_leaves_out_comes_from_the_environment(file: Path) -> None:
    environment = {"EXPERIMENT": str(file), "MAPA_RUN": "r2", "OUT": "/results", "MQTT_HOST": "b", "MQTT_PORT": "99"}
    given = parse("cloud", [], environment | {"ALIVE": "/tmp/alive"})
    assert (given.run, given.out, given.alive, given.edge) == ("r2", Path("/results/r2"), Path("/tmp/alive"), None)
    assert (given.broker.host, given.broker.port) == ("b", 99)


def test_the_command_line_goes_first(file: Path) -> None:
    given = call(file, "--broker", "first", MQTT_HOST="second", MAPA_RUN="other", OUT="/elsewhere")
    assert (given.run, given.out, given.broker.host, given.broker.port) == ("r1", Path("/out"), "first", 1883)


def test_the_experiments_broker_comes_last(file: Path) -> None:
    assert call(file, "--set", "broker.host=third").broker.host == "third"


def test_where_ledgers_are_and_whether_somebody_said_so(file: Path) -> None:
    told = [
        call(file, "--broker", "b", "--ledger", "/mine", LEDGER="/theirs"),
        call(file, "--broker", "b", LEDGER="/theirs"),
        call(file, "--broker", "b"),
        call(file, "--broker", "b", program="cloud", LEDGER="/theirs"),
    ]
    assert [(one.ledger, one.is_ledger_given) for one in told] == [
        (Path("/mine"), True),
        (Path("/theirs"), False),
        (None, False),
        (Path("/theirs"), False),  # which it does not need
    ]


def test_an_index_names_an_edge(file: Path) -> None:
    assert call(file, "--broker", "b", "--index", "12").edge == "edge-0012"


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        (["--run", "r1", "--out", "o", "--broker", "b"], "--experiment"),
        (["--experiment", "FILE", "--out", "o", "--broker", "b"], "--run"),
        (["--experiment", "FILE", "--run", "No Run", "--out", "o", "--broker", "b"], "--run"),
        (["--experiment", "FILE", "--run", "r1", "--broker", "b"], "--out"),
        (["--experiment", "FILE", "--run", "r1", "--out", "o"], "--broker"),
    ],
)
def test_what_is_missing_is_named(file: Path, arguments: list[str], path: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse("cloud", [str(file) if word == "FILE" else word for word in arguments], {})
    assert [fault.path for fault in caught.value.faults] == [path]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError([Fault("a.b", 1, "two"), Fault("c", 3, "four")]), 2),
        (DataError("digits: gone: expected a file"), 3),
        (RecordError("records: full: expected room"), 6),
        (KeyboardInterrupt(), 130),
    ],
)
def test_an_error_becomes_lines_and_an_exit_code(
    error: BaseException, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def body() -> int:
        raise error

    root = logging.getLogger()
    kept = root.handlers[:], root.level
    try:
        assert guard(body) == code
    finally:
        root.handlers[:], root.level = kept
    written = capsys.readouterr().err
    assert "Traceback" not in written
    if isinstance(error, ConfigError):
        assert "a.b: 1: expected two" in written
        assert "c: 3: expected four" in written


class Speaker:
    """A node with one row of each sort."""

    def start(self, now: float) -> Sequence[Effect]:
        return [Record("joined", {"edge": "edge-0001"}), Record("update", {"edge": "edge-0002"})]

    def on_message(self, sender: str, message: Message, now: float) -> Sequence[Effect]:
        return [Record("heard", {"kind": message.kind})]

    def on_wake(self, name: str, now: float) -> Sequence[Effect]:
        return [Record("woken", {"name": name})]


def test_an_attended_node_shows_that_it_lives_and_says_what_is_rare(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    alive = tmp_path / "alive"
    node = Attended(Speaker(), alive)
    *rows, wake = node.start(0.0)
    assert rows == Speaker().start(0.0)
    assert alive.exists()
    assert isinstance(wake, Wake)
    alive.unlink()
    assert node.on_wake(wake.name, 5.0) == [wake]
    assert alive.exists()
    node.on_message("cloud", Stop(reason="x"), 6.0)
    node.on_wake("other", 7.0)
    assert caplog.messages == ["joined edge='edge-0001'", "heard kind='stop'", "woken name='other'"]


def test_folders_and_files_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RecordError, match="file"):
        make_folder(tmp_path / "file" / "below")
    with pytest.raises(RecordError, match="alive"):
        touch(tmp_path / "nowhere" / "alive")
    touch(None)
    assert make_folder(tmp_path / "a" / "b").is_dir()
