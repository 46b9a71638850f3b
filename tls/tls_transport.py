"""The transport that a protocol sees when its connection uses TLS."""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from .tls_layer import TlsLayer

PEER_CERTIFICATE = "peer_certificate"
"""Name for ``get_extra_info`` of the peer's verified certificate, in DER form."""
TLS = "rhumbline_tls"
"""Name for ``get_extra_info``: True with TLS, None without."""


class TlsTransport(asyncio.Transport):
    """The transport that the inner protocol sees."""

    def __init__(self, layer: "TlsLayer") -> None:
        super().__init__()
        self._layer = layer
        self.write = layer.write  # type: ignore[method-assign]  # saves a call on each write

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - as asyncio
        """See asyncio.BaseTransport; ``PEER_CERTIFICATE`` and ``TLS`` are also known."""
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
        """See asyncio.WriteTransport."""
        self._layer.writelines(list_of_data)

    def can_write_eof(self) -> bool:
        """See asyncio.WriteTransport: TLS has no half-closed connections here."""
        return False

    def close(self) -> None:
        """See asyncio.BaseTransport."""
        self._layer.close()

    def abort(self) -> None:
        """See asyncio.WriteTransport."""
        self._layer.abort()
