"""The folder of certificates, `certs/` by default: the authority, what the broker needs, what is for each client.

ca.crt                      whom to trust: for everybody
<name>.crt, <name>.key      a client's certificate and key: for that client only
<name>.password             the same for a client with a password
authority/                  the authority's key, and a copy of every certificate it has signed: for nobody else
broker/                     all that the broker reads: settings, rules, certificate, key, list of revoked certificates
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding

from common.errors import ConfigError, Fault, RecordError
from common.trust import BROKER, NAME, keys, passwords
from common.trust.authority import CLIENT_DAYS, Authority
from common.trust.rules import ACCESS, HEALTH
from common.trust.settings import PASSWORD_PORT, settings
from common.trust.term import Clock, term, utc

CLOUD = "cloud"
HOSTS = ("localhost", "127.0.0.1", "broker", "broker.mapa.internal")
"""Names under which every broker can be reached by those on its own machine and in its compose network."""


@dataclass(frozen=True)
class Entry:
    """One certificate of the folder. `role`: authority, broker or client."""

    name: str
    role: str
    certificate: x509.Certificate
    is_revoked: bool = False

    @property
    def until(self) -> datetime:
        """When it ends."""
        return self.certificate.not_valid_after_utc

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate as `openssl x509 -fingerprint` has it: two people can compare it by telephone."""
        return self.certificate.fingerprint(hashes.SHA256()).hex(":").upper()

    def warning(self, now: datetime) -> str | None:
        """What is wrong with its dates, or will be soon."""
        if self.is_revoked:
            return None
        return term(self.certificate, now)


