"""Private keys (EC P-256), requests for certificates, and files that hold them.

A private file is for its owner only from its first byte on, and appears as a whole.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from common.errors import ConfigError, Fault, RecordError

PRIVATE, PUBLIC = 0o600, 0o644


def make() -> ec.EllipticCurvePrivateKey:
    """A new key."""
    return ec.generate_private_key(ec.SECP256R1())


def pem_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    """The key as PEM, not encrypted: it has to be usable without anybody there."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def public_of(key: ec.EllipticCurvePublicKey) -> bytes:
    """A public key in the one form in which it can be compared."""
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def named(name: str) -> x509.Name:
    """A subject that is a common name and nothing else."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def name_of(subject: x509.Name) -> str:
    """The common name of a subject; empty if it has none, or several."""
    found = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if len(found) == 1 else ""


def request(key: ec.EllipticCurvePrivateKey, name: str) -> bytes:
    """A request for a certificate (PEM), signed with the key: proof that the asker has it."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(named(name))
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


def write(path: Path, content: bytes, mode: int = PUBLIC) -> None:
    """Writes a file as a whole, never readable by more people than `mode` says.

    Raises:
        RecordError: it cannot be written.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(content)
        part.chmod(mode)  # whatever the umask is
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise RecordError(f"file: {path}: {error.strerror}: expected to write it") from error


def read(path: Path, what: str) -> bytes:
    """The bytes of a file.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(Fault(what, str(path), f"a file that can be read ({error.strerror})")) from error


def load(path: Path) -> ec.EllipticCurvePrivateKey:
    """The key in a file that `pem_of` made.

    Raises:
        ConfigError: it is none, or cannot be read.
    """
    try:
        key = load_pem_private_key(read(path, "key"), None)
    except (ValueError, TypeError) as error:
        raise ConfigError(Fault("key", str(path), "an EC private key in PEM, without password")) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ConfigError(Fault("key", str(path), "an EC private key"))
    return key


def certificate(path: Path) -> x509.Certificate:
    """The certificate in a PEM file; the first, where there are several.

    Raises:
        ConfigError: it is none, or cannot be read.
    """
    try:
        return x509.load_pem_x509_certificate(read(path, "certificate"))
    except ValueError as error:
        raise ConfigError(Fault("certificate", str(path), "a certificate in PEM")) from error
