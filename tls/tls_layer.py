"""TLS between a plain transport and a protocol, in the process and without sockets of its own.

The event loop's own TLS begins with a connection. Here it may also begin later, with bytes that
were received before: a port accepts TLS and plain connections, and BookKeeper's START_TLS upgrades
one in place. A received chunk is decrypted completely and delivered with one call; a protocol that
has a buffer gets the bytes decrypted into it.
"""

import asyncio
import ssl
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, cast

_RECORD_BYTES = 16 * 1024
"""Largest plaintext of a TLS record."""

_CLOCK_S = 3_600.0
"""Interval at which the wall clock is read for ``close_at``: it may be corrected."""

Accept = Callable[[], Any]
"""Returns the protocol for a connection whose handshake has succeeded."""

OnFailed = Callable[[Exception | None], None]
"""Called once, with the reason if it is known, if a connection ends before its handshake does."""


class TlsLayer(asyncio.Protocol):
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

    def data_received(self, data: bytes) -> None:
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
        """Reports the end of the connection to the inner protocol, or that there is none."""
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
                    buffer = self._inner.get_buffer(-1)
                    size = tls.read(len(buffer), buffer)
                    if not size:
                        is_over = True
                        break
                    self._inner.buffer_updated(size)
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
        self._flush()  # reading may respond: that no handshake may follow, or with a new key
        if pieces:
            self._inner.data_received(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        if is_over and self._inner is not None and not self._is_closing:
            self._inner.eof_received()
            self.close()

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
        if self._is_closing:
            return
        try:
            sent, size = self._tls.write(data), len(data)
            if sent < size:
                rest = memoryview(data)
                while sent < size:
                    sent += self._tls.write(rest[sent:])
        except ssl.SSLError as error:
            self._fail(error)
            return
        self._flush()

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


PEER_CERTIFICATE = "peer_certificate"
"""Name for ``get_extra_info`` of the peer's verified certificate, in DER form."""
TLS = "rhumbline_tls"
"""Name for ``get_extra_info``: True with TLS, None without."""


class TlsTransport(asyncio.Transport):
    """The transport that the inner protocol sees."""

    def __init__(self, layer: TlsLayer) -> None:
        super().__init__()
        self._layer = layer
        self.write = layer.write  # type: ignore[method-assign]  # saves a call on each write

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - as asyncio
        """See asyncio.BaseTransport; ``PEER_CERTIFICATE`` is known in addition."""
        if name == PEER_CERTIFICATE:
            return self._layer.peer_certificate()
        if name == TLS:
            return True
        return self._layer.plain.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """See asyncio.BaseTransport."""
        self._layer.set_protocol(protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """See asyncio.BaseTransport."""
        return cast("asyncio.BaseProtocol", self._layer.protocol)

    def is_closing(self) -> bool:
        """See asyncio.BaseTransport."""
        return self._layer.is_closing

    def is_reading(self) -> bool:
        """See asyncio.ReadTransport."""
        return self._layer.plain.is_reading()

    def pause_reading(self) -> None:
        """See asyncio.ReadTransport."""
        self._layer.pause_reading()

    def resume_reading(self) -> None:
        """See asyncio.ReadTransport."""
        self._layer.resume_reading()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """See asyncio.WriteTransport."""
        self._layer.plain.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        """See asyncio.WriteTransport."""
        return self._layer.plain.get_write_buffer_size()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """See asyncio.WriteTransport. The parts are joined: each record has a cost of its own."""
        self._layer.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        """See asyncio.WriteTransport: TLS has no half-closed connections here."""
        return False

    def close(self) -> None:
        """See asyncio.BaseTransport."""
        self._layer.close()

    def abort(self) -> None:
        """See asyncio.WriteTransport."""
        self._layer.abort()
