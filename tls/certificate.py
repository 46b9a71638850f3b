"""Reads certificates; the only module that decodes them."""

from dataclasses import dataclass
from datetime import datetime

from ..core.protocol.errors import InvalidArgumentError
from ..core.protocol.installation import needs_extra
from ..security.certificate_names import CertificateNames


@dataclass(frozen=True, slots=True)
class Certificate:
    """A decoded certificate: its names and its expiry."""

    names: CertificateNames
    not_after: datetime

    @property
    def not_after_ms(self) -> int:
        """The end of its validity in milliseconds since the Unix epoch."""
        return int(self.not_after.timestamp() * 1000)


def decode_pem(pem: bytes) -> Certificate:
    """Decode the first certificate of a PEM file. Raises InvalidArgumentError."""
    with needs_extra("TLS of a server", "security"):
        from cryptography import x509
    try:
        return _described(x509.load_pem_x509_certificate(pem))
    except ValueError as error:
        raise InvalidArgumentError(f"not a certificate in PEM form: {error}") from error


def decode_der(der: bytes) -> Certificate:
    """Decode a certificate as TLS sends it. Raises InvalidArgumentError."""
    with needs_extra("TLS of a server", "security"):
        from cryptography import x509
    try:
        return _described(x509.load_der_x509_certificate(der))
    except ValueError as error:
        raise InvalidArgumentError(f"not a certificate: {error}") from error


def _described(found: object) -> Certificate:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    assert isinstance(found, x509.Certificate)

    def values(oid: x509.ObjectIdentifier) -> tuple[str, ...]:
        return tuple(str(one.value) for one in found.subject.get_attributes_for_oid(oid))

    try:
        alternative = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = tuple(alternative.get_values_for_type(x509.UniformResourceIdentifier))
    except x509.ExtensionNotFound:
        uris = ()
    names = CertificateNames(
        common_names=values(NameOID.COMMON_NAME),
        units=values(NameOID.ORGANIZATIONAL_UNIT_NAME),
        uris=uris,
    )
    return Certificate(names, found.not_valid_after_utc)
