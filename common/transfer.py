r"""Payloads over 1 MB: cut into chunks, acknowledged end to end, put together again.

The broker's acknowledgement says nothing about the receiver, so at most four chunks are on the way that the receiving
program has not acknowledged itself. Every chunk says all about its transfer, so order, losses and copies do not
matter and no announcement can get lost. A transfer is known by the SHA-256 of its payload, which is checked at the end.

    chunk: magic "MC1\n", digest (32 bytes), size of payload (8), size of chunk (4), index (4), CRC-32 (4), data
    acknowledgement: magic "MA1\n", digest (32 bytes), index (4)                   all numbers big endian
"""

from __future__ import annotations

import hashlib
import math
import struct
import zlib
from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from common.errors import WireError
from common.node import NodeId, Seconds
from common.wire import Payload

CHUNK = 1_000_000
"""Bytes of payload in one chunk."""
WINDOW = 4
"""Chunks sent and not acknowledged."""
ATTEMPTS = 8
"""Times a chunk is sent before its transfer is given up."""
SLOTS = 2
"""Transfers of one sender that may be incomplete at a time."""
PARTIALS, SENDERS = 4096, 4096
"""Incomplete transfers of all senders together, and senders whose finished ones are remembered."""
ROOM, _ROOM_LEAST, _ROOM_MOST = 64, 64 * 1024**2, 2 * 1024**3
"""Largest payloads that may be incomplete together; that is so many bytes, at least and at most."""
RESEND, _RESEND_MOST = 5.0, 60.0
"""Seconds until a chunk is sent again, at least and at most: three times what an answer took, doubled by silence."""
EXPIRY = 1.5 * _RESEND_MOST
"""Seconds after which an incomplete transfer is dropped: an honest sender is never silent for so long."""
SMALLEST = 16 * 1024
"""Bytes of a chunk at least: what is kept of each costs more than its data below that."""
_CHUNK = struct.Struct("!4s32sQIII")
_ACK = struct.Struct("!4s32sI")
_CHUNK_MAGIC, _ACK_MAGIC = b"MC1\n", b"MA1\n"
FRAME = _CHUNK.size
"""Bytes that a chunk adds to its data."""


