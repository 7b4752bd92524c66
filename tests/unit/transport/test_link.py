"""The connection and the membership where no network is needed: bounds, and the patience with an earlier process."""

from __future__ import annotations

from queue import SimpleQueue
from typing import Any

import paho.mqtt.client as paho
import pytest

from common import link as module
from common.address import Address
from common.errors import TransportError
from common.identity import Identity
from common.link import KEEPALIVE, Arrived, Door, Link
from common.membership import SETTLE, Membership, presence_of
from common.presence import Presence
from common.topics import Topics

IDENTITY = Identity("run", "edge-1", "18b0")
EARLIER = Presence(state="online", boot="18a0")


def link(inbox: SimpleQueue[Any] | None = None, lets_in: Door = lambda _topic, _size: True) -> Link:
    """A link that was never started."""
    offline = presence_of(IDENTITY, "offline")
    return Link(Address("localhost"), IDENTITY, Topics("run", "edge-1"), offline, inbox or SimpleQueue(), lets_in)


def arrive(receiver: Link, payload: bytes) -> None:
    message = paho.MQTTMessage(topic=b"topic")
    message.payload = payload
    receiver._on_message(receiver._client, None, message)


def test_only_what_the_door_lets_in_reaches_the_inbox() -> None:
    inbox: SimpleQueue[Any] = SimpleQueue()
    sizes: list[int] = []

    def lets_in(topic: str, size: int) -> bool:
        sizes.append(size)
        return topic == "topic" and size < 50

    receiver = link(inbox, lets_in)
    for size in (40, 60, 40):
        arrive(receiver, bytes(size))
    assert sizes == [40, 60, 40]
    assert inbox.qsize() == 2
    assert isinstance(inbox.get(), Arrived)


def test_too_much_to_send_is_not_queued(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_QUEUED", 3)
    sender = link()
    assert [sender.publish("a", b"x") for _ in range(5)] == [True, True, True, False, False]


def test_a_process_joins_when_what_is_retained_had_time_to_arrive() -> None:
    membership = Membership(IDENTITY, link())
    membership.connected(100.0)
    assert not membership.is_clear(100.0 + SETTLE / 2)
    assert membership.is_clear(100.0 + SETTLE)


def test_an_earlier_process_that_never_answers_is_gone_when_its_will_is_overdue() -> None:
    membership = Membership(IDENTITY, link())
    membership.connected(100.0)
    membership.judge(EARLIER, retained=True)
    assert not membership.is_clear(100.0 + 1.5 * KEEPALIVE)
    assert membership.is_clear(100.0 + 1.5 * KEEPALIVE + 10)


def test_a_new_connection_asks_again() -> None:
    membership = Membership(IDENTITY, link())
    membership.connected(100.0)
    membership.judge(EARLIER, retained=True)
    membership.connected(200.0)
    membership.judge(EARLIER, retained=True)
    with pytest.raises(TransportError, match="edge-1 is already running as process 18a0"):
        membership.judge(EARLIER, retained=False)
