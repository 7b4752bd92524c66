"""The authority of a compose project: `python -m common.trust serve`, in its own container.

    serve               makes what is missing, then signs for the containers of its project until all have gone
    edge NAME ...       certificates for edges on other hosts, as a tar archive on standard output
    revoke NAME         makes those useless
    show                tells who has a certificate

Its volume holds the authority's key, and no other container has it.
"""

from __future__ import annotations

import io
import os
import sys
import tarfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from common.errors import FederationError
from common.trust import keys
from common.trust.containers import anybody, hosts_of, node_at
from common.trust.enrolment import Desk
from common.trust.folder import Folder

AUTHORITY, PUBLIC, READY = Path("/authority"), Path("/certs"), Path("/tmp/ready")  # noqa: S108 - a tmpfs of its own
AT = "/mosquitto/guard"
"""Where the broker's container has the folder for it."""
PORT = 8880
EDGE_USER = 10001
PATIENCE, LINGER = 90.0, 5.0
"""Seconds to wait for the first part of a run, and after the last has gone."""


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _serve(folder: Folder, environment: Mapping[str, str]) -> None:
    project, offset = environment.get("PROJECT", "mapa"), int(environment.get("EDGE_OFFSET") or 0)
    _prepare(folder, environment)
    with Desk(folder, lambda address: node_at(address, project, offset), _say, PORT) as desk:
        desk.timeout = 1.0
        READY.touch()
        left = time.monotonic() + PATIENCE
        while time.monotonic() < left:
            desk.handle_request()
            if anybody():
                left = time.monotonic() + LINGER
    _say("the run is over")


def _prepare(folder: Folder, environment: Mapping[str, str]) -> None:
    hosts = hosts_of(environment.get("BROKER_HOSTS", ""))
    if folder.ca.exists():
        folder.refresh(hosts)
    else:
        folder.begin(hosts)
    keys.write(PUBLIC / "ca.crt", folder.ca.read_bytes())


def _hand_out(folder: Folder, names: Sequence[str], output: Callable[[bytes], object]) -> None:
    """A tar archive of the certificates and keys of these edges, whose user can read them once root has unpacked it."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name in names:
            folder.client(name, renew=True)
        for path in (folder.ca, *(folder.root / f"{name}.{kind}" for name in names for kind in ("crt", "key"))):
            entry = tarfile.TarInfo(path.name)
            entry.size, entry.mtime = path.stat().st_size, int(path.stat().st_mtime)
            entry.mode, entry.uid, entry.gid = path.stat().st_mode & 0o777, EDGE_USER, EDGE_USER
            archive.addfile(entry, io.BytesIO(path.read_bytes()))
    for name in names:
        (folder.root / f"{name}.key").unlink()  # it is the edge's alone
    output(content.getvalue())


def main(arguments: Sequence[str]) -> int:
    """Does what it was called for; the exit code."""
    os.umask(0o077)
    folder = Folder(AUTHORITY, at=AT)
    try:
        match arguments:
            case ["serve"]:
                _serve(folder, os.environ)
            case ["edge", _, *_]:
                _prepare(folder, os.environ)
                _hand_out(folder, arguments[1:], sys.stdout.buffer.write)
            case ["revoke", name]:
                _say(f"{name}: {folder.revoke(name)} revoked; now: docker compose kill --signal HUP broker")
            case ["show"]:
                for entry in folder.entries():
                    state = "revoked" if entry.is_revoked else f"until {entry.until:%Y-%m-%d}"
                    _say(f"{entry.name:<16} {entry.role:<10} {state:<17} {entry.fingerprint}")
            case _:
                _say(__doc__ or "")
                return 2
    except FederationError as error:
        _say(f"error: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
