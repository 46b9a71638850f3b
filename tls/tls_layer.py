"""TLS between a plain transport and a protocol, in the process and without sockets of its own.

The event loop's own TLS begins with a connection. Here it may also begin later, with bytes that
were already received: a port accepts TLS and plain connections, and BookKeeper's START_TLS upgrades
one in place. A received chunk is decrypted completely and delivered with one call; a protocol that
has a buffer gets the bytes decrypted into it.

Large data is encrypted, sent, received and decrypted in steps that fit into a processor's cache.
The peer decrypts a step while the next one is encrypted.
"""

import asyncio
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, cast

from .tls_transport import TlsTransport

_RECORD_BYTES = 16 * 1024
"""Largest plaintext of a TLS record."""

_STEP_BYTES = 16 * _RECORD_BYTES
"""Data that is encrypted or received at once."""

_CLOCK_S = 3_600.0
"""Interval at which the wall clock is read for ``close_at``: it may be corrected."""

Accept = Callable[[], Any]
"""Returns the protocol for a connection whose handshake has succeeded."""

OnFailed = Callable[[Exception | None], None]
"""Called once, with the reason if it is known, if a connection ends before its handshake does."""


class _Buffers(threading.local):
    """The buffer of a thread, which its connections share: it is not in use between two calls."""

    def __init__(self) -> None:
        self.received = memoryview(bytearray(_STEP_BYTES))


_BUFFERS = _Buffers()


