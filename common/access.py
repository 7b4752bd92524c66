"""How a program gets at its broker: with TLS and an identity of its own, or in plain text where nobody listens.

An identity is a certificate or a password, under the name of the node: at the broker, topics are given by that name.
The command line goes before the environment. No secret is on either: only files that hold one.
"""

from __future__ import annotations

import argparse
import ipaddress
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from common.address import PORT, TLS_PORT, Address, Tls
from common.errors import ConfigError, Fault, TransportError
from common.node import NodeId
from common.tls import context
from common.trust import keys, passwords
from common.trust.term import Clock, is_valid, term, utc

LOG = logging.getLogger(__name__)
_FLAGS = (
    ("certs", "MQTT_CERTS", "DIR", "folder with ca.crt and <name>.crt, <name>.key or <name>.password"),
    ("ca", "MQTT_CA", "FILE", "certificate of the authority that made the broker's: switches TLS on"),
    ("cert", "MQTT_CERT", "FILE", "this node's certificate"),
    ("key", "MQTT_KEY", "FILE", "the key of this certificate"),
    ("password-file", "MQTT_PASSWORD_FILE", "FILE", "holds a password"),
)
Enrol = Callable[[str, NodeId, Path], Tls]
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

    def secured(self, broker: Address, name: NodeId, enrol: Enrol | None = None, clock: Clock = utc) -> Address:
        """The broker's address with all that `name` needs there.

        Raises:
            ConfigError: a file is missing or wrong, or the connection would be in plain text through a network.
            TransportError: the certificate is out of date, or the enrolment service gave none.
        """
        if not self.has_tls:
            self._check_plain(broker)
            return self._with_password(broker, name, self.password)
        ca, pair, password = self._files(name)
        if self.folder is not None and not ca.exists():
            raise ConfigError(Fault("--certs", str(self.folder), "a folder with ca.crt (mapa certs, CERTS in compose)"))
        tls = Tls(str(ca), *(str(path) for path in pair))
        if not pair and password is None and self.enrolment is not None and enrol is not None:
            tls = enrol(self.enrolment, name, ca)
        elif not pair and password is None:
            expected = f"{name}.crt and {name}.key, or {name}.password there (mapa certs edge {name})"
            raise ConfigError(Fault("--certs" if self.folder else "--cert", str(self.folder or None), expected))
        context(tls)  # an unreadable file is told now, before anything is started
        _check(tls, name, clock)
        return self._with_password(replace(broker, tls=tls), name, password)

    def _files(self, name: NodeId) -> tuple[Path, tuple[Path, ...], Path | None]:
        """The authority's certificate, this node's certificate and key, its password; what was named goes first."""
        folder, pair, password = self.folder, (self.certificate, self.key), self.password
        if folder is not None and pair == (None, None) and password is None:
            pair = (folder / f"{name}.crt", folder / f"{name}.key")
            password = folder / f"{name}.password"
            password = password if password.exists() else None
            pair = pair if any(path.exists() for path in pair) else (None, None)
        ca = self.ca or (folder / "ca.crt" if folder is not None else None)
        assert ca is not None
        found = tuple(path for path in pair if path is not None)
        if len(found) == 1:
            raise ConfigError(Fault("--cert, --key", str(found[0]), "a certificate and its key, both"))
        return ca, found, password

    def _with_password(self, broker: Address, name: NodeId, file: Path | None) -> Address:
        if file is None:
            return broker if self.username is None else replace(broker, username=self.username)
        password = passwords.cleaned(keys.read(file, "--password-file"), str(file))
        return replace(broker, username=self.username or name, password=password)

    def _check_plain(self, broker: Address) -> None:
        if not self.is_plain and not is_loopback(broker.host):
            expected = "TLS on the way to another machine (--certs DIR or --ca FILE; or --plain, where nobody listens)"
            raise ConfigError(Fault("--broker", str(broker), expected))


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


def _check(tls: Tls, name: NodeId, clock: Clock) -> None:
    """Looks at this side's own certificate, which the broker would refuse without saying why."""
    if tls.certificate is None:
        return
    held = keys.certificate(Path(tls.certificate))
    if keys.name_of(held.subject) != name:
        expected = f"a certificate of {name!r}, not of {keys.name_of(held.subject)!r}"
        raise ConfigError(Fault("--cert", tls.certificate, expected))
    said = term(held, clock())
    if not is_valid(held, clock()):
        cure = f"a valid one (mapa certs edge {name} --renew), or the right time on this machine"
        raise TransportError(f"certificate {tls.certificate}: {said}: expected {cure}")
    if said is not None:
        LOG.warning("certificate %s: %s: mapa certs edge %s --renew", tls.certificate, said, name)
