"""Timers, patience, addresses, identities, the journal, and what arrives at the reception."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from common.address import Address
from common.errors import ConfigError, LocalProtocolError, TransportError
from common.identity import Identity
from common.journal import Journal
from common.link import Broken
from common.measurer import WAITING, Measured, Measurer
from common.records import Recorder, read
from common.tensors import Layout, Tensors
from common.timers import Timers
from common.vigil import BRIEF, FEW, MANY, NOTE, STABLE, Vigil


def test_wake_ups_come_in_the_order_they_are_due() -> None:
    timers = Timers()
    assert timers.due == float("inf")
    timers.set("late", 5.0)
    timers.set("early", 2.0)
    assert timers.due == 2.0
    assert timers.take(1.9) is None
    assert [timers.take(9.0), timers.take(9.0), timers.take(9.0)] == ["early", "late", None]


def test_a_newer_wake_up_replaces_the_older_one_of_its_name() -> None:
    timers = Timers()
    timers.set("a", 1.0)
    timers.set("a", 7.0)
    assert timers.take(6.9) is None
    assert timers.take(7.0) == "a"
    assert timers.take(100.0) is None


def test_replaced_wake_ups_cost_no_memory() -> None:
    timers = Timers()
    for number in range(10_000):
        timers.set("a", 1e6 + number)
    assert len(timers._heap) < 100


def test_the_first_connection_has_its_own_patience() -> None:
    vigil = Vigil(Address("host", 1), patience=5.0, patience_lost=50.0, now=100.0)
    assert not vigil.is_up
    assert vigil.check(100.0 + NOTE - 0.1) is None
    assert not vigil.down(101.0, "no connection")
    assert "no connection" in (vigil.check(100.0 + NOTE) or "")
    assert vigil.check(100.0 + NOTE + 0.1) is None, "not at every look"
    with pytest.raises(TransportError, match="broker host:1: no connection for 5 s"):
        vigil.check(105.1)


def test_a_lost_connection_has_another() -> None:
    vigil = Vigil(Address("host", 1), patience=5.0, patience_lost=50.0, now=0.0)
    vigil.up(101.0)
    assert vigil.check(1e6) is None
    assert vigil.down(1e6, "closed")
    assert not vigil.down(1e6 + 1, "no connection")
    vigil.check(1e6 + 49)
    with pytest.raises(TransportError, match="for 50 s"):
        vigil.check(1e6 + 51)


def cut_off_at_once(vigil: Vigil, start: float, times: int) -> float:
    """So many connections that last a second each; the time after the last."""
    for number in range(times):
        vigil.up(start + 2 * number)
        assert vigil.down(start + 2 * number + 1, "cut")
    return start + 2 * times - 1


def test_who_is_cut_off_at_once_again_and_again_gives_up() -> None:
    vigil = Vigil(Address("host", 1), patience=5.0, patience_lost=50.0, now=0.0)
    vigil.check(cut_off_at_once(vigil, 1.0, FEW - 1))
    end = cut_off_at_once(vigil, 100.0, 1)
    with pytest.raises(
        TransportError, match=rf"{FEW} connections in a row cut off at once \(cut\): expected one process"
    ):
        vigil.check(end)


def test_who_was_there_first_gives_up_later() -> None:
    vigil = Vigil(Address("host", 1), patience=5.0, patience_lost=50.0, now=0.0)
    vigil.up(1.0)
    vigil.down(1.0 + STABLE + 1, "cut")
    vigil.check(cut_off_at_once(vigil, 100.0, MANY - 1))
    vigil.up(200.0)
    vigil.down(200.0 + BRIEF + 1, "cut")
    vigil.check(cut_off_at_once(vigil, 300.0, MANY - 1))
    with pytest.raises(TransportError, match=rf"{MANY} connections in a row"):
        vigil.check(cut_off_at_once(vigil, 400.0, 1))


def test_an_absence_that_is_meant_is_no_cut() -> None:
    vigil = Vigil(Address("host", 1), patience=5.0, patience_lost=50.0, now=0.0)
    for number in range(3 * MANY):
        vigil.up(10.0 * number)
        vigil.down(10.0 * number + 1, "cut")
        vigil.excuse(10.0 * number + 2)
        assert vigil.check(10.0 * number + 1.5) is None


def test_patience_does_not_count_an_absence_that_is_meant() -> None:
    vigil = Vigil(Address("host", 1), patience=5.0, patience_lost=50.0, now=0.0)
    vigil.up(101.0)
    vigil.excuse(until=500.0)
    assert not vigil.is_up
    assert vigil.check(499.0) is None
    assert not vigil.down(500.0, "no connection")
    assert "no connection" in (vigil.check(500.0 + NOTE) or ""), "what comes after is trouble again"
    with pytest.raises(TransportError, match="for 50 s"):
        vigil.check(551.0)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("broker", "broker", 1883),
        ("broker:1234", "broker", 1234),
        ("10.0.0.1:65535", "10.0.0.1", 65535),
        ("[::1]:1884", "::1", 1884),
        ("[::1]", "::1", 1883),
        ("fe80::1", "fe80::1", 1883),
    ],
)
def test_addresses_are_read(text: str, host: str, port: int) -> None:
    address = Address.parse(text)
    assert (address.host, address.port) == (host, port)
    assert Address.parse(str(address)) == address


@pytest.mark.parametrize("text", ["", ":1883", "host:0", "host:65536", "host:port", "[::1]x", "host:-1"])
def test_what_is_no_address_is_a_fault(text: str) -> None:
    with pytest.raises(ConfigError, match="broker: "):
        Address.parse(text)


def test_boot_ids_sort_by_start_and_are_names() -> None:
    boots = [Identity.fresh("run", "edge-0001").boot for _ in range(50)]
    assert boots == sorted(boots)
    assert len(set(boots)) == 50
    assert all(len(boot) == 25 for boot in boots)


def test_trouble_with_one_sender_is_told_once_a_second_and_counted(tmp_path: Path) -> None:
    journal = Journal(Recorder(tmp_path / "r.jsonl", "run", "cloud"))
    told = [journal.dropped("edge-1", "bad", now) for now in (0.0, 0.2, 0.9, 1.0)]
    assert told == [True, False, False, True]
    assert journal.dropped("edge-2", "bad", 1.0)
    rows = [(row["sender"], row["reason"], row["count"]) for row in read(tmp_path / "r.jsonl")]
    assert rows == [("edge-1", "bad", 1), ("edge-1", "bad", 3), ("edge-2", "bad", 1)]


def test_the_memory_for_trouble_is_bounded() -> None:
    journal = Journal(Recorder(Path("/dev/null"), "run", "cloud"))
    for number in range(10_500):
        journal.dropped(f"sender-{number}", "bad", 0.0)
    journal.dropped("sender-10499", "bad", 0.0)
    assert (len(journal._told), len(journal._untold)) == (500, 1)


def test_a_failure_is_told_even_where_it_cannot_be_recorded(caplog: pytest.LogCaptureFixture) -> None:
    journal = Journal(Recorder(Path("/dev/full"), "run", "cloud"))
    assert journal.failed(TransportError("broker away"), 0.0) == "broker away"
    assert "broker away" in caplog.text
    assert "No space left" in caplog.text
    assert journal.failed(KeyboardInterrupt(), 0.0) == "interrupted"
    assert journal.failed(KeyError("x"), 0.0) == "KeyError: 'x'"


def parameters(value: float) -> Tensors:
    return Tensors(Layout.of({"w": (2,)}), np.full(2, value, dtype=np.float32))


def test_evaluations_run_on_copies_and_the_last_is_never_lost() -> None:
    reports: list[Measured | Broken] = []
    measurer = Measurer(lambda tensors: {"first": float(tensors["w"][0])}, reports.append)
    flat = np.zeros(2, dtype=np.float32)
    skipped = []
    for version in range(50):
        flat += 1.0
        skipped.append(measurer.submit(version, Tensors(Layout.of({"w": (2,)}), flat)))
    measurer.finish()
    scores = {report.version: report.scores["first"] for report in reports if isinstance(report, Measured)}
    assert scores == {version: version + 1.0 for version in scores}, "each score belongs to its version"
    assert 49 in scores
    assert set(scores) | {version for version in skipped if version is not None} == set(range(50))


def test_too_many_evaluations_skip_the_oldest_that_waits() -> None:
    import threading

    gate, reports = threading.Event(), []
    measurer = Measurer(lambda _: {"x": float(gate.wait(10))}, reports.append)
    measurer.submit(0, parameters(0))
    while measurer._waiting:
        pass
    skipped = [measurer.submit(version, parameters(version)) for version in range(1, WAITING + 3)]
    gate.set()
    measurer.finish()
    assert skipped == [None] * WAITING + [1, 2]
    assert [report.version for report in reports] == [0, *range(3, WAITING + 3)]


def test_an_evaluation_that_fails_is_reported() -> None:
    reports: list[Measured | Broken] = []

    def fail(_: Tensors) -> dict[str, float]:
        raise ValueError("no data")

    measurer = Measurer(fail, reports.append)
    measurer.submit(1, parameters(0))
    measurer.finish()
    (report,) = reports
    assert isinstance(report, Broken)
    assert str(report.error) == "no data"


def test_waiting_evaluations_can_be_thrown_away() -> None:
    reports: list[Measured | Broken] = []
    measurer = Measurer(lambda _: {}, reports.append)
    measurer.finish(discard=True)
    assert reports == []


def test_who_cannot_evaluate_says_so() -> None:
    with pytest.raises(LocalProtocolError, match="Measure of version 7"):
        Measurer(None, print).submit(7, parameters(0))
