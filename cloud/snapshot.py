"""A node's state as one file: JSON and arrays, with a digest of both. Any safetensors library reads it.

8 bytes little endian: length of the header
header, JSON: {"__metadata__": {"mapa": "<JSON>", "sha256": "<of that JSON and the body>"}, "0": {...}, "1": {...}}
body: the arrays, float32, one after the other
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from common.errors import RecordError
from common.storage import write_whole
from common.tensors import Flat
from common.wire import PREFIX

_METADATA = "__metadata__"


def write_snapshot(path: Path, content: Mapping[str, Any], arrays: Sequence[Flat]) -> None:
    """Writes it as a whole, synchronised to the disk.

    Raises:
        RecordError: there is no room.
    """
    text = json.dumps(content, separators=(",", ":"))
    bodies = [array.astype("<f4", copy=False).data.cast("B") for array in arrays]
    digest = hashlib.sha256(text.encode())
    header: dict[str, Any] = {_METADATA: {"mapa": text}}
    begin = 0
    for number, body in enumerate(bodies):
        digest.update(body)
        header[str(number)] = {
            "dtype": "F32",
            "shape": [len(body) // 4],
            "data_offsets": [begin, begin := begin + len(body)],
        }
    header[_METADATA]["sha256"] = digest.hexdigest()
    head = json.dumps(header).encode("ascii")
    head += b" " * (-len(head) % 8)
    write_whole(path, [len(head).to_bytes(PREFIX, "little"), head, *bodies])


def read_snapshot(path: Path) -> tuple[Mapping[str, Any], Sequence[Flat]]:
    """The content and the arrays.

    Raises:
        RecordError: it cannot be read, or is not as it was written.
    """
    try:
        file = path.read_bytes()
        start = PREFIX + int.from_bytes(file[:PREFIX], "little")
        header = json.loads(file[PREFIX:start])
        metadata = header.pop(_METADATA)
        body = memoryview(file)[start:]
        _check(metadata, body)
        arrays: list[Flat] = []
        for number in range(len(header)):
            begin, end = header[str(number)]["data_offsets"]
            arrays.append(np.frombuffer(body[begin:end], dtype="<f4").astype(np.float32, copy=False))
        content: Mapping[str, Any] = json.loads(metadata["mapa"])
    except OSError as error:
        raise RecordError(f"snapshot: {path}: {error.strerror}: expected a readable file") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RecordError(f"snapshot: {path}: damaged ({error}): expected it as it was written") from error
    return content, arrays


def _check(metadata: Mapping[str, str], body: memoryview) -> None:
    digest = hashlib.sha256(metadata["mapa"].encode())
    digest.update(body)
    if digest.hexdigest() != metadata["sha256"]:
        raise ValueError("SHA-256 is another")
