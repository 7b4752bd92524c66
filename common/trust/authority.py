"""The authority: signs certificates of the broker and of its clients, and tells which of them are revoked.

What it signs is for one purpose: a broker's certificate is of no use to a client, and the other way round, so an edge
cannot pose as the broker. Every certificate names its authority, whose own name is unique: two are never mistaken for
each other.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from common.errors import ConfigError, Fault
from common.trust import BROKER, NAME, keys

AUTHORITY_DAYS, SERVER_DAYS, CLIENT_DAYS = 3650, 825, 365
LATE = timedelta(days=1)
"""A certificate is valid from so long before it was made: clocks may be late by that much, e.g. by a time zone."""
_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?")
_SIGNS = ("digital_signature",)
_AUTHORITY_SIGNS = ("key_cert_sign", "crl_sign")


@dataclass(frozen=True)
class Authority:
    """A certificate that others are signed with, and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def create(cls, now: datetime) -> Authority:
        """A new one."""
        key, subject = keys.make(), keys.named(f"mapa authority {secrets.token_hex(4)}")
        builder = _begun(key.public_key(), subject, subject, now, AUTHORITY_DAYS)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_usage(_AUTHORITY_SIGNS), critical=True)
        return cls(builder.sign(key, hashes.SHA256()), key)

    def server(
        self, public: ec.EllipticCurvePublicKey, hosts: Iterable[str], now: datetime, days: int = SERVER_DAYS
    ) -> x509.Certificate:
        """A certificate of a broker that is reached under these names and addresses."""
        names = x509.SubjectAlternativeName([_host(host) for host in hosts])
        begun = self._begun_leaf(public, BROKER, now, days, ExtendedKeyUsageOID.SERVER_AUTH)
        return begun.add_extension(names, critical=False).sign(self.key, hashes.SHA256())

    def client(
        self, public: ec.EllipticCurvePublicKey, name: str, now: datetime, days: int = CLIENT_DAYS
    ) -> x509.Certificate:
        """A certificate of a client of this name.

        Raises:
            ConfigError: no client can have this name.
        """
        if not NAME.fullmatch(name) or name == BROKER:
            raise ConfigError(Fault("name", name, f"up to 64 of a-z, 0-9 and -, and not {BROKER!r}"))
        begun = self._begun_leaf(public, name, now, days, ExtendedKeyUsageOID.CLIENT_AUTH)
        return begun.sign(self.key, hashes.SHA256())

    def sign(self, request: bytes, name: str, now: datetime, days: int = CLIENT_DAYS) -> x509.Certificate:
        """A client's certificate for the key of a request (PEM). The name is ours to say, and the request has to agree.

        Raises:
            ConfigError: it is no request, or for another name, or not signed with its own key.
        """
        fault = Fault("request", request[:40], f"a request (PEM) for {name!r} with a key on the curve P-256")
        try:
            asked = x509.load_pem_x509_csr(request)
            public = asked.public_key()
        except (ValueError, UnsupportedAlgorithm) as error:
            raise ConfigError(fault) from error
        if not isinstance(public, ec.EllipticCurvePublicKey) or not isinstance(public.curve, ec.SECP256R1):
            raise ConfigError(fault)
        if not asked.is_signature_valid:
            raise ConfigError(Fault("request", name, "one that is signed with its own key"))
        if keys.name_of(asked.subject) != name:
            raise ConfigError(Fault("request", keys.name_of(asked.subject), f"a request for {name!r}"))
        return self.client(public, name, now, days)

    def revocations(self, serials: Iterable[int], now: datetime) -> x509.CertificateRevocationList:
        """The list of revoked certificates.

        It stays in force as long as the authority: a broker that found it out of date would refuse everybody.
        """
        issuer = self.certificate.subject
        builder = x509.CertificateRevocationListBuilder().issuer_name(issuer).last_update(now - LATE)
        builder = builder.next_update(self.certificate.not_valid_after_utc)
        for serial in sorted(set(serials)):
            entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now)
            builder = builder.add_revoked_certificate(entry.build())
        return builder.add_extension(self._issuer(), critical=False).sign(self.key, hashes.SHA256())

    def _issuer(self) -> x509.AuthorityKeyIdentifier:
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())

    def _begun_leaf(
        self, public: ec.EllipticCurvePublicKey, name: str, now: datetime, days: int, purpose: x509.ObjectIdentifier
    ) -> x509.CertificateBuilder:
        builder = _begun(public, keys.named(name), self.certificate.subject, now, days)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(_SIGNS), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        return builder.add_extension(self._issuer(), critical=False)


def _begun(
    public: ec.EllipticCurvePublicKey, subject: x509.Name, issuer: x509.Name, now: datetime, days: int
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public)
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - LATE).not_valid_after(now + timedelta(days=days))
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)


def _usage(allowed: Iterable[str]) -> x509.KeyUsage:
    every = ("content_commitment", "data_encipherment", "decipher_only", "encipher_only", "key_agreement")
    never = dict.fromkeys((*every, "key_encipherment"), False)
    return x509.KeyUsage(**never, **{one: one in allowed for one in (*_SIGNS, *_AUTHORITY_SIGNS)})


def _host(host: str) -> x509.GeneralName:
    """The name or address as a certificate holds it.

    Raises:
        ConfigError: it is neither.
    """
    with suppress(ValueError):
        return x509.IPAddress(ip_address(host))
    if not _HOST.fullmatch(host):
        raise ConfigError(Fault("host", host, "a host name or an IP address, without port"))
    return x509.DNSName(host)
