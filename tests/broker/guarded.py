"""A real Mosquitto that is set up by `mapa certs`, and identities for it."""

from __future__ import annotations

import dataclasses
import signal
import subprocess
import threading
from pathlib import Path

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from toys import Mosquitto, wait_for

from common.access import Access
from common.address import Address, Tls
from common.broker import HOST, free_port
from common.tls import context
from common.trust.folder import Folder
from common.trust.rules import OPEN
from common.trust.settings import settings


class Guarded(Mosquitto):
    """The broker of one folder of certificates. `is_open`: with rules that allow everything."""

    def __init__(self, folder: Folder, *, is_open: bool = False, host: str = "localhost") -> None:
        self.folder = folder
        self.port, self.password_port, self.health_port = free_port(), free_port(), free_port()
        self.address = Address(host, self.port)
        self.settings = folder.root / "mosquitto.conf"
        ports = {"port": self.port, "health_port": self.health_port, "bind": HOST}
        if (folder.broker / "passwd").exists():
            ports["password_port"] = self.password_port
        text = settings(str(folder.broker), **ports)  # type: ignore[arg-type]
        if is_open:
            (folder.broker / "acl").write_text(OPEN)
        self.settings.write_text(f"{text}user root\n")
        self.start()

    def _answers(self) -> bool:
        return super()._answers() and self._listens(self.health_port)

    def reload(self) -> None:
        """Has it read its files again."""
        self.process.send_signal(signal.SIGHUP)

    def address_of(self, name: str, host: str | None = None) -> Address:
        """Where it is, with the certificate of this identity."""
        where = self.address if host is None else dataclasses.replace(self.address, host=host)
        return Access(folder=self.folder.root).secured(where, name)


def certified(broker: Guarded, name: str) -> Address:
    """The address with a certificate of this name, which is made if need be."""
    if not (broker.folder.root / f"{name}.crt").exists():
        broker.folder.client(name)
    return broker.address_of(name)


def foreign(folder: Path, *names: str) -> Folder:
    """Another authority, with certificates of these names."""
    made = Folder(folder)
    made.begin()
    for name in names:
        made.client(name)
    return made


def tls_of(authority: Folder, identity: Folder, name: str) -> Tls:
    """Trusts one authority and shows a certificate of another."""
    return Tls(str(authority.ca), *(str(identity.root / f"{name}.{kind}") for kind in ("crt", "key")))


class Client:
    """A bare MQTT 5 client with TLS, which knows what the broker said to its publications."""

    def __init__(
        self, address: Address, *filters: str, will: tuple[str, bytes] | None = None, client_id: str = ""
    ) -> None:
        self.cuts = 0
        self.heard: list[tuple[str, bytes]] = []
        self.refused: set[int] = set()
        self._said: dict[int, bool] = {}
        self._joined = threading.Event()
        self.client = paho.Client(CallbackAPIVersion.VERSION2, client_id, protocol=MQTTProtocolVersion.MQTTv5)
        if will is not None:
            self.client.will_set(*will, qos=1)
        self.client.on_disconnect = self._disconnected
        if address.username is not None:
            self.client.username_pw_set(address.username, address.password)
        if address.tls is not None:
            self.client.tls_set_context(context(address.tls))
        self.client.on_message = lambda _client, _data, message: self.heard.append((message.topic, message.payload))
        self.client.on_publish = self._published
        self.client.on_subscribe = lambda *_: self._joined.set()
        self.code: int | None = None
        self.client.on_connect = self._connected
        self.client.connect(address.host, address.port)
        self.client.loop_start()
        wait_for(lambda: self.code is not None or self.cuts)
        if filters and self.code == 0:
            self.client.subscribe([(topic, 1) for topic in filters])
            assert self._joined.wait(10.0)

    def _connected(self, _client: object, _data: object, _flags: object, code: paho.ReasonCode, _more: object) -> None:
        self.code = code.value

    def _disconnected(self, *_: object) -> None:
        self.cuts += 1

    def _published(self, _client: object, _data: object, mid: int, code: paho.ReasonCode, _more: object) -> None:
        self._said[mid] = not code.is_failure

    def may_say(self, topic: str, payload: bytes = b"x", *, retain: bool = False) -> bool:
        """Publishes; whether the broker accepted it."""
        info = self.client.publish(topic, payload, qos=1, retain=retain)
        assert info.rc == MQTTErrorCode.MQTT_ERR_SUCCESS
        wait_for(lambda: info.mid in self._said)
        return self._said[info.mid]

    def vanish(self) -> None:
        """Ends without a word, so that the broker sends its will."""
        self.client.socket().close()  # type: ignore[union-attr]
        self.client.loop_stop()

    def leave(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


def subject(path: Path) -> str:
    """What OpenSSL itself says of a certificate."""
    done = subprocess.run(
        ["openssl", "x509", "-in", path, "-noout", "-text"], capture_output=True, text=True, check=True
    )
    return done.stdout
