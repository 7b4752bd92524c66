"""The wire format: one message as one safetensors file, its header checked before anything is used.

    8 bytes little endian: length of the header
    header, JSON, padded with spaces so that the body starts at a multiple of 8:
        {"__metadata__": {"mapa": "<envelope and message as JSON>"},
         "<tensor>": {"dtype": "F32", "shape": [...], "data_offsets": [begin, end]}, ...}
    body: the flat float32 vector as it is, tensors in sorted name order without holes

Any safetensors library reads it. A message without tensors is the same container without a body. Whatever the
bytes, `decode` raises `WireError` and nothing else.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from common.errors import WireError
from common.messages import Count, Message, Model, Name, Probe, Update
from common.tensors import Flat, Layout, Tensors

Payload = bytes | bytearray | memoryview

PREFIX = 8
"""Bytes before the header."""
_METADATA = "__metadata__"
_FIELDS = frozenset({"dtype", "shape", "data_offsets"})
_TENSOR_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


@dataclass(frozen=True)
class Envelope:
    """A message and the stamp its shell gave it. The sender is not in it: the authenticated topic says who.

    `boot` names the sending process, `number` counts its messages, `sent` is unix seconds.
    """

    run: str
    boot: str
    number: int
    sent: float
    message: Message


@dataclass(frozen=True)
class Limits:
    """What is refused unread: payload and header in bytes, number of tensors, axes of one tensor."""

    payload: int = 512 * 1024 * 1024
    header: int = 256 * 1024
    tensors: int = 2048
    axes: int = 8

    @classmethod
    def of(cls, layout: Layout | None) -> Limits:
        """The limits of a run whose only tensors have this layout."""
        return cls() if layout is None else cls(payload=PREFIX + cls.header + 4 * layout.size)


class _Stamped(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True)

    wire: Literal[1]
    run: Name
    boot: Name
    number: Count
    sent: FiniteFloat
    message: Annotated[Message, Field(discriminator="kind")]


def encode(envelope: Envelope) -> bytes:
    """The payload of one message. The tensors are copied once, into it."""
    message = envelope.message
    stamp = json.dumps(
        f'{{"wire":1,"run":{json.dumps(envelope.run)},"boot":{json.dumps(envelope.boot)},"number":{envelope.number},'
        f'"sent":{envelope.sent!r},"message":{message.model_dump_json()}}}'
    )
    if not isinstance(message, Model | Update | Probe):
        return _container(f'{{"{_METADATA}":{{"mapa":{stamp}}}}}')
    tensors = message.tensors
    if not tensors.layout.size:
        raise WireError(f"tensors of {message.kind}: none: expected at least one")
    header = f'{{"{_METADATA}":{{"mapa":{stamp}}},{_described(tensors.layout)}}}'
    return _container(header, tensors.flat.astype("<f4", copy=False).data)


def save(tensors: Tensors) -> bytes:
    """A safetensors file of these tensors alone, such as a trained model's."""
    return _container(f"{{{_described(tensors.layout)}}}", tensors.flat.astype("<f4", copy=False).tobytes())


def _container(header: str, body: memoryview | bytes = b"") -> bytes:
    content = header.encode("ascii")
    padding = -len(content) % 8
    return b"".join(((len(content) + padding).to_bytes(PREFIX, "little"), content, b" " * padding, body))


@lru_cache(maxsize=64)
def _described(layout: Layout) -> str:
    """The part of a header that depends on the layout alone: made once, not once a message."""
    entries = {
        name: {"dtype": "F32", "shape": list(shape), "data_offsets": [4 * begin, 4 * (begin + math.prod(shape))]}
        for (name, shape), begin in zip(layout.shapes, layout.offsets, strict=True)
    }
    return json.dumps(entries, separators=(",", ":"))[1:-1]


def decode(payload: Payload, limits: Limits, layout: Layout | None = None) -> Envelope:
    """The message in `payload`; its tensors are a read-only view of the payload where alignment allows.

    Args:
        payload: what came from the network.
        limits: what is refused before it is read.
        layout: what tensors have to look like, if they come at all; None allows any.

    Raises:
        WireError: the bytes are not a message, or break a limit, or carry a value that is not finite.
    """
    start, text = _header_of(payload, limits)
    header, known = _split(text, layout)
    metadata = header.pop(_METADATA, None)
    if not isinstance(metadata, dict) or metadata.keys() != {"mapa"} or not isinstance(metadata["mapa"], str):
        raise WireError(f"metadata: {_shown(metadata)}: expected one text named mapa")
    stamp = _parsed(metadata["mapa"], "metadata")
    message = stamp.get("message")
    if not isinstance(message, dict) or "tensors" in message:
        raise WireError(f"message: {_shown(message)}: expected an object without tensors")
    if header and known:
        raise WireError(f"tensors: {_shown(sorted(header))}: expected each once")
    if header or known or len(payload) > start:
        found = known or _layout_of(header, limits, layout)
        message["tensors"] = Tensors(found, _vector_of(payload, start, found.size))
    try:
        valid = _Stamped.model_validate(stamp)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise WireError(f"message: {_shown('.'.join(map(str, first['loc'])))}: {_shown(first['msg'])}") from error
    return Envelope(valid.run, valid.boot, valid.number, valid.sent, valid.message)


