"""decode(encode(m)) = m for every kind of message, and hostile bytes raise WireError and nothing else."""

from __future__ import annotations

import json
from typing import Any, get_args

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from common.errors import WireError
from common.events import Event
from common.messages import (
    Answer,
    Bye,
    Directive,
    Hello,
    Message,
    Model,
    Probe,
    Refusal,
    Report,
    Running,
    Stop,
    Update,
)
from common.tensors import Layout, Tensors
from common.wire import Envelope, Limits, decode, encode

LIMITS = Limits()
names = st.from_regex(r"[a-z0-9][a-z0-9_.-]{0,20}", fullmatch=True)
counts = st.integers(0, 2**53)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
finite = st.floats(allow_nan=False, allow_infinity=False)
positive = st.floats(min_value=1e-300, max_value=1e300)
digests = st.from_regex(r"[0-9a-f]{64}", fullmatch=True)
tensor_names = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,12}", fullmatch=True)
layouts = st.dictionaries(
    tensor_names, st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple), min_size=1, max_size=5
)


@st.composite
def tensors(draw: st.DrawFn) -> Tensors:
    layout = Layout.of(draw(layouts))
    values = st.floats(width=32, allow_nan=False, allow_infinity=False)
    flat = draw(st.lists(values, min_size=layout.size, max_size=layout.size))
    return Tensors(layout, np.array(flat, dtype=np.float32))


events = st.builds(
    Event,
    mechanism=st.sampled_from(["gaussian", "spherical-laplace", "none", "paper"]),
    noise_multiplier=st.none() | st.floats(1e-6, 1e6),
    epsilon=st.none() | st.floats(1e-6, 1e6),
    dimension=st.none() | st.integers(1, 2**40),
    sampling=st.sampled_from(["poisson", "fixed", "replacement", "all"]),
    sampling_rate=st.floats(1e-9, 1.0),
    adjacency=st.sampled_from(["add_remove", "replace_one"]),
)
directives = st.builds(Directive, stage=counts, learning_rate=st.floats(0, 1e9), clip_norm=st.none() | positive)
KINDS: dict[type[Any], st.SearchStrategy[Message]] = {
    Hello: st.builds(Hello, digest=digests, boot=names, samples=st.integers(1, 2**53), event=events, ticket=counts),
    Model: st.builds(Model, ticket=counts, version=counts, directive=directives, tensors=tensors()),
    Update: st.builds(Update, ticket=counts, version=counts, work=st.floats(0, 1e12), event=events, tensors=tensors()),
    Probe: st.builds(Probe, ticket=counts, version=counts, cap=positive, bound=positive, tensors=tensors()),
    Answer: st.builds(Answer, ticket=counts, version=counts, event=events, values=st.tuples(finite, finite)),
    Report: st.builds(Report, iteration=counts, metrics=st.dictionaries(names, finite, max_size=5)),
    Bye: st.builds(
        Bye,
        reason=texts,
        releases=st.none() | counts,
        epsilon=st.none() | st.floats(0, 1e9),
        dp_delta=st.none() | st.floats(0, 0.99),
        note=texts,
    ),
    Stop: st.builds(Stop, reason=texts, failed=st.booleans(), boot=st.none() | names),
    Running: st.builds(Running, boot=names, digest=digests),
    Refusal: st.builds(Refusal, reason=texts),
}
envelopes = st.builds(Envelope, run=names, boot=names, number=counts, sent=finite, message=st.one_of(*KINDS.values()))


def test_every_kind_of_message_is_tried() -> None:
    assert set(KINDS) == set(get_args(Message))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@given(data=st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_is_encoded_comes_back(kind: type[Any], data: st.DataObject) -> None:
    message = data.draw(KINDS[kind])
    envelope = data.draw(
        st.builds(Envelope, run=names, boot=names, number=counts, sent=finite, message=st.just(message))
    )
    payload = encode(envelope)
    assert decode(payload, LIMITS) == envelope
    layout = getattr(message, "tensors", None) and message.tensors.layout  # type: ignore[union-attr]
    assert decode(payload, Limits.of(layout), layout) == envelope


@given(tensors())
@settings(max_examples=50, deadline=None)
def test_the_reference_library_reads_our_bytes_and_writes_them(sent: Tensors) -> None:
    envelope = Envelope("run", "boot", 1, 0.5, Model(ticket=1, version=2, directive=Directive(), tensors=sent))
    payload = encode(envelope)
    loaded = safetensors.numpy.load(payload)
    assert loaded.keys() == sent.keys()
    assert all(np.array_equal(loaded[name], sent[name]) for name in sent)
    metadata = json.loads(payload[8 : 8 + int.from_bytes(payload[:8], "little")])["__metadata__"]
    theirs = safetensors.numpy.save({name: sent[name] for name in reversed(list(sent))}, metadata)
    assert decode(theirs, LIMITS, sent.layout) == envelope


def refused(payload: bytes, layout: Layout | None = None) -> None:
    """Decodes; only WireError may come out, with a plain text."""
    try:
        decode(payload, LIMITS, layout)
    except WireError as error:
        str(error).encode("ascii")


@given(st.binary(max_size=400))
@settings(max_examples=300, deadline=None)
def test_random_bytes_raise_nothing_else(payload: bytes) -> None:
    refused(payload)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


@given(json_values, st.binary(max_size=64))
@settings(max_examples=300, deadline=None)
def test_any_json_as_header_raises_nothing_else(header: object, body: bytes) -> None:
    text = json.dumps(header).encode()
    refused(len(text).to_bytes(8, "little") + text + body)


@given(envelopes, json_values, st.data())
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_json_at_any_place_of_a_message_raises_nothing_else(
    envelope: Envelope, value: object, data: st.DataObject
) -> None:
    payload = encode(envelope)
    length = int.from_bytes(payload[:8], "little")
    header = json.loads(payload[8 : 8 + length])
    stamp = json.loads(header["__metadata__"]["mapa"])
    place: Any = data.draw(st.sampled_from([header, stamp, stamp["message"], *[header[key] for key in header]]))
    place[data.draw(st.sampled_from(sorted(place)))] = value
    if isinstance(header["__metadata__"], dict) and isinstance(header["__metadata__"].get("mapa"), str):
        header["__metadata__"]["mapa"] = json.dumps(stamp)
    text = json.dumps(header).encode()
    refused(len(text).to_bytes(8, "little") + text + payload[8 + length :])


@given(envelopes, st.data())
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_damaged_message_raises_nothing_else(envelope: Envelope, data: st.DataObject) -> None:
    payload = bytearray(encode(envelope))
    layout = getattr(envelope.message, "tensors", None) and envelope.message.tensors.layout  # type: ignore[union-attr]
    match data.draw(st.sampled_from(["flip", "cut", "insert", "swap"])):
        case "flip":
            for place in data.draw(st.lists(st.integers(0, len(payload) - 1), min_size=1, max_size=6)):
                payload[place] = data.draw(st.integers(0, 255))
        case "cut":
            del payload[data.draw(st.integers(0, len(payload) - 1)) :]
        case "insert":
            place = data.draw(st.integers(0, len(payload)))
            payload[place:place] = data.draw(st.binary(min_size=1, max_size=12))
        case "swap":
            half = data.draw(st.integers(1, len(payload) - 1))
            payload = payload[half:] + payload[:half]
    refused(bytes(payload))
    refused(bytes(payload), layout)
