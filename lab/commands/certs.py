"""`mapa certs init|edge|host|password|revoke|show|request`: who may talk to the broker, and who is the broker.

mapa certs init 192.168.1.10         an authority, the broker's files, the cloud's certificate; HOST: how it is reached
mapa certs edge edge-0001 edge-0002  a key and a certificate for each (--csr FILE: for a key that stays at the edge)
mapa certs request edge-0001         at the edge: a key, which stays there, and a request for `mapa certs edge --csr`
mapa certs host fl.example.org       another name for the broker; without HOST: a new certificate for those it has
mapa certs password dashboard        a password instead of a certificate
mapa certs revoke edge-0001          no longer let in
mapa certs show                      who, until when, fingerprints
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from common.trust.folder import Folder

HELP = "make, revoke and show certificates"
_RELOAD = "for the broker to know: copy {folder} to its machine and reload it (systemctl reload mosquitto, or SIGHUP)"


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--dir", type=Path, default=Path("certs"), metavar="DIR", help="default: %(default)s")
    shared.add_argument("--at", metavar="PATH", help="where DIR/broker is on the broker's machine (default: as here)")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    def action(name: str, text: str) -> argparse.ArgumentParser:
        return actions.add_parser(name, help=text, description=text, parents=[shared])

    init = action("init", "make an authority, the broker's files and the cloud's certificate")
    init.add_argument("hosts", nargs="*", metavar="HOST", help="name or address of the broker's machine")
    init.add_argument(
        "--replace", action="store_true", help="although there is one: all its certificates become useless"
    )
    edge = action("edge", "make a key and a certificate")
    edge.add_argument("names", nargs="+", metavar="NAME", help="edge-0001, ..., cloud, or dashboard")
    edge.add_argument("--days", type=int, metavar="N", help="valid for so long (default: 365)")
    edge.add_argument("--csr", type=Path, metavar="FILE", help="sign this request instead of making a key")
    edge.add_argument("--renew", action="store_true", help="although it has one; the old one stays valid until its end")
    request = action("request", "at the edge: make a key that stays there, and a request for a certificate")
    request.add_argument("name", metavar="NAME")
    host = action("host", "make the broker a new certificate, with more names")
    host.add_argument("hosts", nargs="*", metavar="HOST")
    password = action("password", "give somebody a password at the broker instead of a certificate")
    password.add_argument("name", metavar="NAME")
    password.add_argument("--password-file", type=Path, metavar="FILE", help="holds it (default: a new one is made)")
    revoke = action("revoke", "make the certificates and the password of somebody useless")
    revoke.add_argument("name", metavar="NAME")
    action("show", "tell who has a certificate, until when, and its fingerprint")


def run(arguments: argparse.Namespace) -> int:
    """Does it."""
    from common.trust.folder import Folder  # noqa: PLC0415 - loads a library for cryptography

    ACTIONS[arguments.action](Folder(arguments.dir, at=arguments.at), arguments)
    return 0


def _init(folder: Folder, arguments: argparse.Namespace) -> None:
    folder.begin(arguments.hosts, replace=arguments.replace)
    print(f"authority: {folder.root / 'authority'} (keep its key from everybody: it makes identities)")
    print(f"for the broker's machine: {folder.broker} (run: mosquitto -c {folder.broker / 'mosquitto.conf'};")
    print("    started by root it becomes the user mosquitto, whose this folder then has to be: chown -R mosquitto)")
    print(f"for the cloud: {folder.ca}, {folder.root / 'cloud.crt'}, {folder.root / 'cloud.key'}")
    print("next: mapa certs edge edge-0001 edge-0002 ...")


def _edge(folder: Folder, arguments: argparse.Namespace) -> None:
    from common.errors import ConfigError, Fault  # noqa: PLC0415
    from common.trust import keys  # noqa: PLC0415
    from common.trust.authority import CLIENT_DAYS  # noqa: PLC0415

    days = arguments.days if arguments.days is not None else CLIENT_DAYS
    if not 1 <= days <= 3650:
        raise ConfigError(Fault("--days", days, "from 1 to 3650"))
    if arguments.csr is not None:
        if len(arguments.names) != 1:
            raise ConfigError(Fault("--csr", str(arguments.csr), "one NAME"))
        folder.sign(arguments.names[0], keys.read(arguments.csr, "--csr"), days)
        print(f"for {arguments.names[0]}: {folder.ca}, {folder.root / f'{arguments.names[0]}.crt'}")
        return
    for name in arguments.names:
        folder.client(name, days, renew=arguments.renew)
        print(f"for {name}: {folder.ca}, {folder.root / f'{name}.crt'}, {folder.root / f'{name}.key'}")


def _request(folder: Folder, arguments: argparse.Namespace) -> None:
    path = folder.request(arguments.name)
    print(f"for the authority: {path} (mapa certs edge {arguments.name} --csr {path.name}); the key stays here")


def _host(folder: Folder, arguments: argparse.Namespace) -> None:
    print(f"the broker's certificate is for: {', '.join(folder.hosts(arguments.hosts))}")
    print(_RELOAD.format(folder=folder.broker))


def _password(folder: Folder, arguments: argparse.Namespace) -> None:
    from common.trust import keys, passwords  # noqa: PLC0415

    given = arguments.password_file
    password = None if given is None else passwords.cleaned(keys.read(given, "--password-file"), str(given))
    path = folder.password(arguments.name, password) or given
    print(f"for {arguments.name}: {folder.ca}, {path}; on the port for passwords, 8884")
    print(_RELOAD.format(folder=folder.broker) + "; the first password needs a restart, which opens the port")


def _revoke(folder: Folder, arguments: argparse.Namespace) -> None:
    count = folder.revoke(arguments.name)
    print(f"{arguments.name}: {count} certificate{'' if count == 1 else 's'} revoked, and any password removed")
    print(_RELOAD.format(folder=folder.broker) + "; connections that stand end with a restart")


def _show(folder: Folder, _arguments: argparse.Namespace) -> None:
    from common.trust.term import utc  # noqa: PLC0415

    now = utc()
    for entry in folder.entries():
        state = "revoked" if entry.is_revoked else f"until {entry.until:%Y-%m-%d}"
        print(f"{entry.name:<16} {entry.role:<10} {state:<17} {entry.fingerprint}")
        if warning := entry.warning(now):
            cure = {"authority": "init --replace", "broker": "host"}.get(entry.role, f"edge {entry.name} --renew")
            print(f"warning: {entry.name} {warning}: mapa certs {cure}", file=sys.stderr)


ACTIONS: Mapping[str, Callable[[Folder, argparse.Namespace], None]] = MappingProxyType(
    {
        "init": _init,
        "edge": _edge,
        "request": _request,
        "host": _host,
        "password": _password,
        "revoke": _revoke,
        "show": _show,
    }
)
