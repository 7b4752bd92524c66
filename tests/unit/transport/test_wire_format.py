"""Each thing that makes a payload no message of ours, one at a time."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from common.errors import WireError
from common.messages import Directive, Model, Stop
from common.tensors import Layout, Tensors
from common.wire import Envelope, Limits, decode, encode, fault_of_values, save

LAYOUT = Layout.of({"a.bias": (2,), "a.weight": (2, 3)})
TENSORS = Tensors(LAYOUT, np.arange(8, dtype=np.float32))
ENVELOPE = Envelope(
    "run-1", "boot", 7, 12.5, Model(ticket=3, version=2, directive=Directive(learning_rate=0.1), tensors=TENSORS)
)
SMALL = Envelope("run-1", "boot", 8, 12.5, Stop(reason="done"))


def parts(payload: bytes) -> tuple[dict[str, Any], dict[str, Any], bytes]:
    length = int.from_bytes(payload[:8], "little")
    header = json.loads(payload[8 : 8 + length])
    return header, json.loads(header["__metadata__"]["mapa"]), payload[8 + length :]


def built(header: object, body: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


def changed(**fields: Any) -> bytes:
    """The payload of ENVELOPE with some fields of its stamp replaced."""
    header, stamp, body = parts(encode(ENVELOPE))
    header["__metadata__"]["mapa"] = json.dumps({**stamp, **fields})
    return built(header, body)


def with_entry(name: str, **fields: Any) -> bytes:
    """The payload of ENVELOPE with some fields of one tensor's entry replaced."""
    header, _, body = parts(encode(ENVELOPE))
    header[name] = {**header[name], **fields}
    return built(header, body)


def test_the_body_is_aligned_and_read_without_a_copy() -> None:
    payload = encode(ENVELOPE)
    assert (8 + int.from_bytes(payload[:8], "little")) % 8 == 0
    message = decode(payload, Limits(), LAYOUT).message
    assert isinstance(message, Model)
    assert np.shares_memory(message.tensors.flat, np.frombuffer(payload, dtype=np.uint8))
    assert not message.tensors.flat.flags.writeable
    assert message.tensors.layout is LAYOUT


def test_a_body_at_an_odd_address_is_copied() -> None:
    room = bytearray(b"x" + encode(ENVELOPE))
    message = decode(memoryview(room)[1:], Limits()).message
    assert isinstance(message, Model)
    assert message.tensors == TENSORS
    assert message.tensors.flat.flags.aligned


def test_encoding_copies_the_live_buffer() -> None:
    flat = LAYOUT.zeros()
    message = Model(ticket=1, version=1, directive=Directive(), tensors=Tensors(LAYOUT, flat))
    payload = encode(Envelope("run", "boot", 1, 0.0, message))
    flat += 1.0
    read = decode(payload, Limits()).message
    assert isinstance(read, Model)
    assert not read.tensors.flat.any()


def test_a_message_that_must_carry_tensors_is_not_sent_without() -> None:
    empty = Tensors(Layout(()), np.zeros(0, dtype=np.float32))
    message = Model(ticket=1, version=1, directive=Directive(), tensors=empty)
    with pytest.raises(WireError, match="tensors of model: none"):
        encode(Envelope("run", "boot", 1, 0.0, message))


def test_the_limits_of_a_layout_hold_its_messages_and_no_larger_ones() -> None:
    decode(encode(ENVELOPE), Limits.of(LAYOUT), LAYOUT)
    with pytest.raises(WireError, match="payload"):
        decode(encode(ENVELOPE) + bytes(300_000), Limits.of(LAYOUT), LAYOUT)


