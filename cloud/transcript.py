"""Everything a node hears, in order, in one file: from it the node can be made to decide the same again.

The file holds one entry after the other: a line of JSON (`event`: start, message or wake; `now`; `sender` or `name`;
`size` and `crc`, CRC-32), and after that line so many bytes of a message as `common.wire` encodes it. The last entry,
`end`, is there if the file was closed in order.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from common.errors import RecordError, WireError
from common.messages import Message
from common.node import Effect, Node, NodeId, Seconds
from common.tensors import Layout
from common.wire import Envelope, Limits, decode, encode

END = "end"
SHELL = frozenset(
    {
        *("connection", "dropped", "evaluation", "failed", "machine"),
        *("muted", "resumed", "skipped", "slower", "unread"),
    }
)
"""Kinds of rows in a cloud's records that its node did not decide: replayed events do not lead to them."""
_LONGEST = 10_000  # bytes of a line
_LARGE = 65_536  # bytes of a message that is not copied behind its line, but written after it


@dataclass(frozen=True)
class Event:
    """One thing that a node heard, or the `end` of the file.

    `who`: the sender of `message`, or the name of a wake-up; empty at the start and the end. `until`: where its entry
    ends in the file, `size`: how long it is, in bytes.
    """

    kind: str
    now: Seconds
    who: str = ""
    message: Message | None = None
    until: int = 0
    size: int = 0

    def happen(self, node: Node) -> Sequence[Effect]:
        """Lets the node hear of it once more.

        Raises:
            RecordError: it is none that a node could hear of.
        """
        match self.kind:
            case "start":
                return node.start(self.now)
            case "wake":
                return node.on_wake(self.who, self.now)
            case "message" if self.message is not None:
                return node.on_message(self.who, self.message, self.now)
        raise RecordError(f"transcript: event {self.kind!r}: expected start, message or wake")


class Transcript:
    """Writes events down: each with one write, or two, that return before anybody reacts to it."""

    def __init__(self, path: Path, *, size: int | None = None) -> None:
        """Begins a new file, or goes on after the first `size` bytes of one, and cuts off the rest.

        Raises:
            RecordError: it exists, or does not, or cannot be written.
        """
        self.path = path
        self._number = 0
        self._now: Seconds = 0.0
        try:
            self._file: BinaryIO = path.open("xb" if size is None else "r+b", buffering=0)
            if size is not None:
                self._file.truncate(size)
                self._file.seek(size)
        except OSError as error:
            expected = "a new file" if size is None else "the file as it was"
            raise RecordError(f"transcript: {path}: {error.strerror}: expected {expected}") from error
        self.size = size or 0
        """Bytes of the file."""

    def start(self, now: Seconds) -> None:
        """The node starts."""
        self._write(now, {"event": "start"})

    def message(self, sender: NodeId, message: Message, now: Seconds) -> None:
        """A message arrived."""
        self._number += 1
        payload = encode(Envelope("transcript", "transcript", self._number, now, message))
        self._write(now, {"event": "message", "sender": sender}, payload)

    def wake(self, name: str, now: Seconds) -> None:
        """A wake-up is due."""
        self._write(now, {"event": "wake", "name": name})

    def close(self, *, is_over: bool = True) -> None:
        """Closes the file, with the entry that ends it if it is over; a second call does nothing.

        Raises:
            RecordError: there is no room for its end.
        """
        if self._file.closed:
            return
        try:
            if is_over:
                self._write(self._now, {"event": END})
        finally:
            self._file.close()

    def _write(self, now: Seconds, line: dict[str, object], payload: bytes = b"") -> None:
        self._now = now
        head = (
            json.dumps({**line, "now": now, "size": len(payload), "crc": zlib.crc32(payload)}).encode("ascii") + b"\n"
        )
        parts = (head, payload) if len(payload) > _LARGE else (head + payload,)
        try:
            written = sum(self._file.write(part) for part in parts)
        except OSError as error:
            raise RecordError(f"transcript: {self.path}: {error.strerror}: expected room for an event") from error
        if written != len(head) + len(payload):
            raise RecordError(f"transcript: {self.path}: expected room for {len(head) + len(payload)} bytes")
        self.size += written


class Transcribed:
    """A node whose every event is written down before it hears of it."""

    def __init__(self, node: Node, path: Path) -> None:
        """Opens `path`, which must not exist.

        Raises:
            RecordError: it exists, or cannot be written.
        """
        self._node = node
        self._transcript = Transcript(path)

    def start(self, now: Seconds) -> Sequence[Effect]:
        """As the node."""
        self._transcript.start(now)
        return self._node.start(now)

    def on_message(self, sender: NodeId, message: Message, now: Seconds) -> Sequence[Effect]:
        """As the node."""
        self._transcript.message(sender, message, now)
        return self._node.on_message(sender, message, now)

    def on_wake(self, name: str, now: Seconds) -> Sequence[Effect]:
        """As the node."""
        self._transcript.wake(name, now)
        return self._node.on_wake(name, now)

    def close(self) -> None:
        """Ends the file; a second call does nothing.

        Raises:
            RecordError: there is no room for its end.
        """
        self._transcript.close()


def read_transcript(path: Path, layout: Layout, start: int = 0) -> Iterator[Event]:
    """The events in the file from byte `start` on, its end among them.

    An entry that a killed process left incomplete is none, nor are zeros up to the end, which a power failure leaves.

    Raises:
        RecordError: the file cannot be read, or is no transcript of nodes with this layout.
    """
    try:
        with path.open("rb") as file:
            file.seek(start)
            while line := file.readline(_LONGEST):
                if not line.endswith(b"\n"):
                    if len(line) == _LONGEST and any(line):
                        raise _damage(file, "a line without an end")
                    return
                entry = json.loads(line)
                payload = file.read(max(0, entry["size"]))
                if len(payload) < entry["size"]:
                    return
                if zlib.crc32(payload) != entry["crc"]:
                    if not any(payload[-1:] + file.read()):
                        return
                    raise _damage(file, "an entry with a wrong CRC")
                message = decode(payload, Limits.of(layout), layout).message if payload else None
                who = entry.get("sender") or entry.get("name") or ""
                size = len(line) + entry["size"]
                yield Event(entry["event"], float(entry["now"]), who, message, file.tell(), size)
    except OSError as error:
        expected = "one, of a run made with --set transcript=true"
        raise RecordError(f"transcript: {path}: {error.strerror}: expected {expected}") from error
    except (ValueError, KeyError, TypeError, WireError) as error:
        raise RecordError(f"transcript: {path}: {error}: expected the transcript of this run") from error


def _damage(file: BinaryIO, what: str) -> ValueError:
    return ValueError(f"{what} before byte {file.tell()}")
