"""What a hostile edge sends: bytes that are no messages, and messages that an honest edge would not send.

Both are endless, and a function of the random generator. Each item is the end of a topic below the edge's own
(`up/update`, `status`) and a payload.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from common.events import Event
from common.messages import Answer, Bye, Directive, Hello, Message, Model, Refusal, Report, Running, Stop, Update
from common.tensors import Layout, Tensors
from common.transfer import CHUNK
from common.wire import Envelope, Limits, encode

Said = tuple[str, bytes]
LANES = ("up/update", "up/hello", "up/answer", "up/report", "up/bye", "up/chunk", "up/ack", "up/x", "status")
_MANY = 2**53
_NESTED = b'{"a":' * 5000
_JSON = (
    b"NaN",
    b"1e999",
    b"-1e999",
    b"1" * 400,
    b'"\\ud800"',
    b"{}",
    b"[]",
    _NESTED,
    b'{"a":1,"a":2}',
    b"null",
    b"true",
)


@dataclass(frozen=True)
class Knowledge:
    """What the edge knows of the run, which is all that its experiment and the broker tell it."""

    run: str
    digest: str
    layout: Layout
    event: Event
    lineage: str | None = None


class Hostility:
    """One hostile edge."""

    def __init__(self, knowledge: Knowledge, rng: np.random.Generator) -> None:
        self._knowledge, self._rng = knowledge, rng
        self._number = 0
        self.overheard: list[bytes] = []
        """Payloads of others, which it repeats and damages."""

    # Bytes

    def garbage(self) -> Iterator[Said]:
        """Payloads that are no messages, or hardly any."""
        kinds = (self._noise, self._cut, self._flipped, self._spliced, self._lying, self._odd_json, self._odd_chunk)
        while True:
            lane = LANES[self._rng.integers(len(LANES))]
            yield lane, kinds[self._rng.integers(len(kinds))]()

    def _noise(self) -> bytes:
        return self._rng.bytes(int(self._rng.integers(0, 400)))

    def _sample(self) -> bytearray:
        known = [*self.overheard, self._sealed(self._update()), self._sealed(self._hello()), self._chunk(5, 0)]
        return bytearray(known[self._rng.integers(len(known))])

    def _cut(self) -> bytes:
        sample = self._sample()
        return bytes(sample[: self._rng.integers(len(sample) + 1)])

    def _flipped(self) -> bytes:
        sample = self._sample()
        for _ in range(self._rng.integers(1, 5)):
            sample[self._rng.integers(min(len(sample), 600))] ^= 1 << int(self._rng.integers(8))
        return bytes(sample)

    def _spliced(self) -> bytes:
        first, second = self._sample(), self._sample()
        return bytes(first[: self._rng.integers(len(first))] + second[self._rng.integers(len(second)) :])

    def _lying(self) -> bytes:
        sample = self._sample()
        sample[:8] = int(self._rng.integers(0, 2**63)).to_bytes(8, "little")
        return bytes(sample)

    def _odd_json(self) -> bytes:
        odd = _JSON[self._rng.integers(len(_JSON))]
        text = self._sealed(self._hello())[8:].rstrip()
        place = int(self._rng.integers(len(text)))
        header = text[:place] + odd + text[place + int(self._rng.integers(0, 20)) :]
        return len(header).to_bytes(8, "little") + header

    def _odd_chunk(self) -> bytes:
        size, chunk, index = (int(self._rng.integers(0, 2**31)) for _ in range(3))
        data = self._rng.bytes(64)
        head = struct.pack("!4s32sQIII", b"MC1\n", self._rng.bytes(32), size * size, chunk, index, zlib.crc32(data))
        return head + data

    # Messages

    def messages(self) -> Iterator[Said]:
        """Well-formed messages, each wrong in another way."""
        while True:
            for make in self.kinds.values():
                yield make()

    @property
    def kinds(self) -> dict[str, Callable[[], Said]]:
        """All ways to be wrong, by name."""
        return {
            "not finite": lambda: self._say(self._update(values=(np.nan, np.inf))),
            "too long": lambda: self._say(self._update(values=(3e38, -3e38))),
            "other tensors": lambda: self._say(self._update(layout=Layout.of({"x": (3, 2), "y": (1,)}))),
            "future ticket": lambda: self._say(self._update(ticket=self._count())),
            "future version": lambda: self._say(self._update(version=self._count())),
            "other event": lambda: self._say(self._update(event=Event(mechanism="none"))),
            "no privacy": lambda: self._say(self._hello(event=Event(mechanism="none"))),
            "loud noise": lambda: self._say(self._hello(event=self._loud())),
            "other experiment": lambda: self._say(self._hello(digest="0" * 64)),
            "last ticket": lambda: self._say(self._hello(ticket=_MANY)),
            "many boots": lambda: self._say(self._hello(boot=self._name(), samples=_MANY)),
            "bye": lambda: self._say(Bye(reason="x" * 500, boot=self._name(), releases=_MANY, note="\u00fc" * 500)),
            "bye of nobody": lambda: self._say(Bye(reason="edge-0001 edge-0002", failed=True)),
            "report": lambda: self._say(Report(iteration=_MANY, metrics={self._name(): 1e308 for _ in range(32)})),
            "answer": lambda: self._say(self._answer()),
            "model": lambda: self._say(self._model()),
            "stop": lambda: self._say(Stop(reason="over")),
            "running": lambda: self._say(Running(boot=self._name(), digest=self._knowledge.digest)),
            "refusal": lambda: self._say(Refusal(reason="edge-0001", ticket=1)),
            "other run": lambda: ("up/update", self._sealed(self._update(), run="another")),
            "last number": lambda: ("up/hello", self._sealed(self._hello(), number=_MANY)),
            "replay": self._replay,
            "announcement": lambda: ("up/chunk", self._chunk(Limits.of(self._knowledge.layout).payload, 0)),
            "half a transfer": lambda: ("up/chunk", self._chunk(3, 0)),
            "too large": lambda: ("up/update", bytes(2 * CHUNK)),
            "acknowledgement": lambda: ("up/ack", struct.pack("!4s32sI", b"MA1\n", self._rng.bytes(32), 1)),
            "flapping": self._flap,
            "asking": lambda: ("status", json.dumps({"state": "asking", "boot": self._name()}).encode()),
        }

    def _say(self, message: Message) -> Said:
        return f"up/{message.kind}", self._sealed(message)

    def _sealed(self, message: Message, *, run: str | None = None, number: int | None = None) -> bytes:
        self._number += 1
        stamp = self._number if number is None else number
        return encode(Envelope(run or self._knowledge.run, f"h{self._number % 7}", stamp, 0.0, message))

    def _count(self) -> int:
        return int(self._rng.integers(1, _MANY))

    def _name(self) -> str:
        return self._rng.bytes(32).hex()

    def _loud(self) -> Event:
        event = self._knowledge.event
        return event.model_copy(update={"noise_multiplier": 1e6 if event.noise_multiplier is not None else None})

    def _hello(self, **changes: Any) -> Hello:
        content = {"digest": self._knowledge.digest, "boot": "hostile", "samples": 100, "event": self._knowledge.event}
        return Hello.model_validate(content | changes)

    def _update(
        self,
        *,
        values: Sequence[float] = (1.0,),
        ticket: int = 1,
        version: int = 1,
        layout: Layout | None = None,
        event: Event | None = None,
    ) -> Update:
        layout = layout or self._knowledge.layout
        flat = np.resize(np.array(values, dtype=np.float32), layout.size)
        event = event or self._knowledge.event
        content = {"ticket": ticket, "version": version, "lineage": self._knowledge.lineage, "event": event}
        return Update.model_validate({**content, "work": 1e308, "tensors": Tensors(layout, flat)})

    def _answer(self) -> Answer:
        event = Event(mechanism="gaussian", noise_multiplier=1e-6, dimension=2)
        lineage = self._knowledge.lineage
        return Answer(ticket=self._count(), lineage=lineage, version=1, event=event, values=(1.7e308, -1.7e308))

    def _model(self) -> Model:
        tensors = Tensors(self._knowledge.layout, self._knowledge.layout.zeros())
        return Model(ticket=1, version=1, directive=Directive(), tensors=tensors)

    def _replay(self) -> Said:
        known = self.overheard or [self._sealed(self._hello(), number=1)]
        return "up/update", known[self._rng.integers(len(known))]

    def _chunk(self, size: int, index: int) -> bytes:
        """One chunk of a transfer that never ends; `size`: in the smallest chunks if it is small, else in bytes."""
        whole = size * 16_384 if size < 16 else size
        chunk = min(CHUNK, max(16_384, whole // 2))
        data = self._rng.bytes(min(chunk, whole - index * chunk))
        digest = hashlib.sha256(self._name().encode()).digest()
        return struct.pack("!4s32sQIII", b"MC1\n", digest, whole, chunk, index, zlib.crc32(data)) + data

    def _flap(self) -> Said:
        state = "online" if self._number % 2 else "offline"
        self._number += 1
        return "status", json.dumps({"state": state, "boot": "hostile"}).encode()
