"""The connection to the broker: one MQTT client, its network thread, and the events it drops into an inbox.

Callbacks run in the network thread; they only note what happened and put it into the inbox. The client reconnects
and subscribes again by itself. Small packets are sent at once (no Nagle's algorithm): with the default of either
side a 10 KB round trip takes 92 ms instead of 0.25.
"""

from __future__ import annotations

import math
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, LogLevel, MQTTErrorCode, MQTTProtocolVersion

from common.address import Address
from common.identity import Identity
from common.inbox import Arrived, Broken, Denied, Down, Inbox, Ready, Refused
from common.node import Seconds
from common.tls import context, said, trouble_of
from common.topics import Topics

KEEPALIVE = 60
"""Seconds; a computation that never lets the network thread run must be shorter."""
_MOST_QUEUED = 20_000
_OVERHEAD = 512  # bytes of a PUBLISH packet besides its payload
_SMALLEST_PACKET = 32 * 1024
_LARGEST_PACKET = 268_435_455
_FATAL = {
    133: "client id not valid",
    134: "bad user name or password",
    135: "not authorized",
    138: "banned",
    140: "bad authentication method",
}
_KNOWN = "a user name and password, or a certificate, that it knows (mapa certs)"
_RETRY = (1, 2)  # seconds between attempts to connect: the first pause, and the longest
_PATIENT = 2  # connections without an answer before an older version is tried
_SILENCE = 5.0  # seconds that a broker may take for its first answer
_UNSUPPORTED_VERSION = 132


Callback = Callable[..., None]
Door = Callable[[str, int], bool]
"""Says whether a payload of this topic and size comes in. Called in the network thread."""