class TlsLayer(asyncio.BufferedProtocol):
    """The protocol of the plain transport: makes a ``TlsTransport`` for the inner protocol."""

    def __init__(
        self,
        context: ssl.SSLContext,
        accept: Accept,
        on_failed: OnFailed,
        *,
        handshake_ms_max: int,
        server_name: str | None = None,
    ) -> None:
        """``server_name`` is the name of the server for a client; None makes this side the server.

        ``accept`` is called when the handshake has succeeded.
        """
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming,
            self._outgoing,
            server_side=server_name is None,
            server_hostname=server_name,
        )
        self._accept = accept
        self._on_failed: OnFailed | None = on_failed
        self._handshake_s_max = handshake_ms_max / 1000
        self._plain: asyncio.Transport | None = None
        self._inner: Any = None
        self._has_buffer = False
        self._received = _BUFFERS.received
        self._is_paused = False
        self._is_closing = False
        self._error: Exception | None = None
        self._timer: asyncio.TimerHandle | None = None

    # --- the plain transport --------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins the handshake."""
        self._plain = cast("asyncio.Transport", transport)
        self._timer = asyncio.get_running_loop().call_later(self._handshake_s_max, self._on_late)
        self._shake_hands()

    def get_buffer(self, sizehint: int) -> memoryview:
        """See asyncio.BufferedProtocol."""
        del sizehint
        return self._received

    def buffer_updated(self, nbytes: int) -> None:
        """See asyncio.BufferedProtocol."""
        self.data_received(self._received[:nbytes])

    def data_received(self, data: bytes | memoryview) -> None:
        """Takes encrypted bytes."""
        if self._is_closing:
            return
        self._incoming.write(data)
        if self._inner is None:
            self._shake_hands()
        if self._inner is not None:
            self._deliver()

    def eof_received(self) -> bool:
        """See asyncio.Protocol."""
        return False

    def pause_writing(self) -> None:
        """See asyncio.Protocol."""
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        if self._inner is not None:
            self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Reports the end of the connection to the inner protocol, else to ``on_failed``."""
        self._is_closing = True
        self._stop_timer()
        reason = self._error or exc
        if self._inner is not None:
            inner, self._inner = self._inner, None
            inner.connection_lost(reason)
        elif self._on_failed is not None:
            self._on_failed(reason)
        self._on_failed = None

    # --- handshake ------------------------------------------------------------------------------

    def _shake_hands(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return
        except (ssl.SSLError, ssl.CertificateError) as error:
            self._fail(error)
            return
        self._flush()
        self._stop_timer()
        self._on_failed = None
        self._set_inner(self._accept())
        self._inner.connection_made(TlsTransport(self))

    def _on_late(self) -> None:
        self._fail(TimeoutError(f"no TLS handshake within {self._handshake_s_max:g} s"))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fail(self, error: Exception) -> None:
        """Ends the connection; the peer gets the alert that TLS has for the error."""
        self._error = error
        self._is_closing = True
        if self._plain is not None:
            self._flush()
            self._plain.close()

    # --- receiving ------------------------------------------------------------------------------

    def _deliver(self) -> None:
        """Decrypts what has arrived and passes it on, until reading is paused."""
        is_over = False
        pieces: list[bytes] = []
        tls, incoming = self._tls, self._incoming
        try:
            while not self._is_paused and (incoming.pending or tls.pending()):
                if self._has_buffer:
                    is_over = self._fill(self._inner.get_buffer(-1))
                    if is_over:
                        break
                    if self._inner is None:
                        return
                    continue
                piece = tls.read(_RECORD_BYTES)
                if not piece:
                    is_over = True
                    break
                pieces.append(piece)
        except ssl.SSLWantReadError:
            pass  # the rest of a record is still to come
        except ssl.SSLError as error:
            self._fail(error)
            return
        self._flush()  # reading may cause a response: a refused renegotiation, or a new key
        if pieces:
            self._inner.data_received(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        if is_over and self._inner is not None and not self._is_closing:
            self._inner.eof_received()
            self.close()

    def _fill(self, buffer: memoryview) -> bool:
        """Decrypts into the inner protocol's buffer; returns whether the peer has said goodbye."""
        tls, incoming = self._tls, self._incoming
        read: Callable[..., Any] = tls.read  # declared to return bytes even if it is given a buffer
        filled, full = 0, len(buffer)
        try:
            while filled < full and (incoming.pending or tls.pending()):
                size = read(full - filled, buffer[filled:])
                if not size:
                    return True
                filled += size
        finally:
            if filled:
                self._inner.buffer_updated(filled)
        return False

    def _set_inner(self, inner: Any) -> None:  # noqa: ANN401 - as asyncio.BaseProtocol
        self._inner = inner
        self._has_buffer = hasattr(inner, "get_buffer")

    # --- what TlsTransport needs ----------------------------------------------------------------

    def set_protocol(self, protocol: Any) -> None:  # noqa: ANN401 - as asyncio.BaseProtocol
        """Change the inner protocol."""
        self._set_inner(protocol)

    @property
    def protocol(self) -> Any:  # noqa: ANN401 - as asyncio.BaseProtocol
        """The inner protocol."""
        return self._inner

    @property
    def plain(self) -> asyncio.Transport:
        """The transport of the encrypted bytes."""
        assert self._plain is not None
        return self._plain

    @property
    def is_closing(self) -> bool:
        """True once the connection is ending."""
        return self._is_closing

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt and send."""
        if self._is_closing or not data:
            return
        size = len(data)
        try:
            sent = self._tls.write(data if size <= _STEP_BYTES else memoryview(data)[:_STEP_BYTES])
            self._flush()
            while sent < size:
                sent += self._tls.write(memoryview(data)[sent : sent + _STEP_BYTES])
                self._flush()
        except ssl.SSLError as error:
            self._fail(error)

    def writelines(self, parts: Iterable[bytes | bytearray | memoryview]) -> None:
        """Encrypt and send; joins small parts, because each record has a cost of its own."""
        small: list[bytes | bytearray | memoryview] = []
        small_bytes = 0
        for part in parts:
            if small_bytes + len(part) > _STEP_BYTES:
                self.write(b"".join(small))
                small.clear()
                small_bytes = 0
            if len(part) >= _STEP_BYTES:
                self.write(part)
            else:
                small.append(part)
                small_bytes += len(part)
        self.write(b"".join(small))

    def _flush(self) -> None:
        if self._outgoing.pending and self._plain is not None:
            self._plain.write(self._outgoing.read())

    def pause_reading(self) -> None:
        """Deliver nothing further for now."""
        self._is_paused = True
        self.plain.pause_reading()

    def resume_reading(self) -> None:
        """Deliver again."""
        self._is_paused = False
        self.plain.resume_reading()
        if self._incoming.pending or self._tls.pending():
            asyncio.get_running_loop().call_soon(self._deliver_rest)

    def _deliver_rest(self) -> None:
        if self._inner is not None and not self._is_closing:
            self._deliver()

    def close(self) -> None:
        """Say goodbye and close, after everything is sent. Safe to repeat."""
        if self._is_closing:
            return
        self._is_closing = True
        with suppress(ssl.SSLError):  # "want read": the peer's goodbye is not awaited
            self._tls.unwrap()
        self._flush()
        self.plain.close()

    def abort(self) -> None:
        """Close now. Safe to repeat."""
        self._is_closing = True
        if self._plain is not None:
            self._plain.abort()

    def close_at(self, wall_ms: int, on_closing: Callable[[], None]) -> None:
        """Close the connection at a time of the wall clock; ``on_closing`` is called just before.

        What was not sent by then is lost: the peer may have stopped reading.
        """
        if self._is_closing:
            return
        left_s = wall_ms / 1000 - time.time()
        if left_s <= 0:
            on_closing()
            self.abort()
            return
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(min(left_s, _CLOCK_S), self.close_at, wall_ms, on_closing)

    def peer_certificate(self) -> bytes | None:
        """Return the verified certificate of the peer in DER form; None if it has sent none."""
        return self._tls.getpeercert(binary_form=True)
