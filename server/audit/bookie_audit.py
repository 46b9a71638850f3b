"""Audit events of a bookie: the requests and connections that it refuses."""

from collections.abc import Mapping
from functools import lru_cache

from ...core.bookie.server.requests import RequestConnection
from ...security.audit import AuditEvent, AuditResult, AuditSink
from ...security.certificate_names import principal_of_certificate
from ...security.principal import ANONYMOUS, Principal
from ...tls.certificate import decode_der
from ...tls.tls_layer import PEER_CERTIFICATE

_CERTIFICATES_MAX = 1_024


class BookieAudit:
    """Records the refusals of one bookie."""

    def __init__(self, sink: AuditSink, roles_by_name: Mapping[str, str]) -> None:
        self._sink = sink
        self._roles = roles_by_name
        self._of_certificate = lru_cache(_CERTIFICATES_MAX)(self._decode)

    def refused(
        self, connection: RequestConnection, kind: str, ledger_id: int | None, reason: str
    ) -> None:
        """Record a refusal (see ``EntryService.on_refused``)."""
        certificate = connection.extra_info(PEER_CERTIFICATE)
        known = isinstance(certificate, bytes)
        principal = self._of_certificate(certificate) if known else ANONYMOUS
        peer = connection.extra_info("peername")
        address = ":".join(map(str, peer[:2])) if isinstance(peer, tuple) else ""
        resource = "" if ledger_id is None else f"ledger:{ledger_id}"
        self._sink.record(
            AuditEvent(kind, AuditResult.REFUSED, str(principal), address, resource, reason)
        )

    def _decode(self, certificate: bytes) -> Principal:
        return principal_of_certificate(decode_der(certificate).names, self._roles)
