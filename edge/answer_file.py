"""The newest answer of an edge on disk: what was released and paid for is not lost with the process.

One file, written over in place: a line of JSON, then the message as `common.wire` encodes it. A process that is killed
while it writes leaves bytes that their digest gives away; then there is no answer, which costs the work on one ticket.
Nothing is synchronised to the disk, for the death of a process loses nothing that it wrote.

| state of the file | what is done |
|---|---|
| missing | there is no answer |
| torn or damaged; of another run, edge or experiment | the same, with a warning |
| cannot be read or written, as on a full disk | RecordError: the answer has not left |
"""

from __future__ import annotations

import hashlib
import json
import logging
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from common.errors import RecordError, WireError
from common.messages import Answer, Update
from common.tensors import Layout
from common.wire import Envelope, Limits, decode, encode

LOG = logging.getLogger(__name__)
_LONGEST = 1000  # bytes of the line


class AnswerFile:
    """Keeps one answer."""

    def __init__(self, path: Path, owner: str, layout: Layout) -> None:
        """`owner`: the run, edge and experiment whose answer it is, in words; `layout`: of its tensors."""
        self._path, self._owner, self._layout = path, owner, layout
        self._file: BinaryIO | None = None

    def read(self) -> Update | Answer | None:
        """The answer that was kept last, if it is whole.

        Raises:
            RecordError: the file cannot be read.
        """
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise RecordError(f"answer: {self._path}: {error.strerror}: expected a readable file") from error
        line, _, rest = content.partition(b"\n")
        with suppress(ValueError, KeyError, TypeError, WireError):
            entry = json.loads(line[:_LONGEST])
            payload = rest[: entry["size"]]
            if entry["owner"] == self._owner and entry["digest"] == hashlib.sha256(payload).hexdigest():
                message = decode(payload, Limits.of(self._layout), self._layout).message
                if isinstance(message, Update | Answer):
                    return message
        LOG.warning("answer %s: torn, damaged, or of another run: not sent again", self._path)
        return None

    def write(self, answer: Update | Answer) -> None:
        """Keeps this answer in place of the last.

        Raises:
            RecordError: it cannot be written.
        """
        payload = encode(Envelope("answer", "answer", 0, 0.0, answer))
        entry = {"owner": self._owner, "size": len(payload), "digest": hashlib.sha256(payload).hexdigest()}
        data = b"".join((json.dumps(entry).encode("ascii"), b"\n", payload))
        try:
            if self._file is None:
                self._path.touch()
                self._file = self._path.open("r+b", buffering=0)
            self._file.seek(0)
            written = self._file.write(data)
        except OSError as error:
            raise RecordError(f"answer: {self._path}: {error.strerror}: expected room for an answer") from error
        if written != len(data):
            raise RecordError(f"answer: {self._path}: {written} of {len(data)} bytes: expected room for an answer")

    def close(self) -> None:
        """Lets go of the file; a second call does nothing."""
        if self._file is not None:
            self._file.close()
