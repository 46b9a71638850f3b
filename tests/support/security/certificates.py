"""Certificates for tests, from an authority of their own."""

from pathlib import Path

from rhumbline.security.principal import Role
from rhumbline.security.settings import TlsSettings
from rhumbline.tls.authority import SERVER_NAME, Authority


def authority(directory: Path) -> Authority:
    """Return an authority in an empty directory."""
    made = Authority(directory)
    made.create(trust_domain="test", days=30)
    return made


def settings_for(
    made: Authority, name: str, *roles: Role, days: float = 1, **others: bool | int | str
) -> TlsSettings:
    """Issue a certificate and return the settings that use it."""
    issued = made.issue(name, roles or (Role.CLIENT,), hosts=["127.0.0.1"], days=days)
    return TlsSettings(
        certificate=str(issued.certificate),
        key=str(issued.key),
        ca=str(made.certificate_file),
        **{"server_name": SERVER_NAME, **others},  # type: ignore[arg-type]
    )
