"""Processes that release as an edge does, killed by SIGKILL at random points: no ledger holds less than was sent.

What is killed is the real way of a release: learner, ledger, ledger file, wire; the bytes go into a pipe. A message is
taken for sent as soon as its first byte is in the pipe. Every process is a run of its own, so that what one has booked
too much cannot make up for what another has booked too little.
"""

from __future__ import annotations

import os
import random
import signal
import struct
import time
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from edge_talk import EVENT, MODEL

from common.events import Event
from common.messages import Update
from common.privacy.ledger import Counts, Ledger
from common.privacy.plan import PrivacyPlan
from common.secrecy import secret_stream
from common.tensors import Tensors
from common.wire import Envelope, encode
from edge.learner import Learner, Randomness, Shard
from edge.ledger_database import look
from edge.ledger_file import LedgerFile
from edge.owner import Owner

FORK = get_context("fork")
KILLS = 200
CONTROLS = 30
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


@dataclass
class Late:
    """The mistake that the test has to find: a release is written down after it was sent, with the next one."""

    file: LedgerFile
    due: list[tuple[Event, int]] = field(default_factory=list)
    is_simulated: bool = False

    def booked(self) -> tuple[Counts, Counts]:
        return self.file.booked()

    def write(self, event: Event, ticket: int, room: int | None = None) -> None:
        for earlier in self.due:
            self.file.write(*earlier)
        self.due = [(event, ticket)]


def live(path: Path, run: str, pipe: int, is_late: bool) -> None:
    """Releases without end."""
    rng = np.random.default_rng(5)
    inputs, labels = rng.normal(size=(20, 4)).astype(np.float32), rng.integers(3, size=20)
    file = LedgerFile(path, run, f"boot-{run}", "secure").open(Owner.of("edge-0001", "made up", inputs, labels))
    late = Late(file)
    learner = Learner(
        MODEL,
        Shard(MODEL.prepare(inputs, 1.0), labels),
        PrivacyPlan(EVENT, 20, 20),
        Ledger(store=late if is_late else file),
        Randomness(secret_stream(), secret_stream(), simulated=False),
    )
    flat = MODEL.layout.zeros()
    for ticket in range(1, 1_000_000):
        gradient, event = learner.gradient(flat, 1.0, ticket)
        update = Update(
            ticket=ticket, version=1, work=20.0, event=event, tensors=Tensors(MODEL.layout, gradient.astype(np.float32))
        )
        payload = encode(Envelope(run, "boot", ticket, 0.0, update))
        os.write(pipe, struct.pack(">I", len(payload)) + payload)


def messages_in(stream: bytes) -> int:
    """How many messages were begun."""
    count, start = 0, 0
    while start < len(stream):
        count += 1
        head = stream[start : start + 4]
        start += 4 + (struct.unpack(">I", head)[0] if len(head) == 4 else 0)
    return count


def sent_before_death(path: Path, run: str, dice: random.Random, is_late: bool) -> int:
    """Starts a process and kills it, half of them while it opens its ledger, half after some messages."""
    reader, writer = os.pipe()
    process = FORK.Process(target=live, args=(path, run, writer, is_late))
    process.start()
    os.close(writer)
    received = b""
    if dice.random() < 0.25:
        time.sleep(dice.uniform(0.0, 0.1))
    else:
        wanted = dice.randint(1, 12)
        while messages_in(received) < wanted:
            block = os.read(reader, 1 << 16)
            assert block, "the process ended by itself"
            received += block
        time.sleep(dice.uniform(0.0, 0.002))
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    while block := os.read(reader, 1 << 16):
        received += block
    os.close(reader)
    return messages_in(received)


def kill_often(path: Path, kills: int, is_late: bool) -> tuple[list[int], list[int]]:
    """For each process that was killed: the messages it sent, and the releases that the ledger holds of it."""
    dice = random.Random(20)
    sent = [sent_before_death(path, f"run-{number}", dice, is_late) for number in range(kills)]
    content = look(path)
    return sent, [content.events(f"run-{number}").total() for number in range(kills)]


def test_killed_at_any_point_no_ledger_holds_less_than_was_sent(tmp_path: Path) -> None:
    sent, booked = kill_often(tmp_path / "edge-0001.db", KILLS, is_late=False)
    assert len(sent) == KILLS
    assert sum(sent) > KILLS
    assert all(said <= held for said, held in zip(sent, booked, strict=True))
    assert all(held <= said + 1 for said, held in zip(sent, booked, strict=True))  # and hardly more


def test_a_release_that_is_booked_after_it_was_sent_is_caught(tmp_path: Path) -> None:
    """The control."""
    sent, booked = kill_often(tmp_path / "edge-0001.db", CONTROLS, is_late=True)
    assert any(said > held for said, held in zip(sent, booked, strict=True))
