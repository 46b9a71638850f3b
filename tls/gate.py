"""The server side of TLS: one port for connections that begin with TLS and for those that do not.

The first byte of a TLS handshake is 0x16, with which no request begins. A limited number of
connections wait here, each only for its handshake and for a limited time. Then a connection belongs
to the protocol that serves it; without TLS, nothing remains between that protocol and the socket.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

from ..core.protocol.errors import InvalidArgumentError
from ..core.runtime.event_log import EventLog, LogLimit
from ..core.runtime.primitives.transport_security import (
    Accept,
    FirstStep,
    JudgeFirstBytes,
)
from ..security.audit import NO_AUDIT, AuditEvent, AuditResult, AuditSink
from ..security.certificate_names import principal_of_certificate
from ..security.principal import ANONYMOUS, Principal
from .certificate import Certificate, decode_der
from .credentials import TlsCredentials
from .tls_layer import TlsLayer

_LOG = EventLog(__name__)

_HANDSHAKE_BYTE = 0x16
_WAITING_MAX = 1_024
"""Maximum number of connections that wait for a handshake; see ``_make_room``."""


class TlsGate:
    """Protects the connections of one port. Implements IncomingSecurity."""

    def __init__(
        self,
        credentials: TlsCredentials,
        *,
        needs_certificate: bool = True,
        admits: Callable[[Principal], bool] | None = None,
        roles_by_name: Mapping[str, str] | None = None,
        audit: AuditSink = NO_AUDIT,
    ) -> None:
        """Without ``needs_certificate`` clients may connect without a certificate.

        ``admits`` says whether the holder of a certificate is served; None: everyone is.
        """
        self._credentials = credentials
        self._admits = admits
        self._needs_certificate = needs_certificate
        self._waiting: dict[_Waiting, None] = {}
        self.counts: Counter[str] = Counter()
        """Numbers of connections by outcome: tls, plain, refused, denied, failed; later expired."""
        self._log_limit = LogLimit()
        self._refusal_limit = LogLimit()
        self._roles = roles_by_name or {}
        self._audit = audit

    @property
    def is_required(self) -> bool:
        """True if connections without TLS are refused."""
        return self._credentials.settings.required

    @property
    def waiting_count(self) -> int:
        """Number of connections that wait for their handshake."""
        return len(self._waiting)

    def guard(self, accept: Accept, judge: JudgeFirstBytes) -> "_Waiting":
        """See IncomingSecurity."""
        if len(self._waiting) >= _WAITING_MAX:
            self._make_room()
        waiting = _Waiting(accept, judge, self._layer, self._release, self._admit, self._ms_max)
        self._waiting[waiting] = None
        return waiting

    def statistics(self) -> dict[str, Any]:
        """Return the counters."""
        return {
            "waiting": self.waiting_count,
            "handshakes": self.counts["tls"],
            "handshakes_failed": self.counts["failed"],
            "plain_accepted": self.counts["plain"],
            "plain_refused": self.counts["refused"],
            "clients_refused": self.counts["denied"],
        }

    def close(self) -> None:
        """Close the connections that wait. Safe to repeat."""
        for waiting in list(self._waiting):
            waiting.abort()

    def _make_room(self) -> None:
        """Close the oldest connection of the address with the most of them.

        So an address that begins handshakes and never completes them loses its own connections.
        """
        counts = Counter(waiting.host for waiting in self._waiting)
        busiest = counts.most_common(1)[0][0]
        next(waiting for waiting in self._waiting if waiting.host == busiest).abort()

    @property
    def _ms_max(self) -> int:
        return self._credentials.settings.handshake_ms_max

    def _layer(self, accept: Accept, on_failed: Callable[[Exception | None], None]) -> TlsLayer:
        context = self._credentials.server_context(needs_certificate=self._needs_certificate)
        return TlsLayer(context, accept, on_failed, handshake_ms_max=self._ms_max)

    def _admit(self, layer: TlsLayer, peer: object) -> bool:
        """Return whether a client is served; a refusal is audited.

        The connection is closed when the certificate of the client expires (rule SEC-43).
        """
        der = layer.peer_certificate()
        try:
            certificate = None if der is None else decode_der(der)
            principal = ANONYMOUS if self._admits is None else self._principal_of(certificate)
        except InvalidArgumentError:
            self._audit_refusal(peer, "certificate-not-understood")
            return False
        if self._admits is None or self._admits(principal):
            if certificate is not None:
                expired = partial(self._on_expired, certificate, peer)
                layer.close_at(certificate.not_after_ms, expired)
            return True
        self._audit_refusal(peer, "role-not-served", str(principal))
        dropped = self._refusal_limit.admit(asyncio.get_running_loop().time(), str(principal))
        if dropped is not None:
            _LOG.warning("client refused", principal=principal, dropped=dropped or None)
        return False

    def _principal_of(self, certificate: Certificate | None) -> Principal:
        if certificate is None:
            return ANONYMOUS
        return principal_of_certificate(certificate.names, self._roles)

    def _on_expired(self, certificate: Certificate, peer: object) -> None:
        self.counts["expired"] += 1
        self._audit_refusal(peer, "certificate-expired", str(self._principal_of(certificate)))

    def _release(self, waiting: "_Waiting", outcome: str, error: Exception | None) -> None:
        if self._waiting.pop(waiting, waiting) is None:
            self.counts[outcome] += 1
            if outcome == "refused":
                self._audit_refusal(waiting.peer, "tls-required")
            if outcome == "failed":
                self._audit_refusal(waiting.peer, "no-handshake")
                self._log_failed(waiting, error)

    def _audit_refusal(self, peer: object, error: str, principal: str = "anonymous") -> None:
        address = _address_of(peer) or ""
        self._audit.record(
            AuditEvent("connect", AuditResult.REFUSED, principal, address, error=error)
        )

    def _log_failed(self, waiting: "_Waiting", error: Exception | None) -> None:
        dropped = self._log_limit.admit(asyncio.get_running_loop().time())
        if dropped is not None:
            address = _address_of(waiting.peer)
            reason = str(error or "closed by the client")
            _LOG.info("handshake failed", peer=address, reason=reason, dropped=dropped or None)


def _address_of(peer: object) -> str | None:
    return ":".join(map(str, peer[:2])) if isinstance(peer, tuple) else None


MakeLayer = Callable[[Accept, Callable[[Exception | None], None]], TlsLayer]


class _Refused(asyncio.Protocol):
    """A connection of a client that is not served."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        transport.close()


