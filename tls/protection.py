"""The protection of everything that a process listens on."""

import time
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from ..core.protocol.errors import ConfigurationError
from ..core.runtime.event_log import EventLog
from ..security.audit import NO_AUDIT, AuditSink
from ..security.principal import INTERNAL_ROLES, Principal
from ..security.settings import GRANTED, INTERNAL, SecuritySettings, TlsSettings
from .credentials import TlsCredentials, credentials_of
from .gate import TlsGate

_LOG = EventLog(__name__)


@dataclass(frozen=True, slots=True)
class Protection:
    """The credentials of a process, the settings that say who may connect, and its audit log."""

    credentials: TlsCredentials | None = None
    security: SecuritySettings = SecuritySettings()
    audit: AuditSink = NO_AUDIT

    @property
    def serving(self) -> TlsCredentials | None:
        """The credentials, if servers use TLS."""
        found = self.credentials
        return found if found is not None and found.settings.serves else None

    @property
    def status_scheme(self) -> str:
        """The scheme of the addresses of status servers."""
        return "http" if self.serving is None else "https"

    @property
    def connecting(self) -> TlsCredentials | None:
        """The credentials, if clients use TLS."""
        found = self.credentials
        return found if found is not None and found.settings.connects else None

    def bookie_gate(self) -> TlsGate | None:
        """Return the gate of a bookie's port, which may serve the cluster's own parts only.

        Raises ConfigurationError if applications need grants, and TLS is not required: without it
        clients are unknown.
        """
        serving = self.serving
        is_required = serving is not None and serving.settings.required
        if self.security.bookie_clients == GRANTED and not is_required:
            raise ConfigurationError(
                "security.bookie_clients = granted needs TLS with tls.required = true: without it "
                "clients are unknown"
            )
        if serving is None:
            return None
        is_internal = self.security.bookie_clients == INTERNAL
        return TlsGate(
            serving,
            admits=_is_internal if is_internal else None,
            roles_by_name=dict(self.security.roles),
            audit=self.audit,
        )

    def gate(self, *, needs_certificate: bool = True) -> TlsGate | None:
        """Return the gate of a port; None without TLS."""
        serving = self.serving
        if serving is None:
            return None
        return TlsGate(serving, needs_certificate=needs_certificate, audit=self.audit)

    def check_address(self, host: str, server: str) -> None:
        """Check that a server may listen on ``host``.

        Raises ConfigurationError if other machines reach the address and the server has no TLS. If
        the settings allow that, it is logged.
        """
        serving = self.serving
        if is_loopback(host) or (serving is not None and serving.settings.required):
            return
        if not self.security.insecure_network:
            raise ConfigurationError(
                f"{server} would listen on {host or 'all addresses'} without TLS: everyone who "
                "reaches it could read and change all data. Set [tls] certificate, key and ca "
                "(`rhumbline security init` makes them), or [security] insecure_network = true"
            )
        _LOG.warning("network unprotected", server=server, host=host)


def _is_internal(principal: Principal) -> bool:
    return bool(principal.roles & INTERNAL_ROLES)


UNPROTECTED = Protection()
"""No TLS; servers listen on loopback only."""


def protection_of(
    tls: TlsSettings, security: SecuritySettings, audit: AuditSink | None = None
) -> Protection:
    """Return the protection that the settings describe. Raises ConfigurationError."""
    return Protection(credentials_of(tls), security, audit or NO_AUDIT)


def certificate_statistics(protection: Protection) -> dict[str, Any] | None:
    """Return when the certificate of a server expires, for metrics; None without TLS."""
    serving = protection.serving
    if serving is None:
        return None
    expires_ms = serving.expires_ms()
    assert expires_ms is not None
    left_ms = max(0, expires_ms - time.time_ns() // 1_000_000)
    return {"required": serving.settings.required, "certificate_remaining_ms": left_ms}


def is_loopback(host: str) -> bool:
    """Return whether only processes of this machine reach an address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False
