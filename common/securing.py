"""Makes an address of an access: finds its files, and refuses what could not work or would not be safe."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

from common.access import Access, Enrol, is_loopback
from common.address import Address, Tls
from common.errors import ConfigError, Fault, TransportError
from common.node import NodeId
from common.tls import context
from common.trust import keys, passwords
from common.trust.term import Clock, is_valid, term, utc

LOG = logging.getLogger(__name__)


def secured(access: Access, broker: Address, name: NodeId, enrol: Enrol | None, clock: Clock | None) -> Address:
    """The broker's address with all that `name` needs there.

    Raises:
        ConfigError: a file is missing or wrong, or the connection would be in plain text through a network.
        TransportError: the certificate is out of date, or the enrolment service gave none.
    """
    if not access.has_tls:
        _check_plain(access, broker)
        return _with_password(access, broker, name, access.password)
    ca, pair, password = _files(access, name)
    if access.folder is not None and not ca.exists():
        raise ConfigError(Fault("--certs", str(access.folder), "a folder with ca.crt (mapa certs, CERTS in compose)"))
    tls = Tls(str(ca), *(str(path) for path in pair))
    if not pair and password is None and access.enrolment is not None and enrol is not None:
        tls = enrol(access.enrolment, name, ca)
    elif not pair and password is None:
        expected = f"{name}.crt and {name}.key, or {name}.password there (mapa certs edge {name})"
        raise ConfigError(Fault("--certs" if access.folder else "--cert", str(access.folder or None), expected))
    context(tls)  # an unreadable file is told now, before anything is started
    _check(tls, name, clock or utc)
    return _with_password(access, replace(broker, tls=tls), name, password)


def _files(access: Access, name: NodeId) -> tuple[Path, tuple[Path, ...], Path | None]:
    """The authority's certificate, this node's certificate and key, its password; what was named goes first."""
    folder, pair, password = access.folder, (access.certificate, access.key), access.password
    if folder is not None and pair == (None, None) and password is None:
        pair = (folder / f"{name}.crt", folder / f"{name}.key")
        password = folder / f"{name}.password"
        password = password if password.exists() else None
        pair = pair if any(path.exists() for path in pair) else (None, None)
    ca = access.ca or (folder / "ca.crt" if folder is not None else None)
    assert ca is not None
    found = tuple(path for path in pair if path is not None)
    if len(found) == 1:
        raise ConfigError(Fault("--cert, --key", str(found[0]), "a certificate and its key, both"))
    return ca, found, password


def _with_password(access: Access, broker: Address, name: NodeId, file: Path | None) -> Address:
    if file is None:
        return broker if access.username is None else replace(broker, username=access.username)
    password = passwords.cleaned(keys.read(file, "--password-file"), str(file))
    return replace(broker, username=access.username or name, password=password)


def _check_plain(access: Access, broker: Address) -> None:
    if not access.is_plain and not is_loopback(broker.host):
        expected = "TLS on the way to another machine (--certs DIR or --ca FILE; or --plain, where nobody listens)"
        raise ConfigError(Fault("--broker", str(broker), expected))


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