class _Waiting(asyncio.Protocol):
    """A connection until its handshake has succeeded, or it is known to be plain."""

    def __init__(
        self,
        accept: Accept,
        judge: JudgeFirstBytes,
        make_layer: MakeLayer,
        on_end: Callable[["_Waiting", str, Exception | None], None],
        admit: Callable[[TlsLayer, object], bool],
        ms_max: int,
    ) -> None:
        self.peer: object = None
        self._accept = accept
        self._judge = judge
        self._make_layer = make_layer
        self._on_end = on_end
        self._admit = admit
        self._layer: TlsLayer | None = None
        self._data = b""
        self._transport: asyncio.Transport | None = None
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(ms_max / 1000, self.abort)

    @property
    def host(self) -> str:
        """The address of the client without its port; "" if it is not known."""
        return str(self.peer[0]) if isinstance(self.peer, tuple) else ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self._transport = cast("asyncio.Transport", transport)
        self.peer = transport.get_extra_info("peername")

    def data_received(self, data: bytes) -> None:
        """Begins TLS, or asks the judge."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if not self._data and data[0] == _HANDSHAKE_BYTE:
            self._begin_tls(transport, data)
            return
        self._data += data
        verdict = self._judge(self._data)
        if verdict.step is FirstStep.WAIT:
            return
        if verdict.response:
            transport.write(verdict.response)
        if verdict.step is FirstStep.UPGRADE:
            self._begin_tls(transport, b"")
        elif verdict.step is FirstStep.REFUSE:
            self._end("refused")
            transport.close()
        else:
            self._end("plain")
            protocol, received, self._data = self._accept(), self._data, b""
            transport.set_protocol(protocol)
            protocol.connection_made(transport)
            protocol.data_received(received)

    def eof_received(self) -> bool:
        """See asyncio.Protocol."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._end("failed", exc)

    def abort(self) -> None:
        """Close the connection now. Safe to repeat."""
        self._end("failed", TimeoutError("no handshake in time"))
        if self._transport is not None:
            self._transport.abort()

    def _begin_tls(self, transport: asyncio.Transport, data: bytes) -> None:
        self._timer.cancel()  # the layer has its own
        layer = self._make_layer(self._accept_secured, lambda error: self._end("failed", error))
        self._layer = layer
        transport.set_protocol(layer)
        layer.connection_made(transport)
        if data:
            layer.data_received(data)

    def _accept_secured(self) -> Any:  # noqa: ANN401 - as asyncio.BaseProtocol
        assert self._layer is not None
        if not self._admit(self._layer, self.peer):
            self._end("denied")
            return _Refused()
        self._end("tls")
        return self._accept()

    def _end(self, outcome: str, error: Exception | None = None) -> None:
        self._timer.cancel()
        self._on_end(self, outcome, error)
