"""The client side of TLS for connections to bookies. Implements OutgoingSecurity."""

import asyncio
from typing import Any, cast

from ..core.protocol.errors import ProtocolError, UnauthorizedError
from ..core.wire import v3
from ..core.wire.frames import FrameSplitter
from .credentials import TlsCredentials
from .tls_layer import TlsLayer

_RESPONSE_BYTES_MAX = 1_024
_TXN_ID = 1


class TlsToBookies:
    """Wraps the protocols of connections to bookies in TLS."""

    def __init__(self, credentials: TlsCredentials) -> None:
        self._credentials = credentials

    def protect(self, protocol: Any, host: str, *, upgrades: bool) -> Any:  # noqa: ANN401 - asyncio
        """See OutgoingSecurity."""
        credentials = self._credentials
        layer = TlsLayer(
            credentials.client_context(),
            lambda: protocol,
            lambda error: protocol.connection_lost(error or ConnectionResetError(_ENDED)),
            handshake_ms_max=credentials.settings.handshake_ms_max,
            server_name=credentials.server_name(host),
        )
        return _StartTls(layer, protocol) if upgrades else layer


_ENDED = "closed during the TLS handshake"


class _StartTls(asyncio.Protocol):
    """Asks an Apache bookie for TLS, and begins it after the response."""

    def __init__(self, layer: TlsLayer, protocol: Any) -> None:  # noqa: ANN401 - asyncio.Protocol
        self._layer = layer
        self._protocol = protocol
        self._splitter = FrameSplitter(_RESPONSE_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._error: Exception | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(v3.frame(v3.start_tls_request(_TXN_ID)))

    def data_received(self, data: bytes) -> None:
        """Takes the response."""
        assert self._transport is not None
        try:
            frames = self._splitter.feed(data)
            if not frames and not self._splitter.held_bytes:
                return
            if len(frames) > 1 or (frames and self._splitter.held_bytes):
                raise ProtocolError("the bookie sent more than its response to START_TLS")
            if not frames:
                return
            status = v3.status_of(v3.decode_response(frames[0]))
            if status != v3.Status.OK:
                raise UnauthorizedError(f"the bookie refused START_TLS with status {status}")
        except (ProtocolError, UnauthorizedError) as error:
            self._error = error
            self._transport.abort()
            return
        self._transport.set_protocol(self._layer)
        self._layer.connection_made(self._transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._protocol.connection_lost(self._error or exc or ConnectionResetError(_ENDED))
