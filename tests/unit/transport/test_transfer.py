"""Chunks in any order, lost, repeated or forged: the payload arrives whole or not at all, within bounds."""

from __future__ import annotations

import hashlib
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.errors import WireError
from common.transfer import (
    ATTEMPTS,
    CHUNK,
    EXPIRY,
    FRAME,
    PARTIALS,
    RESEND,
    ROOM,
    SENDERS,
    SLOTS,
    SMALLEST,
    WINDOW,
    Incoming,
    Outgoing,
    count_of,
)

HEAD = struct.Struct("!4s32sQIII")
LIMIT = 100 * SMALLEST


def payload_of(size: int, seed: int = 0) -> bytes:
    return np.random.default_rng(seed).bytes(size)


def frame_of(payload: bytes, index: int, **forged: object) -> bytes:
    """One chunk, with fields of its head forged."""
    data = payload[index * SMALLEST : (index + 1) * SMALLEST]
    fields = {
        "magic": b"MC1\n",
        "digest": hashlib.sha256(payload).digest(),
        "size": len(payload),
        "chunk": SMALLEST,
        "position": index,
        "crc": zlib.crc32(data),
        **forged,
    }
    return HEAD.pack(*fields.values()) + data


@given(
    size=st.integers(1, 12 * SMALLEST),
    losses=st.lists(st.integers(0, 5), max_size=6),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=60, deadline=None)
def test_a_payload_arrives_whatever_gets_lost_repeated_or_overtaken(size: int, losses: list[int], seed: int) -> None:
    """Each round delivers the flying chunks shuffled, some twice, and loses chunks and answers as told."""
    rng = np.random.default_rng(seed)
    payload = payload_of(size, seed)
    going, coming, now, whole = Outgoing(payload, "model", SMALLEST), Incoming(LIMIT), 0.0, []
    lost = iter(losses)
    while not going.is_done:
        frames = list(going.frames(now))
        assert len(frames) <= WINDOW
        answers = []
        for place in rng.permutation(np.repeat(np.arange(len(frames)), 1 + rng.integers(0, 2, len(frames)))):
            if next(lost, 5) != 0:
                answer, done = coming.put("edge-1", frames[place], now)
                answers.append(answer)
                whole += [done] if done is not None else []
        for answer in answers:
            if next(lost, 5) != 1:
                going.acknowledge(answer, now)
        now = max(now + 0.1, min(going.due, now + 1000.0))
    assert whole == [payload]
    assert coming.held == 0


def test_at_most_four_chunks_wait_for_an_answer() -> None:
    going = Outgoing(payload_of(10 * SMALLEST), "model", SMALLEST)
    first = list(going.frames(0.0))
    assert len(first) == WINDOW == 4
    assert list(going.frames(0.1)) == []
    answer, _ = Incoming(LIMIT).put("edge-1", first[2], 0.1)
    going.acknowledge(answer, 0.1)
    assert len(list(going.frames(0.1))) == 1


def test_a_second_answer_or_another_transfers_opens_no_window() -> None:
    going = Outgoing(payload_of(10 * SMALLEST), "model", SMALLEST)
    frames = list(going.frames(0.0))
    incoming = Incoming(LIMIT)
    answer, _ = incoming.put("edge-1", frames[0], 0.0)
    stranger, _ = incoming.put("edge-1", frame_of(payload_of(3 * SMALLEST, 9), 1), 0.0)
    going.acknowledge(answer, 0.0)
    assert len(list(going.frames(0.0))) == 1
    going.acknowledge(answer, 0.0)
    going.acknowledge(stranger, 0.0)
    assert list(going.frames(0.0)) == []


def test_silence_sends_again_ever_more_slowly_and_gives_up_in_the_end() -> None:
    going = Outgoing(payload_of(SMALLEST), "model", SMALLEST)
    times = [0.0]
    for _ in range(ATTEMPTS):
        assert len(list(going.frames(times[-1]))) == 1
        times.append(going.due)
    with pytest.raises(WireError, match=f"sent {ATTEMPTS} times"):
        next(going.frames(times[-1]))
    assert np.diff(times).tolist() == [5, 10, 20, 40, 60, 60, 60, 60]


def test_a_slow_link_is_given_the_time_it_needs() -> None:
    going, coming = Outgoing(payload_of(3 * SMALLEST), "model", SMALLEST), Incoming(LIMIT)
    frames = list(going.frames(0.0))
    answer, _ = coming.put("edge-1", frames[0], 4.0)
    going.acknowledge(answer, 4.0)
    list(going.frames(RESEND))
    assert going.due == RESEND + 24.0, "twice three times the four seconds that an answer took"