def _header_of(payload: Payload, limits: Limits) -> tuple[int, str]:
    """Where the body starts, and the text before it."""
    size = len(payload)
    if not PREFIX < size <= limits.payload:
        raise WireError(f"payload: {size} bytes: expected {PREFIX + 1} to {limits.payload}")
    length = int.from_bytes(payload[:PREFIX], "little")
    if not 0 < length <= min(limits.header, size - PREFIX):
        raise WireError(f"header: {length} bytes: expected 1 to {min(limits.header, size - PREFIX)}")
    try:
        return PREFIX + length, bytes(payload[PREFIX : PREFIX + length]).decode()
    except UnicodeDecodeError as error:
        raise WireError("header: expected UTF-8") from error


def _split(text: str, layout: Layout | None) -> tuple[dict[str, Any], Layout | None]:
    """The header's content; where it ends as our own encoder would end it, the layout instead of its description."""
    if layout is not None:
        start = text.rstrip(" ").removesuffix(f",{_described(layout)}}}")
        if len(start) < len(text.rstrip(" ")):
            return _parsed(start + "}", "header"), layout
    return _parsed(text, "header"), None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError("a key comes twice")
    return content


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


_JSON = json.JSONDecoder(object_pairs_hook=_distinct, parse_constant=_no_constant)


def _parsed(text: str, what: str) -> dict[str, Any]:
    try:
        content = _JSON.decode(text)
    except (ValueError, RecursionError) as error:
        raise WireError(f"{what}: {_shown(error)}: expected JSON") from error
    if not isinstance(content, dict):
        raise WireError(f"{what}: {type(content).__name__}: expected a JSON object")
    return content


def _layout_of(header: Mapping[str, Any], limits: Limits, expected: Layout | None) -> Layout:
    """The layout that a header describes, if it is in sorted name order without a hole."""
    if not header:
        raise WireError("tensors: none named: expected a description of the body")
    if len(header) > limits.tensors:
        raise WireError(f"tensors: {len(header)}: expected at most {limits.tensors}")
    shapes, begin = [], 0
    for name in sorted(header):
        if not _TENSOR_NAME.fullmatch(name):
            raise WireError(f"tensor name: {_shown(name)}: expected {_TENSOR_NAME.pattern}")
        shape, end = _shape_of(name, header[name], begin, limits)
        shapes.append((name, shape))
        begin = end
    if expected is None:
        return Layout(tuple(shapes))
    if tuple(shapes) != expected.shapes:
        raise WireError(f"tensors: {_shown(dict(shapes))}: expected {_shown(dict(expected.shapes))}")
    return expected


def _shape_of(name: str, entry: object, begin: int, limits: Limits) -> tuple[tuple[int, ...], int]:
    """Shape of one entry and the byte at which it ends; it has to start at `begin`."""
    if not isinstance(entry, dict) or entry.keys() != _FIELDS:
        raise WireError(f"tensor {name}: {_shown(entry)}: expected {sorted(_FIELDS)}")
    if entry["dtype"] != "F32":
        raise WireError(f"dtype of {name}: {_shown(entry['dtype'])}: expected F32")
    shape, offsets = entry["shape"], entry["data_offsets"]
    if not (_are_counts(shape) and 1 <= len(shape) <= limits.axes and min(shape) >= 1):
        raise WireError(f"shape of {name}: {_shown(shape)}: expected 1 to {limits.axes} positive lengths")
    end = begin + 4 * math.prod(shape)
    if not _are_counts(offsets) or offsets != [begin, end]:
        raise WireError(f"data_offsets of {name}: {_shown(offsets)}: expected {_shown([begin, end])}")
    return tuple(shape), end


def _are_counts(values: object) -> bool:
    return isinstance(values, list) and all(type(value) is int and 0 <= value < 2**53 for value in values)


def _vector_of(payload: Payload, start: int, size: int) -> Flat:
    """The body as float32 [size]: a view, or a copy where the payload lies at an odd address."""
    if len(payload) - start != 4 * size:
        raise WireError(f"body: {len(payload) - start} bytes: expected {4 * size}, the sum of the tensors")
    flat: Flat = np.frombuffer(payload, dtype="<f4", count=size, offset=start)
    if not flat.flags.aligned or flat.dtype != np.float32:
        flat = flat.astype(np.float32)
    if (fault := fault_of_values(flat)) is not None:
        raise WireError(fault)
    return flat


def fault_of_values(flat: Flat) -> str | None:
    """What is wrong with the numbers of a message [n], in words; None if all are finite."""
    # Much faster than a look at each, and wrong about very large numbers only. `vdot` overflows without a warning;
    # to switch that of `dot` off takes longer than the product.
    if math.isfinite(np.vdot(flat, flat)):
        return None
    count = int(flat.size - np.isfinite(flat).sum())
    return f"tensors: {count} of {flat.size} values: expected finite numbers" if count else None


def _shown(value: object) -> str:
    """A short plain ASCII picture of something hostile."""
    text = str(value) if isinstance(value, str | Exception) else repr(value)
    return text[:200].encode("ascii", "backslashreplace").decode()
