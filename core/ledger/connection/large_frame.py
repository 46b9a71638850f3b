"""Receives the rest of one large frame into its final buffer.

Meanwhile this object replaces the connection as the transport's protocol. uvloop reads from the
socket directly into the buffer; transports that deliver bytes objects are supported as well.
"""

from typing import Protocol


class FrameOwner(Protocol):
    """The connection that receives the frame."""

    def on_received(self, size: int) -> None:
        """Counts ``size`` received bytes of the frame."""
        ...

    def take_large(self, frame: memoryview) -> None:
        """Takes the complete frame, without its length field, and the transport back."""
        ...

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol. ``data`` follows the frame."""
        ...

    def eof_received(self) -> bool:
        """See asyncio.Protocol."""
        ...

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        ...

    def pause_writing(self) -> None:
        """See asyncio.Protocol."""
        ...

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        ...


class LargeFrame:
    """A frame of ``size`` bytes, of which ``begun`` were received; at least one is missing."""

    __slots__ = (
        "_filled",
        "_owner",
        "_buffer",
        "connection_lost",
        "eof_received",
        "pause_writing",
        "resume_writing",
    )

    def __init__(self, owner: FrameOwner, begun: bytes, size: int) -> None:
        assert len(begun) < size
        self._owner = owner
        self._buffer = memoryview(bytearray(size))
        self._buffer[: len(begun)] = begun
        self._filled = len(begun)
        self.connection_lost = owner.connection_lost
        self.eof_received = owner.eof_received
        self.pause_writing = owner.pause_writing
        self.resume_writing = owner.resume_writing

    def get_buffer(self, sizehint: int) -> memoryview:
        """See asyncio.BufferedProtocol. The buffer ends with the frame."""
        del sizehint
        return self._buffer[self._filled :]

    def buffer_updated(self, size: int) -> None:
        """See asyncio.BufferedProtocol."""
        self._filled += size
        self._owner.on_received(size)
        if self._filled == len(self._buffer):
            self._owner.take_large(self._buffer.toreadonly())

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        taken = min(len(data), len(self._buffer) - self._filled)
        self._buffer[self._filled : self._filled + taken] = data[:taken]
        self.buffer_updated(taken)
        if taken < len(data):
            self._owner.data_received(data[taken:])
