"""How a program gets at its broker: with TLS and an identity of its own, or in plain text where nobody listens.

An identity is a certificate or a password, under the name of the node: at the broker, topics are given by that name.
The command line goes before the environment. No secret is on either: only files that hold one.
"""

from __future__ import annotations

import argparse
import ipaddress
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from common.address import PORT, TLS_PORT, Address, Tls
from common.errors import ConfigError, Fault

if TYPE_CHECKING:
    from common.node import NodeId
    from common.trust.term import Clock

_FLAGS = (
    ("certs", "MQTT_CERTS", "DIR", "folder with ca.crt and <name>.crt, <name>.key or <name>.password"),
    ("ca", "MQTT_CA", "FILE", "certificate of the authority that made the broker's: switches TLS on"),
    ("cert", "MQTT_CERT", "FILE", "this node's certificate"),
    ("key", "MQTT_KEY", "FILE", "the key of this certificate"),
    ("password-file", "MQTT_PASSWORD_FILE", "FILE", "holds a password"),
)
Enrol = Callable[[str, str, Path], Tls]
"""Gets a certificate from an enrolment service, given where that is, for whom, and the authority's certificate."""


@dataclass(frozen=True)
class Access:
    """Files of an identity, as they were given. `folder` holds those of any node, by its name."""

    folder: Path | None = None
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    username: str | None = None
    password: Path | None = None
    is_plain: bool = False
    enrolment: str | None = None

    @property
    def has_tls(self) -> bool:
        """Whether the connection is encrypted."""
        return not self.is_plain and (self.folder is not None or self.ca is not None)

    @property
    def port(self) -> int:
        """The broker's port where nobody says another."""
        return TLS_PORT if self.has_tls else PORT

    def arguments(self) -> Sequence[str]:
        """The same on a command line."""
        given = {"--certs": self.folder, "--ca": self.ca, "--cert": self.certificate, "--key": self.key}
        given |= {"--password-file": self.password}
        found = [word for flag, path in given.items() if path is not None for word in (flag, str(path.absolute()))]
        found += ["--username", self.username] if self.username is not None else []
        return [*found, *(["--plain"] if self.is_plain else [])]

    def secured(self, broker: Address, name: NodeId, enrol: Enrol | None = None, clock: Clock | None = None) -> Address:
        """The broker's address with all that `name` needs there.

        Raises:
            ConfigError: a file is missing or wrong, or the connection would be in plain text through a network.
            TransportError: the certificate is out of date, or the enrolment service gave none.
        """
        from common.securing import secured  # noqa: PLC0415 - loads a library for cryptography; help comes without

        return secured(self, broker, name, enrol, clock)


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments that `access_of` reads."""
    group = parser.add_argument_group("access to the broker")
    for flag, variable, metavar, text in _FLAGS:
        group.add_argument(f"--{flag}", type=Path, metavar=metavar, help=f"{text} (or {variable})")
    group.add_argument(
        "--username", metavar="NAME", help="with a password; by default the node's id (or MQTT_USERNAME)"
    )
    group.add_argument("--plain", action="store_true", help="no TLS on the way to another machine (or MQTT_PLAIN=1)")


def access_of(given: argparse.Namespace, environment: Mapping[str, str]) -> Access:
    """What was asked for. Who says `--plain` means it, whatever the environment has besides.

    Raises:
        ConfigError: what does not go together.
    """
    files: dict[str, Path | None] = {}
    for flag, variable, _, _ in _FLAGS:
        text = environment.get(variable)
        files[flag] = getattr(given, flag.replace("-", "_")) or (Path(text) if text else None)
    if given.plain and (given.certs or given.ca):
        raise ConfigError(Fault("--plain", True, "no --certs and no --ca beside it"))
    return Access(
        folder=files["certs"],
        ca=files["ca"],
        certificate=files["cert"],
        key=files["key"],
        username=given.username or environment.get("MQTT_USERNAME") or None,
        password=files["password-file"],
        is_plain=given.plain or (environment.get("MQTT_PLAIN") == "1" and not (given.certs or given.ca)),
        enrolment=environment.get("MAPA_ENROL") or None,
    )


def is_loopback(host: str) -> bool:
    """Whether this host is this very machine, by its address or the one name that always means it."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