class Folder:
    """A folder of certificates. `at`: where the folder `broker` is on the broker's machine, if not here."""

    def __init__(self, root: Path, clock: Clock = utc, at: str | None = None) -> None:
        self.root, self._clock = root, clock
        self.broker, self._private = root / "broker", root / "authority"
        self._at = at or str(self.broker.absolute())

    def begin(self, hosts: Iterable[str] = (), *, replace: bool = False) -> None:
        """Makes the authority, the broker's files and the cloud's certificate.

        Raises:
            ConfigError: there is an authority already, and it shall not be replaced.
        """
        if not replace and (self._key.exists() or self.ca.exists()):
            expected = "no authority here yet (--replace makes a new one, and every certificate of the old one useless)"
            raise ConfigError(Fault("--dir", str(self.root), expected))
        authority = Authority.create(self._clock())
        names = [*HOSTS, *(host for host in hosts if host not in HOSTS)]
        public = keys.make()
        server = authority.server(public.public_key(), names, self._clock())
        self._make_private()
        self._forget()
        keys.write(self._key, keys.pem_of(authority.key), keys.PRIVATE)
        for path in (self.ca, self.broker / "ca.crt"):
            keys.write(path, _pem(authority.certificate))
        keys.write(self.broker / "broker.key", keys.pem_of(public), keys.PRIVATE)
        keys.write(self.broker / "broker.crt", _pem(server))
        self._publish(authority, ())
        self._configure()
        self.client(CLOUD)

    def client(self, name: str, days: int = CLIENT_DAYS, *, renew: bool = False) -> None:
        """Makes a client's key and certificate.

        Raises:
            ConfigError: no such name, or it has one already and shall not get another.
        """
        path = self.root / f"{name}.key"
        if path.exists() and not renew:
            raise ConfigError(Fault("name", name, f"no {path} yet (--renew makes a new key and certificate)"))
        key = keys.make()
        signed = self._authority().client(key.public_key(), name, self._clock(), days)
        keys.write(path, keys.pem_of(key), keys.PRIVATE)
        self._keep(name, signed)

    def request(self, name: str) -> Path:
        """On the client's own machine: makes a key, which stays there, and a request for the authority to sign."""
        if not NAME.fullmatch(name) or name == BROKER:
            raise ConfigError(Fault("name", name, f"up to 64 of a-z, 0-9 and -, and not {BROKER!r}"))
        path = self.root / f"{name}.key"
        if path.exists():
            raise ConfigError(Fault("name", name, f"no {path} yet"))
        key, asked = keys.make(), self.root / f"{name}.csr"
        keys.write(path, keys.pem_of(key), keys.PRIVATE)
        keys.write(asked, keys.request(key, name))
        return asked

    def sign(self, name: str, request: bytes, days: int = CLIENT_DAYS) -> bytes:
        """The certificate (PEM) for somebody else's key, kept here as well."""
        signed = self._authority().sign(request, name, self._clock(), days)
        self._keep(name, signed)
        return _pem(signed)

    def hosts(self, more: Iterable[str] = ()) -> Sequence[str]:
        """Gives the broker a new certificate, for these hosts besides those that it has; all of them."""
        authority, path = self._authority(), self.broker / "broker.crt"
        held = keys.certificate(path).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names = [str(entry.value) for entry in held]
        names += [host for host in more if host not in names]
        key = keys.load(self.broker / "broker.key")
        keys.write(path, _pem(authority.server(key.public_key(), names, self._clock())))
        return names

    def refresh(self, hosts: Iterable[str] = ()) -> None:
        """Writes anew what the broker reads, for these hosts as well, and forgets what has expired."""
        self._configure()
        self.hosts(hosts)
        for path in self._issued.glob("*.crt"):
            if keys.certificate(path).not_valid_after_utc < self._clock():
                path.unlink()

    def password(self, name: str, password: str | None) -> Path | None:
        """Gives a client a password at the broker; None: a new one, whose file is given back."""
        if not NAME.fullmatch(name) or name == BROKER:
            raise ConfigError(Fault("name", name, f"up to 64 of a-z, 0-9 and -, and not {BROKER!r}"))
        self._authority()
        path = None
        if password is None:
            password, path = passwords.generate(), self.root / f"{name}.password"
            keys.write(path, f"{password}\n".encode(), keys.PRIVATE)
        self._set_password(name, passwords.line(name, password))
        self._configure()
        return path

    def revoke(self, name: str) -> int:
        """Makes every certificate and password of this name useless; how many certificates that were.

        Raises:
            ConfigError: it has none.
        """
        authority = self._authority()
        serials = {entry.certificate.serial_number for entry in self.issued() if entry.name == name}
        had_password = self._set_password(name, None)
        if not serials and not had_password:
            raise ConfigError(Fault("name", name, "one that has a certificate or a password of this authority"))
        self._publish(authority, serials | self._revoked())
        return len(serials)

    def entries(self) -> Sequence[Entry]:
        """The authority, the broker and the newest certificate of each client."""
        newest = {entry.name: entry for entry in sorted(self.issued(), key=lambda one: one.until)}
        fixed = [Entry("authority", "authority", keys.certificate(self.ca))]
        fixed.append(Entry(BROKER, "broker", keys.certificate(self.broker / "broker.crt")))
        return [*fixed, *(newest[name] for name in sorted(newest))]

    def issued(self) -> Sequence[Entry]:
        """All certificates that this authority has signed for clients."""
        revoked = self._revoked()
        found = [keys.certificate(path) for path in sorted(self._issued.glob("*.crt"))]
        return [Entry(keys.name_of(one.subject), "client", one, one.serial_number in revoked) for one in found]

    @property
    def ca(self) -> Path:
        """The authority's certificate."""
        return self.root / "ca.crt"

    @property
    def _key(self) -> Path:
        return self._private / "ca.key"

    @property
    def _issued(self) -> Path:
        return self._private / "issued"

    def _authority(self) -> Authority:
        if not self._key.exists():
            raise ConfigError(Fault("--dir", str(self.root), "a folder with an authority (mapa certs init makes one)"))
        return Authority(keys.certificate(self.ca), keys.load(self._key))

    def _make_private(self) -> None:
        try:
            self._issued.mkdir(parents=True, exist_ok=True)
            self.broker.mkdir(exist_ok=True)
            for folder in (self._private, self.broker):
                folder.chmod(0o700)
        except OSError as error:
            raise RecordError(f"folder: {self.root}: {error.strerror}: expected to make folders there") from error

    def _forget(self) -> None:
        """Removes what an earlier authority signed, and the keys for it; nothing else that is in the folder."""
        for path in self._issued.glob("*.crt"):
            name = path.name.partition(".")[0]
            for old in (path, self.root / f"{name}.crt", self.root / f"{name}.key"):
                old.unlink(missing_ok=True)

    def _keep(self, name: str, signed: x509.Certificate) -> None:
        keys.write(self._issued / f"{name}.{signed.serial_number:x}.crt", _pem(signed))
        keys.write(self.root / f"{name}.crt", _pem(signed))

    def _set_password(self, name: str, new: str | None) -> bool:
        path = self.broker / "passwd"
        old = keys.read(path, "passwords").decode() if path.exists() else ""
        content = passwords.changed(old, name, new)
        if content != old:
            keys.write(path, content.encode(), keys.PRIVATE)
        return content != old

    def _configure(self) -> None:
        """Writes rules and settings; with the listener for passwords once there is one."""
        keys.write(self.broker / "acl", ACCESS.encode(), keys.PRIVATE)
        keys.write(self.broker / "acl.health", HEALTH.encode(), keys.PRIVATE)
        port = PASSWORD_PORT if (self.broker / "passwd").exists() else None
        keys.write(self.broker / "mosquitto.conf", settings(self._at, password_port=port).encode())

    def _revoked(self) -> set[int]:
        content = keys.read(self.broker / "crl.pem", "revoked certificates")
        return {entry.serial_number for entry in x509.load_pem_x509_crl(content)}

    def _publish(self, authority: Authority, serials: Iterable[int]) -> None:
        revoked = authority.revocations(serials, self._clock())
        keys.write(self.broker / "crl.pem", revoked.public_bytes(Encoding.PEM))


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)