DUPLICATE = b'{"__metadata__":{"mapa":"{}"},"__metadata__":{"mapa":"{}"}}'
DEEP = b'{"__metadata__":' + b"[" * 5000 + b"]" * 5000 + b"}"
HUGE = b'{"__metadata__":' + b"9" * 5000 + b"}"
HOSTILE = {
    "empty": (b"", "payload: 0 bytes"),
    "no header": (bytes(8), "payload: 8 bytes"),
    "header longer than the payload": ((99).to_bytes(8, "little") + b"{}", "header: 99 bytes"),
    "header of length 0": (bytes(9), "header: 0 bytes"),
    "header over the limit": (built(b"{}" + b" " * 300_000), "header: 300002"),
    "not UTF-8": (built(b'{"\xff": 1}'), "UTF-8"),
    "UTF-16": (built('{"a": 1}'.encode("utf-16")), "UTF-8"),
    "no JSON": (built(b"hello"), "expected JSON"),
    "JSON but no object": (built([1]), "header: list"),
    "NaN": (built(b'{"__metadata__": NaN}'), "NaN is no JSON"),
    "Infinity": (built(b'{"__metadata__": -Infinity}'), "Infinity is no JSON"),
    "a key twice": (built(DUPLICATE), "a key comes twice"),
    "nested too deep": (built(DEEP), "expected JSON"),
    "a huge integer": (built(HUGE), "expected JSON"),
    "no metadata": (built({}), "metadata"),
    "other metadata": (built({"__metadata__": {"format": "np"}}), "metadata"),
    "metadata that is no text": (built({"__metadata__": {"mapa": {}}}), "metadata"),
    "metadata that is no JSON": (built({"__metadata__": {"mapa": "x"}}), "metadata"),
    "no message": (built({"__metadata__": {"mapa": "{}"}}), "message"),
    "other version": (changed(wire=2), "message: wire"),
    "unknown field": (changed(extra=1), "extra"),
    "bad run": (changed(run="A/#"), "message: run"),
    "a lone surrogate": (changed(run="\ud800"), "message: run"),
    "a time that is text": (changed(sent="1"), "message: sent"),
    "a negative number": (changed(number=-1), "message: number"),
    "unknown kind": (changed(message={"kind": "pickle"}), "message"),
    "tensors in the message": (changed(message={"kind": "stop", "reason": "", "tensors": 1}), "without tensors"),
    "tensors for a message that has none": (changed(message={"kind": "stop", "reason": ""}), "tensors"),
    "integer type": (with_entry("a.bias", dtype="I32"), "dtype of a.bias"),
    "half precision": (with_entry("a.bias", dtype="F16"), "dtype of a.bias"),
    "no axis": (with_entry("a.bias", shape=[]), "shape of a.bias"),
    "empty axis": (with_entry("a.bias", shape=[0]), "shape of a.bias"),
    "negative axis": (with_entry("a.bias", shape=[-2]), "shape of a.bias"),
    "boolean axis": (with_entry("a.bias", shape=[True]), "shape of a.bias"),
    "nine axes": (with_entry("a.bias", shape=[1] * 9), "shape of a.bias"),
    "shape that is no list": (with_entry("a.bias", shape={"2": 2}), "shape of a.bias"),
    "overlapping tensors": (with_entry("a.weight", data_offsets=[4, 28]), "data_offsets of a.weight"),
    "a hole": (with_entry("a.weight", data_offsets=[12, 36]), "data_offsets of a.weight"),
    "offsets that are no integers": (with_entry("a.bias", data_offsets=[0.0, 8.0]), "data_offsets of a.bias"),
    "shape and offsets at odds": (with_entry("a.weight", shape=[2, 4]), "data_offsets of a.weight"),
    "an extra key in an entry": (with_entry("a.bias", more=1), "tensor a.bias"),
    "body too short": (encode(ENVELOPE)[:-4], "body: 28 bytes"),
    "body too long": (encode(ENVELOPE) + bytes(4), "body: 36 bytes"),
    "body without a tensor": (encode(SMALL) + bytes(4), "tensors: none named"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_payloads_are_refused_with_a_reason(case: str) -> None:
    payload, reason = HOSTILE[case]
    for layout in (None, LAYOUT):
        with pytest.raises(WireError, match=reason):
            decode(payload, Limits(), layout)


def test_an_infinite_number_is_refused() -> None:
    header, stamp, body = parts(encode(ENVELOPE))
    header["__metadata__"]["mapa"] = json.dumps(stamp).replace("12.5", "1e999")
    with pytest.raises(WireError, match="message: sent"):
        decode(built(header, body), Limits())


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(value: float) -> None:
    flat = np.arange(8, dtype=np.float32)
    flat[5] = value
    bad = Model(ticket=1, version=1, directive=Directive(), tensors=Tensors(LAYOUT, flat))
    with pytest.raises(WireError, match="1 of 8 values"):
        decode(encode(Envelope("run", "boot", 1, 0.0, bad)), Limits(), LAYOUT)


def test_the_largest_finite_values_are_not_refused() -> None:
    flat = np.full(8, np.finfo(np.float32).max, dtype=np.float32)
    good = Model(ticket=1, version=1, directive=Directive(), tensors=Tensors(LAYOUT, flat))
    assert decode(encode(Envelope("run", "boot", 1, 0.0, good)), Limits(), LAYOUT).message == good


def test_another_layout_is_refused_whoever_describes_it() -> None:
    other = Layout.of({"a.bias": (2,), "a.weight": (3, 2)})
    with pytest.raises(WireError, match=r"tensors: .*expected"):
        decode(encode(ENVELOPE), Limits(), other)


def test_a_tensor_described_twice_is_refused() -> None:
    payload = encode(ENVELOPE)
    length = int.from_bytes(payload[:8], "little")
    text = payload[8 : 8 + length].decode().replace(',"a.bias"', ',"b":{},"a.bias"', 1)
    with pytest.raises(WireError, match="expected each once"):
        decode(built(text.encode(), payload[8 + length :]), Limits(), LAYOUT)


def test_a_bad_tensor_name_is_refused() -> None:
    header, _, body = parts(encode(ENVELOPE))
    header["../a"] = header.pop("a.bias")
    with pytest.raises(WireError, match="tensor name"):
        decode(built(header, body), Limits())


def test_too_many_tensors_are_refused() -> None:
    with pytest.raises(WireError, match="tensors: 2: expected at most 1"):
        decode(encode(ENVELOPE), Limits(tensors=1))


def test_a_saved_model_is_a_file_for_any_tool() -> None:
    loaded = safetensors.numpy.load(save(TENSORS))
    assert loaded.keys() == TENSORS.keys()
    assert all(np.array_equal(loaded[name], TENSORS[name]) for name in TENSORS)


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ([0.0, -1.5], None),
        ([3e38, -3e38], None),
        ([], None),
        ([np.nan, 1.0], "tensors: 1 of 2 values: expected finite numbers"),
        ([np.inf, -np.inf], "tensors: 2 of 2 values: expected finite numbers"),
        ([3e38, np.inf], "tensors: 1 of 2 values: expected finite numbers"),
    ],
)
def test_numbers_are_finite_however_large(values: list[float], fault: str | None) -> None:
    assert fault_of_values(np.array(values, dtype=np.float32)) == fault
