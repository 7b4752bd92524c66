"""The time that a certificate is valid, and when one ought to say something about it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from cryptography import x509

SOON = timedelta(days=30)
"""So long before a certificate ends, one says so."""
Clock = Callable[[], datetime]


def utc() -> datetime:
    """Now."""
    return datetime.now(UTC)


def is_valid(certificate: x509.Certificate, now: datetime) -> bool:
    """Whether it is valid now, by its dates."""
    return certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc


def term(certificate: x509.Certificate, now: datetime) -> str | None:
    """What is wrong with its dates, or will be soon; None: nothing."""
    if now > certificate.not_valid_after_utc:
        return f"expired on {certificate.not_valid_after_utc:%Y-%m-%d}"
    if now < certificate.not_valid_before_utc:
        return f"not valid before {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
    if now > certificate.not_valid_after_utc - SOON:
        return f"expires on {certificate.not_valid_after_utc:%Y-%m-%d}"
    return None
