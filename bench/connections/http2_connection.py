"""A connection of a gRPC client, reduced to the frames of HTTP/2 that an idle one needs.

Ten thousand channels of the gRPC library would need more memory and threads than the proxy that is
measured. This client sends the preface, acknowledges settings, answers pings, and can begin one
streaming call, in which it sends nothing.
"""

import asyncio
import struct
from typing import cast

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY = 0, 1, 3, 4, 6, 7
_ACK, _END_HEADERS = 1, 4
_HEAD_BYTES = 9
_STREAM_ID = 1


class Http2Connection(asyncio.Protocol):
    """One idle connection."""

    def __init__(self) -> None:
        self.failure = ""
        """Why the server ended the connection or the call; "" if it did not."""
        self._received = b""
        self._transport: asyncio.Transport | None = None

    def begin_call(self, authority: str, path: str) -> None:
        """Begin a streaming call of the method at ``path`` and send no message."""
        headers = (
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            (":authority", authority),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        )
        block = b"".join(_literal(name, value) for name, value in headers)
        self._send(_HEADERS, _END_HEADERS, _STREAM_ID, block)

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.abort()

    # --- the transport --------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the preface and empty settings."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(_PREFACE)
        self._send(_SETTINGS, 0, 0, b"")

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the server closed the connection."""
        self.failure = self.failure or f"closed: {exc}"

    def data_received(self, data: bytes) -> None:
        """Process whole frames and keep the rest."""
        data = self._received + data
        at = 0
        while len(data) - at >= _HEAD_BYTES:
            size = int.from_bytes(data[at : at + 3], "big")
            end = at + _HEAD_BYTES + size
            if end > len(data):
                break
            self._take(data[at + 3], data[at + 4], data[at + _HEAD_BYTES : end])
            at = end
        self._received = data[at:]

    def _take(self, kind: int, flags: int, payload: bytes) -> None:
        if kind in (_SETTINGS, _PING) and not flags & _ACK:
            self._send(kind, _ACK, 0, payload if kind == _PING else b"")
        elif kind in (_RST_STREAM, _GOAWAY):
            self.failure = self.failure or f"frame {kind}: {payload!r}"

    def _send(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        assert self._transport is not None
        head = len(payload).to_bytes(3, "big") + struct.pack(">BBI", kind, flags, stream_id)
        self._transport.write(head + payload)


def _literal(name: str, value: str) -> bytes:
    """Encode a header field without an index and without Huffman code (RFC 7541, 6.2.2)."""
    assert max(len(name), len(value)) < 0x7F, "longer strings have longer lengths"
    return b"\0" + bytes((len(name),)) + name.encode() + bytes((len(value),)) + value.encode()