def count_of(size: int, chunk: int) -> int:
    """Chunks of `chunk` bytes that a payload of `size` bytes makes."""
    return -(-size // chunk)


@dataclass(frozen=True, slots=True)
class _Flight:
    sent: Seconds
    due: Seconds
    times: int


class Outgoing:
    """One payload on its way to one node. `about` says what it is, to recognise a second copy of it."""

    def __init__(self, payload: bytes, about: Hashable, chunk: int = CHUNK) -> None:
        self.about = about
        self._payload = memoryview(payload)
        self._digest = hashlib.sha256(payload).digest()
        self._chunk = chunk
        self._unsent = deque(range(count_of(len(payload), chunk)))
        self._missing = set(range(count_of(len(payload), chunk)))
        self._flying: dict[int, _Flight] = {}
        self._wait = RESEND

    @property
    def is_done(self) -> bool:
        """Whether every chunk arrived."""
        return not self._missing

    @property
    def due(self) -> Seconds:
        """When the next chunk has to be sent again, if nothing arrives before."""
        return min((flight.due for flight in self._flying.values()), default=math.inf)

    def frames(self, now: Seconds) -> Iterator[bytes]:
        """The chunks to send now: new ones as far as the window allows, and those that stayed unanswered.

        Raises:
            WireError: a chunk was sent too often; the transfer is given up.
        """
        late = [index for index, flight in self._flying.items() if flight.due <= now]
        if late:
            self._wait = min(2 * self._wait, _RESEND_MOST)
        for index in late:
            yield self._send(index, now)
        while len(self._flying) < WINDOW and self._unsent:
            yield self._send(self._unsent.popleft(), now)

    def acknowledge(self, frame: Payload, now: Seconds) -> None:
        """Notes that a chunk arrived. An acknowledgement of another transfer, or a second one, does nothing.

        Raises:
            WireError: not an acknowledgement.
        """
        if len(frame) != _ACK.size:
            raise WireError(f"acknowledgement: {len(frame)} bytes: expected {_ACK.size}")
        magic, digest, index = _ACK.unpack(frame)
        if magic != _ACK_MAGIC:
            raise WireError(f"acknowledgement: starts with {magic!r}: expected {_ACK_MAGIC!r}")
        if digest == self._digest and index in self._flying:
            flight = self._flying.pop(index)
            if flight.times == 1:  # else it is not known which copy was answered
                self._wait = min(max(RESEND, 3 * (now - flight.sent)), _RESEND_MOST)
            self._missing.discard(index)

    def _send(self, index: int, now: Seconds) -> bytes:
        times = self._flying[index].times + 1 if index in self._flying else 1
        if times > ATTEMPTS:
            raise WireError(f"chunk {index}: sent {ATTEMPTS} times without an answer: expected an acknowledgement")
        self._flying[index] = _Flight(now, now + self._wait, times)
        data = self._payload[index * self._chunk : (index + 1) * self._chunk]
        head = _CHUNK.pack(_CHUNK_MAGIC, self._digest, len(self._payload), self._chunk, index, zlib.crc32(data))
        return head + data


@dataclass
class _Partial:
    """A payload of which some chunks are here."""

    size: int
    chunk: int
    pieces: dict[int, memoryview] = field(default_factory=dict)
    held: int = 0
    touched: Seconds = 0.0


class Incoming:
    """Payloads on their way in, of any number of senders.

    What a sender announces costs nothing before it arrives; it may have two incomplete transfers of at most `limit`
    bytes, and all senders together `PARTIALS` of `total` bytes, else the one that rested longest is dropped (it is
    sent again). So is one that rested for `EXPIRY`: the name of a sender costs nothing to invent.
    """

    def __init__(self, limit: int, total: int | None = None) -> None:
        """`limit`: bytes of one payload; `total`: of all incomplete ones, by default what `limit` makes reasonable."""
        if total is None:
            total = min(max(ROOM * limit, _ROOM_LEAST), _ROOM_MOST)
        self._limit, self._total = limit, max(total, limit)
        self._partial: dict[tuple[NodeId, bytes], _Partial] = {}  # the one that rested longest comes first
        self._complete: dict[NodeId, list[bytes]] = {}  # so does the sender
        self._held = 0

    @property
    def held(self) -> int:
        """Bytes of incomplete payloads."""
        return self._held

    def put(self, sender: NodeId, frame: Payload, now: Seconds) -> tuple[bytes, bytes | None]:
        """Takes one chunk in. Gives the acknowledgement to send, and the payload if this was its last chunk.

        Raises:
            WireError: not a chunk, damaged, too large, or the whole does not have the announced digest.
        """
        digest, size, chunk, index, data = self._read(frame)
        answer = _ACK.pack(_ACK_MAGIC, digest, index)
        if digest in self._complete.get(sender, ()):
            return answer, None
        partial = self._partial.get((sender, digest)) or self._open(sender, digest, size, chunk)
        if (partial.size, partial.chunk) != (size, chunk):
            raise WireError(f"chunk: of {size} in {chunk}: expected of {partial.size} in {partial.chunk}")
        partial.touched = now
        self._partial[sender, digest] = self._partial.pop((sender, digest))
        if index not in partial.pieces:
            partial.pieces[index] = data
            partial.held += len(data)
            self._held += len(data)
        self._make_room(now)
        if partial.held < size:
            return answer, None
        self._drop(sender, digest)
        payload = b"".join(partial.pieces[position] for position in range(count_of(size, chunk)))
        if hashlib.sha256(payload).digest() != digest:
            raise WireError(f"payload of {size} bytes: expected SHA-256 {digest.hex()}")
        self._complete[sender] = [*self._complete.pop(sender, [])[-7:], digest]
        if len(self._complete) > SENDERS:
            del self._complete[next(iter(self._complete))]
        return answer, payload

    def forget(self, sender: NodeId) -> None:
        """Drops what a sender that left had begun."""
        for owner, digest in list(self._partial):
            if owner == sender:
                self._drop(owner, digest)
        self._complete.pop(sender, None)

    def _read(self, frame: Payload) -> tuple[bytes, int, int, int, memoryview]:
        if len(frame) <= _CHUNK.size:
            raise WireError(f"chunk: {len(frame)} bytes: expected more than {_CHUNK.size}")
        magic, digest, size, chunk, index, crc = _CHUNK.unpack_from(frame)
        data = memoryview(frame)[_CHUNK.size :]
        if magic != _CHUNK_MAGIC:
            raise WireError(f"chunk: starts with {magic!r}: expected {_CHUNK_MAGIC!r}")
        if not 0 < size <= self._limit:
            raise WireError(f"chunk: of a payload of {size} bytes: expected at most {self._limit}")
        if not SMALLEST <= chunk <= CHUNK or index >= count_of(size, chunk):
            raise WireError(f"chunk: {index} of {size} bytes in {chunk}: expected {SMALLEST} to {CHUNK}")
        if len(data) != min(chunk, size - index * chunk):
            raise WireError(f"chunk {index}: {len(data)} bytes: expected {min(chunk, size - index * chunk)}")
        if zlib.crc32(data) != crc:
            raise WireError(f"chunk {index}: CRC {zlib.crc32(data):08x}: expected {crc:08x}")
        return digest, size, chunk, index, data

    def _open(self, sender: NodeId, digest: bytes, size: int, chunk: int) -> _Partial:
        own = [known for owner, known in self._partial if owner == sender]
        if len(own) >= SLOTS:
            self._drop(sender, own[0])
        partial = self._partial[sender, digest] = _Partial(size, chunk)
        return partial

    def _make_room(self, now: Seconds) -> None:
        """Drops from the front; the last one was touched just now, and fits alone."""
        while len(self._partial) > 1:
            key, oldest = next(iter(self._partial.items()))
            is_full = self._held > self._total or len(self._partial) > PARTIALS
            if not is_full and oldest.touched + EXPIRY > now:
                return
            self._drop(*key)

    def _drop(self, sender: NodeId, digest: bytes) -> None:
        self._held -= self._partial.pop((sender, digest)).held
