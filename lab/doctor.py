"""Why does it not connect? Looks at one thing after the other that a node needs of its broker, as that node.

Each step needs those before it, so the first that fails is the one to mend. What may be written is tried in a run of
its own, with an id that no other run has, so that nobody hears of it; nothing stays behind. Only where a broker lets
in one connection for each identity, a process of the same name is cut off for a moment, and comes back.
"""

from __future__ import annotations

import secrets
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from cryptography import x509

from common.access import Access
from common.address import Address
from common.errors import ConfigError, TransportError, WireError
from common.identity import Identity
from common.inbox import Arrived, Denied, Down, Inbox, Ready, Refused
from common.link import Link
from common.membership import presence_of
from common.node import CLOUD, NodeId, Seconds
from common.tls import context, said, trouble_of
from common.topics import Topics
from common.trust import keys
from common.trust.term import Clock, term, utc
from common.wire import Limits, decode

PATIENCE: Seconds = 10.0
"""Longest wait for one answer."""
SKEW: Seconds = 60.0
"""A clock may be wrong by so much."""


class Sick(Exception):
    """A step failed: why, and what was expected instead."""

    def __init__(self, reason: str, expected: str) -> None:
        super().__init__(f"{reason}: expected {expected}")


@dataclass(frozen=True)
class Patient:
    """Who wants to connect, to where, with what. `run`: a run whose cloud's clock to compare with."""

    address: Address
    access: Access
    name: NodeId
    run: str | None = None
    patience: Seconds = PATIENCE
    clock: Clock = utc


def examine(patient: Patient, say: Callable[[str], None]) -> bool:
    """Says one line for each step, up to the first that fails. Whether all went well."""
    step = ""
    try:
        for step, text in _steps(patient):
            if text is not None:
                say(f"ok      {step:<10} {text}")
    except Sick as error:
        say(f"failed  {step:<10} {error}")
        return False
    return True


def _steps(patient: Patient) -> Iterator[tuple[str, str | None]]:
    """Each step twice: its name before it is done, and then what it found."""
    yield "files", None
    address, text = _files(patient)
    yield "files", text
    yield "name", None
    yield "name", _resolved(address)
    yield "port", None
    yield "port", _port(address, patient.patience)
    if address.tls is not None:
        yield "TLS", None
        yield "TLS", _tls(address, patient)
    yield from _talk(patient, address)


def _files(patient: Patient) -> tuple[Address, str]:
    try:
        address = patient.access.secured(patient.address, patient.name, clock=patient.clock)
    except (ConfigError, TransportError) as error:
        raise Sick(*_split(str(error))) from error
    if address.tls is None:
        return address, "none: plain text"
    if address.tls.certificate is None:
        return address, f"{address.tls.ca} and a password of {address.username}"
    own = keys.certificate(Path(address.tls.certificate))
    dates = term(own, patient.clock()) or f"until {own.not_valid_after_utc:%Y-%m-%d}"
    return address, f"{address.tls.certificate} {dates}"


def _split(text: str) -> tuple[str, str]:
    reason, _, expected = text.partition(": expected ")
    return reason, expected or "it to be in order"


def _resolved(address: Address) -> str:
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise Sick(f"{address.host}: {error.strerror}", "a name that this machine's name server knows") from error
    return f"{address.host} is {', '.join(sorted({str(one[4][0]) for one in found}))}"


def _port(address: Address, patience: Seconds) -> str:
    try:
        socket.create_connection((address.host, address.port), timeout=patience).close()
    except OSError as error:
        expected = "a broker there, and a firewall that lets this machine through"
        raise Sick(f"{address}: {error.strerror or error}", expected) from error
    return f"{address} accepts connections"


def _tls(address: Address, patient: Patient) -> str:
    assert address.tls is not None
    try:
        with (
            socket.create_connection((address.host, address.port), timeout=patient.patience) as bare,
            context(address.tls).wrap_socket(bare, server_hostname=address.host) as link,
        ):
            version, shown = link.version(), link.getpeercert(binary_form=True)
    except OSError as error:
        trouble = trouble_of(str(error)) if isinstance(error, ssl.SSLError) else None
        if trouble is None:
            raise Sick(said(error), "a broker that speaks TLS there (8883 by default)") from error
        raise Sick(trouble.reason, trouble.expected) from error
    assert shown is not None
    held = x509.load_der_x509_certificate(shown)
    names = held.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    dates = term(held, patient.clock()) or f"until {held.not_valid_after_utc:%Y-%m-%d}"
    return f"{version}; the broker's certificate is for {', '.join(str(one.value) for one in names)}, {dates}"