@pytest.mark.parametrize("answer", [b"", bytes(40), b"MA1\n" + bytes(35)])
def test_a_forged_answer_is_refused(answer: bytes) -> None:
    with pytest.raises(WireError, match="acknowledgement"):
        Outgoing(payload_of(10), "model").acknowledge(answer, 0.0)


BODY = payload_of(3 * SMALLEST)
FORGED = {
    "too short": (b"MC1\n", "chunk: 4 bytes"),
    "no data": (frame_of(BODY, 0)[:FRAME], "chunk: 56 bytes"),
    "magic": (frame_of(BODY, 0, magic=b"PK\3\4"), "starts with"),
    "larger than the limit": (frame_of(BODY, 0, size=2**60), "expected at most"),
    "of nothing": (frame_of(BODY, 0, size=0), "expected at most"),
    "tiny chunks": (frame_of(BODY, 0, chunk=1), "chunk: 0 of"),
    "large chunks": (frame_of(BODY, 0, chunk=CHUNK + 1), "chunk: 0 of"),
    "chunks of nothing": (frame_of(BODY, 0)[:44] + bytes(4) + frame_of(BODY, 0)[48:], "chunk: 0 of"),
    "index beyond the end": (frame_of(BODY, 0, position=3), "chunk: 3 of"),
    "cut": (frame_of(BODY, 0)[:-1], "chunk 0: "),
    "damaged": (frame_of(BODY, 0)[:-1] + bytes([frame_of(BODY, 0)[-1] ^ 1]), "CRC"),
}


@pytest.mark.parametrize("case", FORGED)
def test_a_forged_chunk_is_refused_and_holds_no_memory(case: str) -> None:
    frame, reason = FORGED[case]
    incoming = Incoming(LIMIT)
    with pytest.raises(WireError, match=reason):
        incoming.put("edge-1", frame, 0.0)
    assert incoming.held == 0


def test_chunks_that_contradict_each_other_are_refused() -> None:
    incoming = Incoming(LIMIT)
    incoming.put("edge-1", frame_of(BODY, 0), 0.0)
    with pytest.raises(WireError, match="expected of"):
        incoming.put("edge-1", frame_of(BODY + bytes(SMALLEST), 1, digest=hashlib.sha256(BODY).digest()), 0.0)


def test_a_whole_with_another_digest_is_refused_and_forgotten() -> None:
    incoming = Incoming(LIMIT)
    forged = bytes(32)
    for index in (0, 1):
        incoming.put("edge-1", frame_of(BODY, index, digest=forged), 0.0)
    with pytest.raises(WireError, match="expected SHA-256"):
        incoming.put("edge-1", frame_of(BODY, 2, digest=forged), 0.0)
    assert incoming.held == 0


def test_an_announcement_alone_holds_only_what_arrived() -> None:
    incoming = Incoming(2**40)
    incoming.put("edge-1", frame_of(BODY, 0, size=2**39), 0.0)
    assert incoming.held == SMALLEST


def test_a_sender_has_two_transfers_at_a_time_and_loses_the_one_that_rested() -> None:
    incoming = Incoming(LIMIT)
    payloads = [payload_of(2 * SMALLEST, seed) for seed in range(SLOTS + 1)]
    for now, payload in enumerate(payloads):
        incoming.put("edge-1", frame_of(payload, 0), float(now))
    assert incoming.held == SLOTS * SMALLEST
    assert incoming.put("edge-1", frame_of(payloads[2], 1), 9.0)[1] == payloads[2]
    assert incoming.put("edge-1", frame_of(payloads[0], 1), 9.0)[1] is None, "its first chunk was dropped"


def test_many_senders_together_stay_within_the_total() -> None:
    incoming = Incoming(limit=10 * SMALLEST, total=20 * SMALLEST)
    for sender in range(50):
        for index in range(9):
            incoming.put(f"edge-{sender}", frame_of(payload_of(10 * SMALLEST, sender), index), float(sender))
            assert incoming.held <= 20 * SMALLEST
    assert incoming.put("edge-49", frame_of(payload_of(10 * SMALLEST, 49), 9), 50.0)[1] is not None


