"""Serves the console over HTTP, behind the same TLS gate as other servers. Only it uses uvicorn."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from ...client.connect import Client
from ...core.protocol.errors import ConfigurationError
from ...core.runtime.primitives.transport_security import PASS, FirstStep, FirstVerdict
from ...core.runtime.tasks import Tasks, wait_until_done
from ...tls.protection import Protection, is_loopback
from ...tls.tls_transport import PEER_CERTIFICATE
from .event_streams import ABORT
from .responses import SafeResponses, host_name
from .routes import ConsoleRoutes
from .visitors import CERTIFICATE, Visitors

CONNECTIONS_MAX = 512
_REQUEST_S_MAX = 10.0
"""Time in which the head of a request must be complete."""
_HEAD_BYTES_MAX = 16 * 1024
_GRACE_S = 1
_REFUSED = FirstVerdict(
    FirstStep.REFUSE,
    b"HTTP/1.1 426 Upgrade Required\r\nUpgrade: TLS/1.2\r\nContent-Length: 0\r\n"
    b"Connection: close\r\n\r\n",
)


@asynccontextmanager
async def running_console(
    client: Client,
    *,
    host: str,
    port: int,
    interval_s: float,
    protection: Protection,
    allows_actions: bool = False,
) -> AsyncIterator[str]:
    """Serve the console until the block ends; yields its address, e.g. http://127.0.0.1:8290/.

    Port 0 selects a free one. With ``allows_actions`` visitors that may administer the cluster can
    change it. Raises ConfigurationError (a port in use, an address of a network
    without TLS, grants to be checked without TLS or tokens).
    """
    protection.check_address(host, "the console")
    visitors = Visitors(client.store, protection)
    routes = ConsoleRoutes(client, visitors, interval_s, allows_actions=allows_actions)
    listener = _listen(host, port)
    bound = listener.getsockname()[1]
    server = _Server(_config(SafeResponses(routes.app, _hosts(host, protection)), protection))
    tasks = Tasks()
    await visitors.start()
    routes.feed.start()
    try:
        serving = tasks.spawn(server.serve(sockets=[listener]), "serve the console")
        scheme = "http" if protection.serving is None else "https"
        shown = f"[{host}]" if ":" in host else host
        yield f"{scheme}://{shown}:{bound}/"
        server.should_exit = True
        await routes.feed.aclose()
        await wait_until_done(serving)
    finally:
        await routes.aclose()
        await tasks.aclose()
        await visitors.aclose()
        listener.close()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        raise ConfigurationError(
            f"cannot serve the console on {host}:{port}: {error.strerror or error}; choose another "
            "--port (0: a free one)"
        ) from error


def _hosts(host: str, protection: Protection) -> frozenset[str] | None:
    """Return the host names that requests may have; with TLS the certificate decides."""
    if protection.serving is not None or not is_loopback(host):
        return None
    return frozenset({"localhost", "127.0.0.1", "::1", host_name(host)})


def _config(app: ASGIApp, protection: Protection) -> uvicorn.Config:
    gate = protection.gate(
        needs_certificate=protection.serving is not None
        and protection.serving.settings.proxy_client_certificates
    )

    def judge(_: bytes) -> FirstVerdict:
        return _REFUSED if gate is not None and gate.is_required else PASS

    def accept(**arguments: Any) -> asyncio.Protocol:  # noqa: ANN401 - uvicorn's own arguments
        if gate is None:
            return _Connection(**arguments)
        return gate.guard(lambda: _Connection(**arguments), judge)

    return uvicorn.Config(
        app,
        http=accept,  # type: ignore[arg-type]  # called like a class, and nothing else
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        log_level="error",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACE_S,
        h11_max_incomplete_event_size=_HEAD_BYTES_MAX,
    )


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the command."""
        yield


class _Connection(H11Protocol):
    """A connection whose requests name its certificate, and which must be complete in time."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See asyncio.Protocol."""
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS_MAX:
            transport.abort()
            return
        certificate = transport.get_extra_info(PEER_CERTIFICATE)
        app = self.app

        async def with_connection(scope: Scope, receive: Receive, send: Send) -> None:
            added = {CERTIFICATE: certificate, ABORT: transport.abort}
            await app({**scope, **added}, receive, send)

        self.app = with_connection
        self._timer = self.loop.call_later(_REQUEST_S_MAX, transport.abort)

    def data_received(self, data: bytes) -> None:
        """Stops the timer while a request is served; a part of a next one starts it again."""
        super().data_received(data)
        is_serving = self.cycle is not None and not self.cycle.response_complete
        if is_serving and self._timer is not None:
            self._timer.cancel()
            self._timer = None
        elif not is_serving and self._timer is None:
            self._timer = self.loop.call_later(_REQUEST_S_MAX, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)