def _talk(patient: Patient, address: Address) -> Iterator[tuple[str, str | None]]:
    yield "login", None
    with _Conversation(address, f"doctor-{secrets.token_hex(8)}", patient.name, patient.patience) as talk:
        protocol = talk.greeting()
        yield "login", f"as {patient.name}"
        yield "version", f"MQTT {protocol}" + ("" if protocol == "5" else "; this one tells nobody what is forbidden")
        yield "packets", f"up to {talk.room:,} bytes of payload"
        yield "publish", None
        for topic in talk.writes():
            talk.try_to_say(topic)
        yield "publish", ", ".join(talk.writes())
        yield "subscribe", None
        talk.try_to_hear()
        yield "subscribe", talk.status
    yield "clock", None
    yield "clock", _clock(patient, address)


def _clock(patient: Patient, address: Address) -> str:
    """Compares this clock with the last word of a run's cloud, which cannot have been said in the future."""
    if patient.run is None:
        return "not compared (--run ID of a run that goes on does)"
    with _Conversation(address, patient.run, patient.name, patient.patience) as talk:
        talk.greeting()
        sent = talk.state()
    if sent is None:
        raise Sick(f"run {patient.run}: its cloud has said nothing", "a run that goes on at this broker")
    ahead = sent - patient.clock().timestamp()
    if ahead > SKEW:
        expected = "the right time on both machines (an NTP service)"
        raise Sick(f"this clock is at least {ahead:.0f} s behind the cloud's", expected)
    return f"the cloud's last word is {-ahead:.0f} s old by this clock"


class _Conversation:
    """One connection to the broker, as `name`, in a run that nobody else knows."""

    def __init__(self, address: Address, run: str, name: NodeId, patience: Seconds) -> None:
        self._identity = Identity.fresh(run, name)
        self._topics, self._inbox, self._patience = Topics(run, name), SimpleQueue[Any](), patience
        inbox: Inbox = self._inbox
        offline = presence_of(self._identity, "offline")
        self._link = Link(address, self._identity, self._topics, offline, inbox, lambda _topic, _size: True)
        self.status = self._topics.status

    def __enter__(self) -> _Conversation:
        self._link.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._link.publish(self.status, b"", retained=True)  # what the last will may have left there
        self._link.close(1.0, leave=False)

    @property
    def room(self) -> int:
        """Bytes of payload that the broker accepts."""
        return self._link.room

    def greeting(self) -> str:
        """The version of MQTT that is spoken, once the broker has let us in."""
        reason = "no answer"
        for event in self._events():
            match event:
                case Ready(protocol):
                    return str(protocol)
                case Refused(reason, expected):
                    raise Sick(reason, expected)
                case Down(reason):
                    pass
                case None if self._link.is_misunderstood:
                    self._link.downgrade()
        raise Sick(reason, "an MQTT broker that lets this identity in")

    def writes(self) -> tuple[str, ...]:
        """Topics of each kind that this node writes."""
        if self._identity.node_id == CLOUD:
            return self.status, self._topics.state, self._topics.lane("edge-0001", "ack")
        return self.status, self._topics.lane(CLOUD, "ack")

    def try_to_say(self, topic: str) -> None:
        """Publishes nothing of interest there. A broker that is not asked twice says no in the order of questions."""
        self._link.publish(topic, presence_of(self._identity, "asking"))
        for event in self._events():
            if isinstance(event, Denied):
                raise Sick(f"{topic}: {event.reason}", f"the right of {self._identity.node_id} to write there (acl)")
            if event is None and self._link.is_acknowledged():
                return
        raise Sick(f"{topic}: no answer", "the broker to acknowledge it")

    def try_to_hear(self) -> None:
        """Waits for what was said on the own status topic: a broker that forbids it just does not deliver."""
        self._link.publish(self.status, presence_of(self._identity, "asking"))
        for event in self._events():
            if isinstance(event, Arrived) and event.topic == self.status:
                return
        expected = f"the right of {self._identity.node_id} to read and write there (acl)"
        raise Sick(f"{self.status}: nothing of it arrives", expected)

    def state(self) -> float | None:
        """When the cloud said how the run is, in unix seconds; None: nothing was said."""
        for event in self._events(min(self._patience, 2.0)):
            if isinstance(event, Arrived) and event.topic == self._topics.state:
                try:
                    return decode(event.payload, Limits()).sent
                except WireError as error:
                    raise Sick(f"{event.topic}: {error}", "a message of this version") from error
        return None

    def _events(self, patience: Seconds | None = None) -> Iterator[Any]:
        """What happens, and None now and then, until nothing of use has come for too long."""
        end = time.monotonic() + (self._patience if patience is None else patience)
        while time.monotonic() < end:
            try:
                yield self._inbox.get(timeout=0.05)
            except Empty:
                yield None