def test_the_total_follows_from_what_one_payload_of_the_run_may_be() -> None:
    """Invented senders, each with all but the last chunk of the largest payload."""
    limit = 2 * CHUNK
    frame, incoming = next(Outgoing(bytes(limit), "model").frames(0.0)), Incoming(limit)
    for sender in range(200):
        incoming.put(f"edge-{sender}", frame, 0.0)
        assert incoming.held == min(sender + 1, ROOM * limit // CHUNK) * CHUNK
    assert ROOM * limit < 200 * CHUNK


def test_what_rested_too_long_is_dropped_and_the_rest_stays() -> None:
    incoming = Incoming(LIMIT)
    for sender, now in (("edge-1", 0.0), ("edge-2", 1.0), ("edge-3", EXPIRY - 1)):
        incoming.put(sender, frame_of(BODY, 0), now)
    incoming.put("edge-1", frame_of(BODY, 1), EXPIRY - 0.5)  # this one has not rested
    incoming.put("edge-4", frame_of(BODY, 0), EXPIRY + 0.9)
    assert incoming.held == 5 * SMALLEST
    incoming.put("edge-4", frame_of(BODY, 1), EXPIRY + 1.0)
    assert incoming.held == 5 * SMALLEST, "one more is here, and that of edge-2 is gone"
    assert incoming.put("edge-1", frame_of(BODY, 2), EXPIRY + 2.0)[1] == BODY


def test_a_sender_that_waits_as_long_as_it_may_is_not_given_up() -> None:
    incoming = Incoming(LIMIT)
    for index in range(2):
        assert incoming.put("edge-1", frame_of(BODY, index), 61.0 * index)[1] is None
        incoming.put("edge-2", frame_of(BODY, index), 61.0 * index + 60.5)
    assert incoming.put("edge-1", frame_of(BODY, 2), 122.0)[1] == BODY


def test_crumbs_of_many_senders_are_bounded_by_their_number() -> None:
    """A last chunk may be one byte; what is kept of it is not."""
    incoming, frame = Incoming(LIMIT), frame_of(bytes(SMALLEST + 1), 1)
    for sender in range(PARTIALS + 100):
        incoming.put(f"edge-{sender}", frame, 0.0)
    assert incoming.held == len(incoming._partial) == PARTIALS


def test_senders_that_finished_something_are_remembered_up_to_a_number() -> None:
    incoming, frame = Incoming(LIMIT), frame_of(bytes(10), 0)
    for sender in range(SENDERS + 100):
        assert incoming.put(f"edge-{sender}", frame, 0.0)[1] == bytes(10)
    assert len(incoming._complete) == SENDERS
    assert incoming.put(f"edge-{SENDERS + 99}", frame, 0.0)[1] is None


def test_one_payload_may_be_as_large_as_the_limit_alone() -> None:
    incoming = Incoming(limit=3 * SMALLEST, total=1)
    done = [incoming.put("edge-1", frame_of(BODY, index), 0.0)[1] for index in range(3)]
    assert done == [None, None, BODY]


def test_a_late_copy_of_a_finished_transfer_is_answered_and_not_delivered_again() -> None:
    incoming = Incoming(LIMIT)
    frames = [frame_of(BODY, index) for index in range(3)]
    delivered = [incoming.put("edge-1", frame, 0.0) for frame in (*frames, *frames)]
    assert [whole for _, whole in delivered] == [None, None, BODY, None, None, None]
    assert delivered[0][0] == delivered[3][0]


def test_the_same_payload_of_another_sender_is_another_transfer() -> None:
    incoming = Incoming(LIMIT)
    for sender in ("edge-1", "edge-2"):
        assert [incoming.put(sender, frame_of(BODY, index), 0.0)[1] for index in range(3)][-1] == BODY


def test_what_a_sender_began_is_dropped_when_it_leaves() -> None:
    incoming = Incoming(LIMIT)
    incoming.put("edge-1", frame_of(BODY, 0), 0.0)
    incoming.put("edge-2", frame_of(BODY, 0), 0.0)
    incoming.forget("edge-1")
    assert incoming.held == SMALLEST


@given(st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_random_bytes_raise_wire_errors_only(frame: bytes) -> None:
    for take in (lambda: Incoming(LIMIT).put("edge-1", frame, 0.0), lambda: Outgoing(b"x", 0).acknowledge(frame, 0.0)):
        with pytest.raises(WireError):
            take()


def test_the_number_of_chunks_is_rounded_up() -> None:
    assert [count_of(size, 10) for size in (1, 10, 11)] == [1, 1, 2]
