"""TLS on our side of a connection, and what its errors mean to the person who has to mend them.

Errors of trust are final: a certificate does not become another one by being tried again.
"""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass

from common.address import Tls
from common.errors import ConfigError, Fault


@dataclass(frozen=True)
class Trouble:
    """What is wrong with a connection, and what was expected instead: the cure."""

    reason: str
    expected: str


_RENEWED = "a new one (mapa certs edge NAME --renew), or the right time on both machines"
_TROUBLES = (
    (r"certificate has expired", "the broker's certificate has expired", "a new one (mapa certs host), or the "
     "right time on this machine"),
    (r"certificate is not yet valid", "the broker's certificate is not valid yet", "the right time on this machine"),
    (r"(Hostname|IP address) mismatch", "the broker's certificate is not for the name that it was called by",
     "one that holds this name (mapa certs host NAME)"),
    (r"CERTIFICATE_VERIFY_FAILED", "the broker's certificate is not from the authority that was given",
     "the ca.crt of the authority that made it (--ca, --certs)"),
    (r"ALERT_CERTIFICATE_EXPIRED", "it finds this certificate out of date", _RENEWED),
    (r"ALERT_CERTIFICATE_REVOKED", "this certificate has been revoked", "a new one (mapa certs edge NAME --renew)"),
    (r"ALERT_UNKNOWN_CA", "it does not know the authority that made this certificate",
     "a certificate from the broker's own authority (mapa certs edge NAME)"),
    (r"ALERT_CERTIFICATE_REQUIRED|ALERT_HANDSHAKE_FAILURE", "it wants a certificate",
     "--certs, or --cert and --key; or the port for passwords"),
    (r"ALERT_(BAD_CERTIFICATE|CERTIFICATE_UNKNOWN|UNSUPPORTED_CERTIFICATE|DECRYPT_ERROR|ACCESS_DENIED)",
     "it refuses this certificate", "one that its authority has made for a client (mapa certs edge NAME)"),
    (r"ALERT_PROTOCOL_VERSION|UNSUPPORTED_PROTOCOL|NO_PROTOCOLS", "there is no version of TLS that both sides know",
     "TLS 1.2 or later"),
    (r"WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE|ALERT_UNEXPECTED_MESSAGE", "it does not speak TLS on this port",
     "its port with TLS (8883 by default)"),
)  # fmt: skip
"""What OpenSSL says, in order of precedence; what that means; what was expected."""


def context(tls: Tls) -> ssl.SSLContext:
    """Trusts one authority, checks the broker's name, and shows this side's certificate if there is one.

    Raises:
        ConfigError: a file cannot be read, or is not what it should be.
    """
    try:
        made = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=tls.ca)
    except (OSError, ValueError) as error:
        raise ConfigError(_fault("--ca", tls.ca, "the authority's certificate, in PEM", error)) from error
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    if tls.certificate is not None:
        try:
            made.load_cert_chain(tls.certificate, tls.key, _no_password)
        except (OSError, ValueError) as error:
            if "KEY_VALUES_MISMATCH" in str(error):
                raise ConfigError(Fault("--key", tls.key, f"the key that {tls.certificate} was made for")) from error
            raise ConfigError(
                _fault("--cert, --key", f"{tls.certificate}, {tls.key}", "a certificate and its key, in PEM", error)
            ) from error
    return made


def trouble_of(text: str) -> Trouble | None:
    """What an error's text means, if it is about trust; None: trying again may help."""
    if "SSL" not in text:
        return None
    return next((Trouble(reason, cure) for pattern, reason, cure in _TROUBLES if re.search(pattern, text)), None)


def said(error: BaseException | None) -> str:
    """Why there is no connection, in words."""
    if error is None:
        return "no connection"
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    if isinstance(error, ssl.SSLEOFError | ConnectionResetError):
        text = f"it hangs up ({text}); does it speak TLS on this port?"
    return f"no connection: {text}"


def _no_password() -> str:
    raise ValueError("the key wants a password")


def _fault(path: str, value: str, expected: str, error: Exception) -> Fault:
    said = error.strerror if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) else str(error)
    return Fault(path, value, f"{expected} ({said})")
