"""Everything a node hears, in order, in one file: from it the node can be made to decide the same again.

The file holds one entry after the other: a line of JSON (`event`: start, message or wake; `now`; `sender` or `name`;
`size`), and after that line so many bytes of a message as `common.wire` encodes it. The last entry, `end`, is there if
the file was closed in order.
"""

from __future__ import annotations

import json
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
_LONGEST = 10_000  # bytes of a line


@dataclass(frozen=True)
class Event:
    """One thing that a node heard, or the `end` of the file.

    `who`: the sender of `message`, or the name of a wake-up; empty at the start and the end.
    """

    kind: str
    now: Seconds
    who: str = ""
    message: Message | None = None


class Transcribed:
    """A node whose every event is written down before it hears of it."""

    def __init__(self, node: Node, path: Path) -> None:
        """Opens `path`, which must not exist.

        Raises:
            RecordError: it exists, or cannot be written.
        """
        self._node = node
        self._path = path
        self._number = 0
        self._now: Seconds = 0.0
        try:
            self._file: BinaryIO = path.open("xb", buffering=0)
        except OSError as error:
            raise RecordError(f"transcript: {path}: {error.strerror}: expected a new file") from error

    def start(self, now: Seconds) -> Sequence[Effect]:
        """As the node."""
        self._now = now
        self._write({"event": "start", "now": now})
        return self._node.start(now)

    def on_message(self, sender: NodeId, message: Message, now: Seconds) -> Sequence[Effect]:
        """As the node."""
        self._number += 1
        payload = encode(Envelope("transcript", "transcript", self._number, now, message))
        self._now = now
        self._write({"event": "message", "now": now, "sender": sender}, payload)
        return self._node.on_message(sender, message, now)

    def on_wake(self, name: str, now: Seconds) -> Sequence[Effect]:
        """As the node."""
        self._now = now
        self._write({"event": "wake", "now": now, "name": name})
        return self._node.on_wake(name, now)

    def close(self) -> None:
        """Ends the file; a second call does nothing.

        Raises:
            RecordError: there is no room for its end.
        """
        if self._file.closed:
            return
        try:
            self._write({"event": END, "now": self._now})
        finally:
            self._file.close()

    def _write(self, line: dict[str, object], payload: bytes = b"") -> None:
        entry = json.dumps({**line, "size": len(payload)}).encode("ascii") + b"\n" + payload
        try:
            written = self._file.write(entry)
        except OSError as error:
            raise RecordError(f"transcript: {self._path}: {error.strerror}: expected room for an event") from error
        if written != len(entry):
            raise RecordError(f"transcript: {self._path}: expected room for {len(entry)} bytes")


def read_transcript(path: Path, layout: Layout) -> Iterator[Event]:
    """The events in the file, its end among them; an entry that a killed process left incomplete is none.

    Raises:
        RecordError: the file cannot be read, or is no transcript of nodes with this layout.
    """
    try:
        with path.open("rb") as file:
            while line := file.readline(_LONGEST):
                if not line.endswith(b"\n"):
                    return
                entry = json.loads(line)
                payload = file.read(max(0, entry["size"]))
                if len(payload) < entry["size"]:
                    return
                message = decode(payload, Limits.of(layout), layout).message if payload else None
                yield Event(
                    entry["event"], float(entry["now"]), entry.get("sender") or entry.get("name") or "", message
                )
    except OSError as error:
        expected = "one, of a run made with --set transcript=true"
        raise RecordError(f"transcript: {path}: {error.strerror}: expected {expected}") from error
    except (ValueError, KeyError, TypeError, WireError) as error:
        raise RecordError(f"transcript: {path}: {error}: expected the transcript of this run") from error
