"""Certificates for benchmarks, from an authority of their own, and permission checks."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ...security.principal import Role
from ...security.settings import TlsSettings
from ...tls.authority import SERVER_NAME, Authority
from ...tls.credentials import TlsCredentials

_PREFIX = "RHUMBLINE_TLS__"
_DAYS = 2
_CHECKS = {
    "RHUMBLINE_SECURITY__ACCESS_CONTROL": "true",
    "RHUMBLINE_SECURITY__BOOKIE_CLIENTS": "granted",
}


@dataclass(frozen=True, slots=True)
class LabTls:
    """The certificates of a benchmark: one for all servers, and one for all clients."""

    servers: TlsSettings
    clients: TlsSettings
    has_checks: bool = False
    """True if bookies and proxies serve clients only what grants allow them."""

    @property
    def server_environment(self) -> Mapping[str, str]:
        """The settings of a server process, as environment variables."""
        settings = self.servers
        checks = _CHECKS if self.has_checks else {}
        return {
            **checks,
            f"{_PREFIX}CERTIFICATE": settings.certificate,
            f"{_PREFIX}KEY": settings.key,
            f"{_PREFIX}CA": settings.ca,
            f"{_PREFIX}SERVER_NAME": settings.server_name,
        }

    @property
    def client_credentials(self) -> TlsCredentials:
        """The credentials of a client in this process."""
        return TlsCredentials(self.clients)


def make_lab_tls(directory: Path) -> LabTls:
    """Make an authority in ``directory``, and the certificates. Raises ConfigurationError."""
    authority = Authority(directory)
    authority.create(trust_domain="bench", days=_DAYS)

    def settings_of(name: str, *roles: Role) -> TlsSettings:
        issued = authority.issue(name, roles, hosts=["127.0.0.1"], days=_DAYS)
        return TlsSettings(
            certificate=str(issued.certificate.resolve()),
            key=str(issued.key.resolve()),
            ca=str(authority.certificate_file.resolve()),
            server_name=SERVER_NAME,
        )

    return LabTls(
        settings_of("server", Role.BOOKIE, Role.PROXY), settings_of("client", Role.CLIENT)
    )