class Link:
    """One node's connection: subscriptions, presence, publishing."""

    def __init__(  # noqa: PLR0917 - what a connection is made of
        self, address: Address, identity: Identity, topics: Topics, offline: bytes, inbox: Inbox, lets_in: Door
    ) -> None:
        """`offline`: what the status topic says once this process is gone (the last will)."""
        self.room = _LARGEST_PACKET - _OVERHEAD
        """Bytes of a payload that the broker accepts."""
        self.presence: bytes | None = None
        """What the status topic says on every new connection; None until this node may announce itself."""
        self._address, self._inbox, self._lets_in = address, inbox, lets_in
        self._client_id = f"{identity.run}-{identity.node_id}-{identity.boot}"  # no two processes cut each other off
        self._filters = [(topic, 1) for topic in topics.subscriptions]
        self._status, self._offline = topics.status, offline
        self._protocol = address.protocol
        self._lock = threading.Lock()
        self._published = self._acknowledged = 0
        self._greeted = False
        self._opened = math.inf
        self._unanswered = 0
        self._open()

    def _open(self) -> None:
        version = MQTTProtocolVersion.MQTTv5 if self._protocol == "5" else MQTTProtocolVersion.MQTTv311
        clean = None if self._protocol == "5" else True  # version 5 asks for it with the connection
        client = paho.Client(CallbackAPIVersion.VERSION2, self._client_id, clean_session=clean, protocol=version)
        client.will_set(self._status, self._offline, qos=1, retain=True)
        client.max_queued_messages_set(_MOST_QUEUED)
        client.reconnect_delay_set(*_RETRY)
        if self._address.username is not None:
            client.username_pw_set(self._address.username, self._address.password)
        if self._address.tls is not None:
            client.tls_set_context(context(self._address.tls))
            client.on_log = self._guarded(self._on_log)
        client.on_socket_open = self._guarded(self._on_socket_open)
        client.on_connect = self._guarded(self._on_connect)
        client.on_connect_fail = self._guarded(self._on_connect_fail)
        client.on_disconnect = self._guarded(self._on_disconnect)
        client.on_subscribe = self._guarded(self._on_subscribe)
        client.on_publish = self._guarded(self._on_publish)
        client.on_message = self._guarded(self._on_message)
        self._client = client
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begins to connect, in the network thread."""
        clean = True if self._protocol == "5" else paho.MQTT_CLEAN_START_FIRST_ONLY
        self._client.connect_async(self._address.host, self._address.port, KEEPALIVE, clean_start=clean)
        self._client.loop_start()

    @property
    def is_alive(self) -> bool:
        """Whether the network thread runs, as far as it has shown itself."""
        return self._thread is None or self._thread.is_alive()

    @property
    def is_misunderstood(self) -> bool:
        """Whether the broker does not know MQTT 5: it says so, or hangs up, or keeps silent from the start."""
        if self._protocol != "5" or self._greeted:
            return False
        return self._unanswered >= _PATIENT or time.monotonic() > self._opened + _SILENCE

    def downgrade(self) -> None:
        """Starts anew on MQTT 3.1.1."""
        self._client.disconnect()
        self._client.loop_stop()
        self._protocol = "3.1.1"
        self._open()
        self.start()

    def cut(self, seconds: Seconds) -> None:
        """Breaks the connection without a word, as a line that fails; the client connects again after so long."""
        self._client.reconnect_delay_set(seconds, seconds)  # type: ignore[arg-type]  # it says int, and takes parts
        sock = self._client.socket()
        if isinstance(sock, socket.socket):
            with suppress(OSError):  # broken already
                sock.shutdown(socket.SHUT_RDWR)

    def publish(self, topic: str, payload: bytes, retained: bool = False) -> bool:
        """Hands a payload to the network thread (QoS 1); what is handed over while down is sent later.

        False: too many wait, it is dropped.
        """
        code = self._client.publish(topic, payload, qos=1, retain=retained).rc
        if code not in {MQTTErrorCode.MQTT_ERR_SUCCESS, MQTTErrorCode.MQTT_ERR_NO_CONN}:
            return False
        with self._lock:
            self._published += 1
        return True

    def is_acknowledged(self) -> bool:
        """Whether the broker has answered to all that was published."""
        return self._acknowledged >= self._published

    def announce(self, presence: bytes) -> None:
        """Says on the status topic who is here, now and on every new connection."""
        self.presence = presence
        self.publish(self._status, presence, retained=True)

    def ask(self, presence: bytes) -> None:
        """Says something on the status topic that shall not stay there."""
        self.publish(self._status, presence)

    def close(self, flush: Seconds, *, leave: bool) -> None:
        """Waits until all is acknowledged, at most `flush` seconds, and disconnects.

        `leave`: say first that this node is offline; not when another process goes on under its id.
        """
        if leave and self.presence is not None:
            self.announce(self._offline)
        end = time.monotonic() + flush
        while self.is_alive and not self.is_acknowledged() and time.monotonic() < end:
            time.sleep(0.002)
        self._client.disconnect()
        self._client.loop_stop()

    def _guarded(self, body: Callback) -> Callback:
        """An exception in a callback would end the network thread without a word: report it."""

        def callback(*arguments: Any) -> None:
            try:
                body(*arguments)
            except Exception as error:  # the main thread raises it again
                self._inbox.put(Broken(error))

        return callback

    def _on_socket_open(self, _client: paho.Client, _userdata: object, sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._opened, self._thread = time.monotonic(), threading.current_thread()

    def _on_connect(self, client: paho.Client, _userdata: object, _flags: object, code: Any, properties: Any) -> None:
        if code.value == _UNSUPPORTED_VERSION:
            self._unanswered = _PATIENT
        elif code.value in _FATAL:
            client.disconnect()
            self._inbox.put(Refused(_FATAL[code.value], _KNOWN))
        elif code.is_failure:
            self._inbox.put(Down(str(code)))
        else:
            self._agree(client, properties)

    def _agree(self, client: paho.Client, properties: Any) -> None:
        """Keeps to what the broker allows, and takes up where the last connection ended."""
        self._greeted = True
        client.reconnect_delay_set(*_RETRY)
        largest = getattr(properties, "MaximumPacketSize", _LARGEST_PACKET)
        if largest < _SMALLEST_PACKET:
            client.disconnect()
            self._inbox.put(Refused(f"packets of {largest} bytes at most", f"at least {_SMALLEST_PACKET}"))
            return
        self.room = largest - _OVERHEAD
        client.subscribe(self._filters)
        if self.presence is not None:
            self.publish(self._status, self.presence, retained=True)

    def _on_connect_fail(self, client: paho.Client, _userdata: object) -> None:
        client.reconnect_delay_set(*_RETRY)
        error = sys.exception()  # that the client is just handling
        if not self._is_final(str(error)):
            self._inbox.put(Down(said(error)))

    def _on_log(self, _client: paho.Client, _userdata: object, level: int, text: str) -> None:
        """With TLS 1.3 a broker that refuses a certificate says so after the handshake, and only the log tells."""
        if level == LogLevel.MQTT_LOG_ERR:
            self._is_final(text)

    def _is_final(self, text: str) -> bool:
        """Whether it is an error of trust, which does not pass: then it is told."""
        trouble = trouble_of(text)
        if trouble is None:
            return False
        self._inbox.put(Refused(trouble.reason, trouble.expected))
        return True

    def _on_disconnect(self, _client: paho.Client, _userdata: object, _flags: object, code: Any, _more: object) -> None:
        self._unanswered += not self._greeted
        self._inbox.put(Down(str(code)))

    def _on_subscribe(
        self, _client: paho.Client, _userdata: object, _mid: int, codes: Any, _properties: object
    ) -> None:
        if any(code.is_failure for code in codes):
            asked = [topic for topic, _ in self._filters]
            self._inbox.put(Refused(f"subscription to {asked}: {codes[0]}", "the right to read there"))
        else:
            self._inbox.put(Ready(self._protocol))

    def _on_publish(self, _client: paho.Client, _userdata: object, _mid: int, code: Any, _properties: object) -> None:
        if code is not None and code.is_failure:
            self._inbox.put(Denied(str(code)))
        with self._lock:
            self._acknowledged += 1
        self._hurry()

    def _on_message(self, _client: paho.Client, _userdata: object, message: paho.MQTTMessage) -> None:
        if self._lets_in(message.topic, len(message.payload)):
            self._inbox.put(Arrived(message.topic, message.payload, message.retain))
        self._hurry()

    def _hurry(self) -> None:
        """Has the kernel acknowledge at once: a broker without `set_tcp_nodelay` waits for it, 40 ms each time."""
        if sys.platform == "linux":
            sock = self._client.socket()
            if isinstance(sock, socket.socket):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
