"""A certificate authority in a directory, for a first cluster: makes keys and certificates."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.protocol.errors import ConfigurationError, InvalidArgumentError
from ..core.protocol.installation import needs_extra
from ..security.principal import Role

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

CA_CERTIFICATE, CA_KEY = "ca.pem", "ca.key"
SERVER_NAME = "rhumbline.internal"
"""A name that every server certificate has, and no client certificate."""
_TOLERANCE = timedelta(minutes=5)
"""Clocks of other machines may be behind by this much."""
_SERVERS = frozenset({Role.BOOKIE, Role.PROXY, Role.REPAIR})


@dataclass(frozen=True, slots=True)
class Issued:
    """A new certificate: its principal, its files and its expiry."""

    principal: str
    roles: tuple[Role, ...]
    certificate: Path
    key: Path
    not_after: datetime


class Authority:
    """The authority in ``directory``. Its key signs every certificate: keep it off the servers."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @property
    def certificate_file(self) -> Path:
        """The certificate that every process trusts."""
        return self.directory / CA_CERTIFICATE

    def create(self, *, trust_domain: str, days: int, now: datetime | None = None) -> None:
        """Create key and certificate of the authority, unless the directory has them.

        Raises ConfigurationError.
        """
        if self.certificate_file.exists():
            return
        with needs_extra("a certificate authority", "security"):
            from cryptography import x509
            from cryptography.hazmat.primitives import hashes
            from cryptography.hazmat.primitives.asymmetric import ec
        key = ec.generate_private_key(ec.SECP256R1())
        now = now or datetime.now(UTC)
        name = _name(f"{trust_domain} authority", ())
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _TOLERANCE)
            .not_valid_after(now + timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .add_extension(
                x509.SubjectAlternativeName(
                    [x509.UniformResourceIdentifier(f"spiffe://{trust_domain}")]
                ),
                critical=False,
            )
            .sign(key, hashes.SHA256())
        )
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(f"{self.directory}: {error.strerror}") from error
        _write(self.directory / CA_KEY, _key_pem(key), mode=0o600)
        _write(self.certificate_file, _certificate_pem(certificate), mode=0o644)

    def issue(
        self,
        name: str,
        roles: Sequence[Role],
        *,
        hosts: Sequence[str] = (),
        days: float,
        now: datetime | None = None,
    ) -> Issued:
        """Issue a certificate ``NAME.pem`` with its key, replacing an earlier one.

        A principal with the role of a server gets the names of servers: ``hosts`` and
        ``SERVER_NAME``. The files are replaced by renaming, the key first: a process that reads
        them in between keeps what it has. Raises ConfigurationError if the authority cannot be
        read, InvalidArgumentError for a name that is not one word.
        """
        if not name or not all(part.isalnum() for part in name.replace("-", "_").split("_")):
            raise InvalidArgumentError(f"name {name!r} has other characters than a-z, 0-9, - and _")
        with needs_extra("a certificate authority", "security"):
            from cryptography import x509
            from cryptography.hazmat.primitives import hashes
            from cryptography.hazmat.primitives.asymmetric import ec
            from cryptography.x509.oid import ExtendedKeyUsageOID
        ca, ca_key = self._read()
        domain = _trust_domain(ca)
        principal = f"spiffe://{domain}/{roles[0]}/{name}"
        names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(principal)]
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
        if _SERVERS & set(roles):
            usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
            names += [x509.DNSName(SERVER_NAME), *map(_general_name, hosts)]
        key = ec.generate_private_key(ec.SECP256R1())
        now = now or datetime.now(UTC)
        not_after = min(now + timedelta(days=days), ca.not_valid_after_utc)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(_name(name, roles))
            .issuer_name(ca.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(min(now, not_after) - _TOLERANCE)
            .not_valid_after(not_after)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()),
                critical=False,
            )
            .sign(ca_key, hashes.SHA256())
        )
        files = self.directory / f"{name}.pem", self.directory / f"{name}.key"
        _write(files[1], _key_pem(key), mode=0o600)
        _write(files[0], _certificate_pem(certificate), mode=0o644)
        return Issued(principal, tuple(roles), *files, certificate.not_valid_after_utc)

    def _read(self) -> "tuple[x509.Certificate, EllipticCurvePrivateKey]":
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            certificate = x509.load_pem_x509_certificate(self.certificate_file.read_bytes())
            key = load_pem_private_key((self.directory / CA_KEY).read_bytes(), password=None)
        except OSError as error:
            raise ConfigurationError(
                f"{error.filename}: {error.strerror}; `rhumbline security init` makes an authority"
            ) from error
        except ValueError as error:
            raise ConfigurationError(f"{self.directory}: not an authority: {error}") from error
        if not isinstance(key, EllipticCurvePrivateKey):
            raise ConfigurationError(f"{self.directory / CA_KEY}: not a key of an elliptic curve")
        return certificate, key


def _trust_domain(certificate: "x509.Certificate") -> str:
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return "rhumbline"
    uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    return uris[0].removeprefix("spiffe://") if uris else "rhumbline"


def _name(common_name: str, roles: Sequence[Role]) -> "x509.Name":
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    parts = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if roles:
        unit = f"0:{','.join(roles)}"
        parts.append(x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, unit))
    return x509.Name(parts)


def _general_name(host: str) -> "x509.GeneralName":
    from cryptography import x509

    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(*, signs_certificates: bool) -> "x509.KeyUsage":
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _key_pem(key: "EllipticCurvePrivateKey") -> bytes:
    from cryptography.hazmat.primitives import serialization

    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _certificate_pem(certificate: "x509.Certificate") -> bytes:
    from cryptography.hazmat.primitives import serialization

    return certificate.public_bytes(serialization.Encoding.PEM)


def _write(file: Path, content: bytes, *, mode: int) -> None:
    """Write a file completely or not at all; nobody else may ever read a key."""
    part = file.with_name(f".{file.name}.part")
    try:
        part.unlink(missing_ok=True)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
        part.replace(file)
    except OSError as error:
        raise ConfigurationError(f"{file}: {error.strerror}") from error
