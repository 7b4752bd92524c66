"""Mosquitto's password file, written here: no password goes through a command line.

A line is `name:$7$iterations$salt$hash`: PBKDF2 with HMAC-SHA-512, salt and hash in base64 (versions 2.0 and 2.1).
"""

from __future__ import annotations

import base64
import hashlib
import secrets

from common.errors import ConfigError, Fault

ITERATIONS = 20_000
"""The broker has one thread, which takes some milliseconds for it; ours are random, so that more would add nothing."""
SHORTEST = 12
_SALT, _BYTES = 12, 24


def generate() -> str:
    """A new password, which nobody has to remember."""
    return secrets.token_urlsafe(_BYTES)


def cleaned(content: bytes, where: str) -> str:
    """The password in a file: its first line.

    Raises:
        ConfigError: it is too short, or no text.
    """
    try:
        password = content.decode("utf-8").partition("\n")[0].rstrip("\r")
    except UnicodeDecodeError as error:
        raise ConfigError(Fault("password", where, "a line of UTF-8 text")) from error
    if len(password) < SHORTEST:
        raise ConfigError(Fault("password", where, f"a file with at least {SHORTEST} characters in its first line"))
    return password


def line(name: str, password: str, salt: bytes | None = None) -> str:
    """What the file says of one user."""
    salt = salt if salt is not None else secrets.token_bytes(_SALT)
    digest = hashlib.pbkdf2_hmac("sha512", password.encode("utf-8"), salt, ITERATIONS)
    parts = (base64.b64encode(part).decode("ascii") for part in (salt, digest))
    return f"{name}:$7${ITERATIONS}${'$'.join(parts)}"


def changed(content: str, name: str, new: str | None) -> str:
    """The file's content with another line for `name`; None: without one."""
    kept = [entry for entry in content.splitlines() if entry.partition(":")[0] != name]
    return "".join(f"{entry}\n" for entry in (*kept, *([new] if new is not None else [])))
