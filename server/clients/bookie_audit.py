"""Audit events of a bookie: the requests and connections that it refuses."""

from ...core.bookie.server.requests import RequestConnection
from ...security.audit import AuditEvent, AuditResult, AuditSink
from .bookie_clients import BookieClients


class BookieAudit:
    """Records the refusals of one bookie."""

    def __init__(self, sink: AuditSink, clients: BookieClients) -> None:
        self._sink = sink
        self._clients = clients

    def refused(
        self, connection: RequestConnection, kind: str, ledger_id: int | None, reason: str
    ) -> None:
        """Record a refusal (see ``EntryService.on_refused``)."""
        principal, address, _ = self._clients.caller(connection)
        resource = "" if ledger_id is None else f"ledger:{ledger_id}"
        self._sink.record(
            AuditEvent(kind, AuditResult.REFUSED, str(principal), address, resource, reason)
        )
