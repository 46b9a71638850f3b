"""Responses of the console: errors with their HTTP status, and headers of all responses."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...core.protocol.errors import (
    InvalidArgumentError,
    NoSuchNamespaceError,
    NoSuchStreamError,
    PermissionDeniedError,
    RhumblineError,
    UnauthorizedError,
)

_STATUS: tuple[tuple[type[RhumblineError], int], ...] = (
    (PermissionDeniedError, 403),
    (UnauthorizedError, 401),
    (NoSuchStreamError, 404),
    (NoSuchNamespaceError, 404),
    (InvalidArgumentError, 400),
)
_UNAVAILABLE = 503
_FAILED = 500

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Headers of every response: nothing is loaded from elsewhere, or shown inside of other pages.

A response that has a header of this name keeps its own: browsers may keep the files of the pages.
"""
_ADDED = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]


async def error_response(_: Request, error: Exception) -> Response:
    """Return the response for a ``RhumblineError``."""
    assert isinstance(error, RhumblineError)
    status = next((code for kind, code in _STATUS if isinstance(error, kind)), _UNAVAILABLE)
    return JSONResponse({"code": error.code, "error": str(error)}, status)


async def late_response(_: Request, __: Exception) -> Response:
    """Return the response for a request that was not done by its deadline."""
    error = "the cluster did not respond in time"
    return JSONResponse({"code": "deadline-exceeded", "error": error}, _UNAVAILABLE)


async def unexpected_response(_: Request, error: Exception) -> Response:
    """Return the response for a request that failed; the server logs its exception."""
    name = type(error).__name__
    return JSONResponse({"code": "internal", "error": f"the console failed: {name}"}, _FAILED)


class SafeResponses:
    """Adds ``HEADERS`` to all responses, and refuses requests for other hosts (rule CON-4).

    Without TLS, a page of another site could otherwise reach a console on loopback under a name of
    its own (DNS rebinding).
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str] | None) -> None:
        """``hosts``: the names that a request may have; None: any."""
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            return

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = list(message.get("headers", ()))
                given = {name.lower() for name, _ in own}
                message = {**message, "headers": [*own, *(h for h in _ADDED if h[0] not in given)]}
            await send(message)

        if self._hosts is not None and host_name(_host_of(scope)) not in self._hosts:
            refusal = JSONResponse({"code": "host", "error": "unknown host name"}, 421)
            await refusal(scope, receive, send_safely)
            return
        await self._app(scope, receive, send_safely)


def _host_of(scope: Scope) -> str:
    found = (value for key, value in scope["headers"] if key == b"host")
    return str(next(found, b"").decode("latin-1"))


def host_name(host: str) -> str:
    """Return the name or address in a `Host` header, without port and brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()
