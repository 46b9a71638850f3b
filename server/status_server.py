"""A small HTTP server with the liveness, readiness and statistics of a service.

``/livez``: the event loop runs. ``/readyz``: the service is ready, or 503 with the reason.
``/stat``: the statistics as JSON. ``/metrics``: the same values in the Prometheus text format. Only
GET is served, one request per connection, with bounded size and time; it is meant for probes and
operators on a trusted network.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from .prometheus_exposition import CONTENT_TYPE, exposition, registry_of

_REQUEST_BYTES_MAX = 8 * 1024
_REQUEST_SECONDS_MAX = 5
_CONNECTIONS_MAX = 64

_METRICS = "/metrics"

Response = tuple[HTTPStatus, Mapping[str, Any]]


class StatusServer:
    """Serves ``statistics``; ``unready_reason`` returns why the service is not ready, or None."""

    def __init__(
        self,
        statistics: Callable[[], Mapping[str, Any]],
        unready_reason: Callable[[], str | None],
        *,
        service: str = "bookie",
    ) -> None:
        self._statistics = statistics
        self._not_ready = unready_reason
        self._registry = registry_of(service, self._metric_statistics)
        self._server: asyncio.Server | None = None
        self._connection_count = 0

    async def start(self, host: str, port: int) -> int:
        """Start to listen and return the port. Raises OSError if it is in use."""
        self._server = await asyncio.start_server(self._serve, host, port, limit=_REQUEST_BYTES_MAX)
        return int(self._server.sockets[0].getsockname()[1])

    async def aclose(self) -> None:
        """Stop listening. Safe to repeat."""
        if self._server is not None:
            self._server.close()

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
        return HTTPStatus.NOT_FOUND, {"error": "the paths are /livez, /readyz, /stat and /metrics"}

    def metrics(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        return exposition(self._registry)

    def _metric_statistics(self) -> Mapping[str, Any]:
        return {"ready": self._not_ready() is None, **self._statistics()}

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connection_count += 1
        try:
            if self._connection_count > _CONNECTIONS_MAX:
                return
            async with asyncio.timeout(_REQUEST_SECONDS_MAX):
                head = await reader.readuntil(b"\r\n\r\n")
                method, path, _ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
                if (method, path) == ("GET", _METRICS):
                    status, kind, text = HTTPStatus.OK, CONTENT_TYPE, self.metrics()
                else:
                    status, body = self.respond(method, path)
                    kind, text = "application/json", json.dumps(body).encode()
                writer.write(
                    f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {kind}\r\n"
                    f"Content-Length: {len(text)}\r\nConnection: close\r\n\r\n".encode()
                    + text
                )
                await writer.drain()
        except (OSError, ValueError, EOFError, asyncio.LimitOverrunError, TimeoutError):
            writer.transport.abort()  # the peer does not speak HTTP, or has closed the connection
        finally:
            self._connection_count -= 1
            writer.close()


async def fetch_status(host: str, port: int, path: str, *, timeout_ms: int) -> dict[str, Any]:
    """Request ``path`` from a ``StatusServer``. Raises OSError, TimeoutError, ValueError."""
    async with asyncio.timeout(timeout_ms / 1000):
        reader, writer = await asyncio.open_connection(host, port)
        try:
            writer.write(f"GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
            response = await reader.read(1 << 20)
        finally:
            writer.close()
    body = json.loads(response.partition(b"\r\n\r\n")[2])
    if not isinstance(body, dict):
        raise ValueError(f"unexpected response from {host}:{port}: {body!r}")
    return body
