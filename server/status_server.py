"""A small HTTP server with the liveness, readiness and statistics of a service.

``/livez``: the event loop runs. ``/readyz``: the service is ready, or 503 with the reason.
``/stat``: the statistics as JSON. ``/metrics``: the same values in the Prometheus text format.
``/streams?name=NAMESPACE/STREAM&name=...``: the latencies of these streams at a write proxy. Only
GET is served, one request per connection, with bounded size and time. With TLS, all but the first
two need a client certificate.

A probe must get its answer whatever else connects: a connection waits for its request only for a
limited time, and above a limited number the one that has waited longest is closed for a new one.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import parse_qs

from ..core.runtime.primitives.transport_security import PASS, FirstStep, FirstVerdict
from ..security.audit import AuditEvent, AuditResult
from ..tls.credentials import TlsCredentials
from ..tls.protection import UNPROTECTED, Protection
from ..tls.tls_transport import PEER_CERTIFICATE, TLS
from .prometheus_exposition import CONTENT_TYPE, exposition, registry_of

REQUEST_BYTES_MAX = 8 * 1024
REQUEST_SECONDS_MAX = 5
CONNECTIONS_MAX = 256
"""Maximum number of open connections."""
_BACKLOG = 1024
_RESPONSE_BYTES_MAX = 8 << 20

_METRICS = "/metrics"
_STREAMS = "/streams"
_OPEN_PATHS = frozenset({"/livez", "/readyz"})
"""Served to everyone: they say only whether the server is alive and ready."""
_CLOSED_PATHS = frozenset({"/stat", _METRICS, _STREAMS})
_ONLY_TLS = (
    b"HTTP/1.1 426 Upgrade Required\r\nUpgrade: TLS/1.2\r\nContent-Length: 0\r\n"
    b"Connection: close\r\n\r\n"
)

Response = tuple[HTTPStatus, Mapping[str, Any]]
OfStreams = Callable[[Sequence[str]], Mapping[str, Any]]
"""Returns what is known of streams, by ``namespace/stream``."""


class StatusServer:
    """Serves ``statistics``; ``unready_reason`` returns why the service is not ready, or None."""

    def __init__(
        self,
        statistics: Callable[[], Mapping[str, Any]],
        unready_reason: Callable[[], str | None],
        *,
        service: str = "bookie",
        streams: OfStreams | None = None,
        request_seconds_max: float = REQUEST_SECONDS_MAX,
        protection: Protection = UNPROTECTED,
    ) -> None:
        self.evicted_count = 0
        """Number of connections that were closed to make room for others."""
        self._statistics = statistics
        self._not_ready = unready_reason
        self._streams = streams
        self._registry = registry_of(service, self._metric_statistics)
        self._server: asyncio.Server | None = None
        self._request_seconds_max = request_seconds_max
        self._connections: dict[_Connection, None] = {}  # oldest first
        self._protection = protection
        self._gate = protection.gate(needs_certificate=False)  # probes have none

    @property
    def connection_count(self) -> int:
        """Number of open connections."""
        return len(self._connections)

    async def start(self, host: str, port: int) -> int:
        """Start to listen and return the port.

        Raises OSError if it is in use, and ConfigurationError for an address that needs TLS.
        """
        self._protection.check_address(host, "the status server")
        gate = self._gate
        accept = self._accept if gate is None else lambda: gate.guard(self._accept, self._judge)
        self._server = await asyncio.get_running_loop().create_server(
            accept, host, port, backlog=_BACKLOG
        )
        return int(self._server.sockets[0].getsockname()[1])

    async def aclose(self) -> None:
        """Stop listening and close all connections. Safe to repeat."""
        if self._server is not None:
            self._server.close()
        if self._gate is not None:
            self._gate.close()
        for connection in list(self._connections):
            connection.abort()

    def _judge(self, data: bytes) -> FirstVerdict:
        required = self._gate is not None and self._gate.is_required
        return FirstVerdict(FirstStep.REFUSE, _ONLY_TLS) if required else PASS

    def _accept(self) -> "_Connection":
        if len(self._connections) >= CONNECTIONS_MAX:
            self.evicted_count += 1
            next(iter(self._connections)).abort()
        connection = _Connection(self._encoded, self._connections, self._request_seconds_max)
        self._connections[connection] = None
        return connection

    def respond(self, method: str, path: str) -> Response:
        """Return status and body for a request."""
        if method != "GET":
            return HTTPStatus.METHOD_NOT_ALLOWED, {"error": "only GET is allowed"}
        if path == "/livez":
            return HTTPStatus.OK, {"alive": True}
        if path == "/readyz":
            reason = self._not_ready()
            if reason is None:
                return HTTPStatus.OK, {"ready": True}
            return HTTPStatus.SERVICE_UNAVAILABLE, {"ready": False, "reason": reason}
        if path == "/stat":
            return HTTPStatus.OK, self._statistics()
        path, _, query = path.partition("?")
        if path == _STREAMS and self._streams is not None:
            return HTTPStatus.OK, self._streams(parse_qs(query).get("name", []))
        return HTTPStatus.NOT_FOUND, {"error": "the paths are /livez, /readyz, /stat and /metrics"}

    def metrics(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        return exposition(self._registry)

    def _metric_statistics(self) -> Mapping[str, Any]:
        return {"ready": self._not_ready() is None, **self._statistics()}

    def _encoded(
        self, method: str, path: str, *, is_known: bool = True, peer: object = None
    ) -> bytes:
        """Return the whole response to a request; ``is_known`` is False for an unknown client."""
        if not is_known and path not in _OPEN_PATHS:
            self._audit_refusal(path, peer)
            status, kind = HTTPStatus.UNAUTHORIZED, "application/json"
            text = b'{"error": "this path needs a client certificate"}'
        elif (method, path) == ("GET", _METRICS):
            status, kind, text = HTTPStatus.OK, CONTENT_TYPE, self.metrics()
        else:
            status, body = self.respond(method, path)
            kind, text = "application/json", json.dumps(body).encode()
        return (
            f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {kind}\r\n"
            f"Content-Length: {len(text)}\r\nConnection: close\r\n\r\n".encode()
            + text
        )

    def _audit_refusal(self, path: str, peer: object) -> None:
        address = ":".join(map(str, peer[:2])) if isinstance(peer, tuple) else ""
        path = path.partition("?")[0]
        resource = f"path:{path}" if path in _CLOSED_PATHS else ""
        event = AuditEvent("status", AuditResult.REFUSED, peer=address, resource=resource)
        self._protection.audit.record(event._replace(error="no-certificate"))


class _Connection(asyncio.Protocol):
    """One connection: a request, its response, and the end, all within a limited time."""

    def __init__(
        self,
        respond: Callable[..., bytes],
        connections: "dict[_Connection, None]",
        seconds_max: float,
    ) -> None:
        self._respond = respond
        self._connections = connections
        self._request = b""
        self._transport: asyncio.Transport | None = None
        self._timer = asyncio.get_running_loop().call_later(seconds_max, self.abort)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self._transport = cast("asyncio.Transport", transport)
        if self not in self._connections:  # evicted before it began
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Answers the request when its head is complete; an invalid one gets no answer."""
        if self._transport is None or self._transport.is_closing():
            return
        self._request += data
        head, end, _ = self._request.partition(b"\r\n\r\n")
        if not end:
            if len(self._request) > REQUEST_BYTES_MAX:
                self.abort()
            return
        words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(words) != 3:
            self.abort()
            return
        self._connections[self] = self._connections.pop(self)  # others are closed before it
        is_known = (
            self._transport.get_extra_info(TLS) is None
            or self._transport.get_extra_info(PEER_CERTIFICATE) is not None
        )
        peer = self._transport.get_extra_info("peername")
        response = self._respond(words[0], words[1], is_known=is_known, peer=peer)
        self._transport.write(response)
        self._transport.close()  # after everything is sent

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._release()

    def abort(self) -> None:
        """Close the connection now. Safe to repeat."""
        self._release()
        if self._transport is not None:
            self._transport.abort()

    def _release(self) -> None:
        self._timer.cancel()
        self._connections.pop(self, None)


async def fetch_status(
    host: str, port: int, path: str, *, timeout_ms: int, credentials: TlsCredentials | None = None
) -> dict[str, Any]:
    """Request ``path`` from a ``StatusServer``, with TLS if there are ``credentials``.

    Raises OSError, TimeoutError, ValueError.
    """
    tls: dict[str, Any] = {}
    if credentials is not None:
        tls = {
            "ssl": credentials.client_context(),
            "server_hostname": credentials.server_name(host),
        }
    async with asyncio.timeout(timeout_ms / 1000):
        reader, writer = await asyncio.open_connection(host, port, **tls)
        try:
            writer.write(f"GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
            response = b""
            while chunk := await reader.read(_RESPONSE_BYTES_MAX - len(response)):
                response += chunk
        finally:
            writer.close()
    body = json.loads(response.partition(b"\r\n\r\n")[2])
    if not isinstance(body, dict):
        raise ValueError(f"unexpected response from {host}:{port}: {body!r}")
    return body
