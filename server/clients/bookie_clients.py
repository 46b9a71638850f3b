"""The clients of a bookie: who they are, by their certificates, and what they may do to ledgers."""

from collections.abc import Mapping
from functools import lru_cache

from ...access.access_control import AccessControl
from ...access.ledger_access import LedgerAccess
from ...core.bookie.permissions.frame_guard import LedgerPermissions
from ...core.bookie.server.requests import RequestConnection
from ...security.caller import Caller
from ...security.certificate_names import principal_of_certificate
from ...security.principal import ANONYMOUS, INTERNAL_ROLES, Principal
from ...tls.certificate import decode_der
from ...tls.tls_transport import PEER_CERTIFICATE

_CERTIFICATES_MAX = 1_024


class BookieClients:
    """Identifies the clients of one bookie."""

    def __init__(self, roles_by_name: Mapping[str, str]) -> None:
        self._roles = roles_by_name
        self._of_certificate = lru_cache(_CERTIFICATES_MAX)(self._decode)

    def caller(self, connection: RequestConnection) -> Caller:
        """Return the client of a connection; anonymous without a certificate."""
        certificate = connection.extra_info(PEER_CERTIFICATE)
        known = isinstance(certificate, bytes)
        principal = self._of_certificate(certificate) if known else ANONYMOUS
        peer = connection.extra_info("peername")
        return Caller(principal, ":".join(map(str, peer[:2])) if isinstance(peer, tuple) else "")

    def permissions_of(
        self, access: AccessControl, connection: RequestConnection
    ) -> LedgerPermissions | None:
        """Return what the client of a connection may do; None for the cluster's own parts."""
        caller = self.caller(connection)
        is_internal = bool(caller.principal.roles & INTERNAL_ROLES)
        return None if is_internal else LedgerAccess(access, caller)

    def _decode(self, certificate: bytes) -> Principal:
        return principal_of_certificate(decode_der(certificate).names, self._roles)
