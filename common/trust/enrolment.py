"""Enrolment: a node makes its key itself and gets a certificate for it; the key never leaves the node.

    node                                             authority
      | POST /edge-0003, a request for a certificate    |  who asks is found out from the address that it asks from
      | <- the certificate, or why there is none        |

All that is said can be read by anybody. A forged answer is of no use: the node knows its authority's certificate from
elsewhere, and takes only what this authority has signed for this very key.
"""

from __future__ import annotations

import http.client
import tempfile
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from common.address import Tls
from common.errors import ConfigError, FederationError, TransportError
from common.trust import keys
from common.trust.folder import Folder

LARGEST = 8192
"""Bytes of a request or an answer at most."""
DAYS = 90
"""How long such a certificate is valid: a node gets a new one with every start."""
TIMEOUT, PATIENCE, PAUSE = 5.0, 20.0, 0.5
"""Seconds for one answer, for the authority to come up, and between two attempts."""
Asker = Callable[[str], str | None]
"""Who asks from this address; None: nobody that is known."""


def enrol(where: str, name: str, ca: Path, patience: float = PATIENCE) -> Tls:
    """Gets a certificate for a new key, and puts both into a folder that only this process's user can read.

    Args:
        where: host and port of the authority.
        name: whose certificate.
        ca: the authority's certificate.
        patience: seconds that the authority may take to come up.

    Raises:
        TransportError: nobody answers there, the answer is no, or it is none of this authority.
        ConfigError: the authority's certificate cannot be read.
    """
    authority = keys.certificate(ca)
    key = keys.make()
    answer = _ask(where, name, keys.request(key, name), patience)
    try:
        signed = x509.load_pem_x509_certificate(answer)
        signed.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature) as error:
        raise TransportError(f"enrolment at {where}: no certificate of {ca}: expected one") from error
    if signed.public_key() != key.public_key() or keys.name_of(signed.subject) != name:
        raise TransportError(f"enrolment at {where}: a certificate of somebody else: expected one for {name}")
    folder = Path(tempfile.mkdtemp(prefix="identity-"))
    keys.write(folder / f"{name}.key", keys.pem_of(key), keys.PRIVATE)
    keys.write(folder / f"{name}.crt", answer)
    return Tls(str(ca), str(folder / f"{name}.crt"), str(folder / f"{name}.key"))


def _ask(where: str, name: str, request: bytes, patience: float) -> bytes:
    end = time.monotonic() + patience
    while True:
        link = http.client.HTTPConnection(where, timeout=TIMEOUT)
        try:
            link.request("POST", f"/{name}", request)
            answer = link.getresponse()
            content = answer.read(LARGEST)
        except (OSError, http.client.HTTPException) as error:
            if time.monotonic() > end:
                expected = (
                    f"{name}.crt and {name}.key in the folder of certificates (CERTS), or somebody who signs there"
                )
                raise TransportError(f"enrolment at {where}: {error}: expected {expected}") from error
            time.sleep(PAUSE)
        else:
            if answer.status != HTTPStatus.OK:
                raise TransportError(f"enrolment at {where}: {content.decode('utf-8', 'replace')[:300]}")
            return content
        finally:
            link.close()


class Desk(ThreadingHTTPServer):
    """Where nodes enrol; one that takes its time keeps no other waiting."""

    def __init__(self, folder: Folder, asker: Asker, say: Callable[[str], None], port: int, host: str = "") -> None:
        """`asker`: tells from an address who asks; `say`: is told what was done; `host`: where to listen, all over."""
        super().__init__((host, port), _Visit)
        self.folder, self.asker, self.say = folder, asker, say

    def handle_error(self, request: object, client_address: object) -> None:
        """Somebody who hangs up or talks nonsense disturbs nobody else."""
        self.say(f"{client_address}: broken off")

    def decide(self, address: str, name: str, request: bytes) -> tuple[HTTPStatus, bytes]:
        """The answer to a request for `name` that came from `address`."""
        asker = self.asker(address)
        if asker != name:
            self.say(f"refused {name!r} to {address}, which is {asker}")
            expected = f"its own certificate, or one made by hand: docker compose run --rm -T certs edge {name}"
            return (
                HTTPStatus.FORBIDDEN,
                f"{asker or 'an unknown container'} asks for {name}: expected {expected}".encode(),
            )
        try:
            signed = self.folder.sign(name, request, DAYS)
        except ConfigError as error:
            return HTTPStatus.BAD_REQUEST, str(error).encode()
        except FederationError as error:
            self.say(str(error))
            return HTTPStatus.INTERNAL_SERVER_ERROR, b"the certificate cannot be kept: see the log of certs"
        self.say(f"enrolled {name} at {address}")
        return HTTPStatus.OK, signed


class _Visit(BaseHTTPRequestHandler):
    """One request."""

    timeout = TIMEOUT
    server: Desk

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > LARGEST:
            self.send_error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return
        status, content = self.server.decide(self.client_address[0], self.path[1:65], self.rfile.read(int(length)))
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """The desk says what it does."""
