"""The machine goes down: what had not come to the disk is lost, in any order; no ledger holds less than was made."""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from made_up_ledgers import OWNER, PROBE, TRAINING, file_at

import edge.ledger_file
from common.errors import BudgetExhausted, LedgerError
from common.privacy.ledger import Budget, Ledger
from edge.ledger_database import look
from edge.ledger_format import LAPSED
from edge.ledger_log import log_of
from edge.ledger_mark import mark_of
from edge.ledger_reserve import MOST

FAILURES = 30
SECTOR = 512


@dataclass
class Disk:
    """What is on the disk for certain: the files as they were when the mark was written last, which waits for it."""

    path: Path
    kept: Path

    def sync(self) -> None:
        for part in (self.path, log_of(self.path), mark_of(self.path)):
            if part.exists():
                shutil.copy(part, self.kept / part.name)

    def fail(self, place: Path, dice: random.Random) -> Path:
        """The files after the power failed: of what was written since, some sectors are there and some are not."""
        place.mkdir()
        for part in (self.path, mark_of(self.path)):
            shutil.copy(part, place / part.name)
        name = log_of(self.path).name
        old, new = (self.kept / name).read_bytes(), log_of(self.path).read_bytes()
        if self.path.read_bytes() != (self.kept / self.path.name).read_bytes():
            old = new  # the log was brought into the database meanwhile, which waits for the disk
        assert len(old) == len(new)
        share = dice.choice([0.0, 0.5, 0.9, 1.0])
        found = bytearray(old)
        for start in range(0, len(new), SECTOR):
            if dice.random() < share:
                found[start : start + SECTOR] = new[start : start + SECTOR]
        (place / name).write_bytes(found)
        return place / self.path.name


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk(tmp_path / "ledgers" / "edge-0001.db", tmp_path / "kept")
    disk.kept.mkdir()
    write = edge.ledger_file.write_mark

    def write_mark(ledger: Path, *words: Any) -> None:
        write(ledger, *words)
        disk.sync()

    monkeypatch.setattr("edge.ledger_file.write_mark", write_mark)
    return disk


def test_no_ledger_holds_less_than_was_made(disk: Disk, tmp_path: Path) -> None:
    dice = random.Random(7)
    losses = 0
    for number in range(FAILURES):
        shutil.rmtree(disk.path.parent, ignore_errors=True)
        made = dice.choice([0, 1, 2, 5, 20, 100, 300])
        with file_at(disk.path, uptime="monday") as ledger:
            ledger.open(OWNER)
            for ticket in range(made):
                ledger.write(PROBE if dice.random() < 0.1 else TRAINING, ticket)
            found = disk.fail(tmp_path / f"after-{number}", dice)
        seen = look(found, uptime="tuesday")
        assert made <= seen.events().total() <= made + 2 * MOST
        with file_at(found, boot="b2", uptime="tuesday") as ledger:
            assert ledger.open(OWNER).booked()[0] == seen.events()
            ledger.write(TRAINING, 1)
        for day in ("tuesday", "wednesday"):  # once is enough
            assert look(found, uptime=day).events().total() == seen.events().total() + 1
        losses += seen.releases < made
    assert losses > FAILURES / 4


def test_without_what_was_set_aside_releases_would_be_missing(disk: Disk, tmp_path: Path) -> None:
    """The control: an edge that takes the machine for one that was never down."""
    dice, short = random.Random(8), 0
    for number in range(20):
        shutil.rmtree(disk.path.parent, ignore_errors=True)
        with file_at(disk.path, uptime="monday") as ledger:
            ledger.open(OWNER)
            for ticket in range(100):
                ledger.write(TRAINING, ticket)
            found = disk.fail(tmp_path / f"after-{number}", dice)
        try:
            short += look(found, uptime="monday").events().total() < 100
        except LedgerError:
            continue
    assert short > 0


def test_damage_before_the_newest_reserve_is_no_power_failure(disk: Disk, tmp_path: Path) -> None:
    with file_at(disk.path, uptime="monday") as ledger:
        ledger.open(OWNER)
        for ticket in range(200):
            ledger.write(TRAINING, ticket)
        found = disk.fail(tmp_path / "after", random.Random(1))
    log = bytearray(log_of(found).read_bytes())
    log[32 + 4120 * 3 + 500] ^= 255
    log_of(found).write_bytes(log)
    with pytest.raises(LedgerError, match="write-ahead log is damaged, and releases are missing"):
        look(found, uptime="tuesday")
    with file_at(found, boot="b2", uptime="tuesday") as ledger, pytest.raises(LedgerError, match="damaged"):
        ledger.open(OWNER)


def test_no_more_is_set_aside_than_the_budget_leaves(disk: Disk, tmp_path: Path) -> None:
    with file_at(disk.path, uptime="monday") as file:
        ledger = Ledger(Budget(max_releases=40), file.open(OWNER))
        for ticket in range(35):
            ledger.charge(TRAINING, ticket)
        found = disk.fail(tmp_path / "after", random.Random(2))
        for ticket in range(5):
            ledger.charge(TRAINING, ticket)
        with pytest.raises(BudgetExhausted):
            ledger.charge(TRAINING)
    assert look(found, uptime="tuesday").events().total() == 40


def test_what_was_given_back_is_not_lost(disk: Disk, tmp_path: Path) -> None:
    """After an end in good order, the machine may go down as it likes."""
    with file_at(disk.path, uptime="monday") as ledger:
        ledger.open(OWNER)
        for ticket in range(100):
            ledger.write(TRAINING, ticket)
    assert look(disk.path, uptime="tuesday").events() == {TRAINING: 100}


def test_lapsed_releases_have_no_ticket(disk: Disk, tmp_path: Path) -> None:
    tickets: list[int] = []
    with file_at(disk.path, uptime="monday") as ledger:
        ledger.open(OWNER)
        for ticket in range(1, 10):  # 1 + 1 + 2 + 4 were set aside, and then 8
            ledger.write(TRAINING, ticket)
        found = disk.fail(tmp_path / "after", random.Random(3))
    look(found, lambda release: tickets.append(release.ticket), uptime="tuesday")
    assert len(tickets) == 16
    assert tickets.count(LAPSED) >= 7
    assert sorted(set(tickets) - {LAPSED}) == list(range(1, 17 - tickets.count(LAPSED)))
