"""Fetches public keys over HTTP, with one deadline for the whole exchange.

A server that sends one byte at a time would keep each socket operation within its timeout, and the
whole fetch waiting for ever. So the connection is shut down at the deadline, whatever its state.
"""

import http.client
import socket
import threading
import time
import urllib.request
from http.client import HTTPMessage
from typing import IO, Any

_PIECE_BYTES = 64 << 10


class _Deadline:
    """Shuts down the connections of one fetch when its time is over."""

    def __init__(self, seconds: float) -> None:
        self.ends_at = time.monotonic() + seconds
        self._sockets: list[socket.socket] = []
        self._timer = threading.Timer(seconds, self._shut_down)
        self._timer.daemon = True

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.ends_at

    def watch(self, connected: socket.socket) -> None:
        # A duplicate, because TLS detaches the socket itself before the handshake.
        self._sockets.append(connected.dup())
        if self.is_over:
            self._shut_down()

    def _shut_down(self) -> None:
        for one in self._sockets:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # its peer has closed it

    def __enter__(self) -> "_Deadline":
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        for one in self._sockets:
            one.close()


class _PlainConnection(http.client.HTTPConnection):
    deadline: _Deadline

    def connect(self) -> None:
        super().connect()
        self.deadline.watch(self.sock)


class _TlsConnection(http.client.HTTPSConnection, _PlainConnection):
    """Connects as its second base does, and then begins TLS."""


class _Connections(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    """Opens connections that a deadline ends."""

    def __init__(self, deadline: _Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self._limited(_PlainConnection), req)

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self._limited(_TlsConnection), req)

    def _limited(self, kind: type[_PlainConnection]) -> Any:  # noqa: ANN401 - as do_open
        def make(host: str, **others: Any) -> _PlainConnection:  # noqa: ANN401 - as do_open
            made = kind(host, **others)
            made.deadline = self._deadline
            return made

        return make


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: they may lead to an address without TLS, where anybody answers."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> None:
        """Follow no redirect, which makes the response an error. See HTTPRedirectHandler."""


def fetch(address: str, *, bytes_max: int, seconds_max: float) -> bytes:
    """Return the document at an address, or more than ``bytes_max`` of it. Blocks.

    Raises OSError, such as TimeoutError without a complete response within ``seconds_max``. A
    look-up of the host and a connection attempt are not interrupted then, but nothing follows them.
    """
    request = urllib.request.Request(address, headers={"Accept": "application/json"})
    content = b""
    with _Deadline(seconds_max) as deadline:
        opener = urllib.request.build_opener(_NoRedirects, _Connections(deadline))
        try:
            with opener.open(request, timeout=seconds_max) as response:
                while len(content) <= bytes_max and (piece := response.read1(_PIECE_BYTES)):
                    content += piece
        except (OSError, http.client.HTTPException) as error:
            if not deadline.is_over:
                raise OSError(f"{type(error).__name__}: {error}") from error
        if deadline.is_over:
            raise TimeoutError(f"no complete response within {seconds_max:g} s")
    return content
