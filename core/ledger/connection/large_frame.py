"""The rest of one large frame, received where it will stay.

While it comes, this stands in the connection's place as the transport's protocol: uvloop has the
socket's bytes written straight into it. Transports that bring bytes of their own will do as well.
"""

from typing import Protocol


class FrameOwner(Protocol):
    """The connection that a large frame is for."""

    def heard(self, size: int) -> None:
        """So many bytes of the frame have come."""
        ...

    def take_large(self, frame: memoryview) -> None:
        """The frame is whole, without its length: take it, and the transport back."""
        ...

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol: what follows the frame."""
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
    """``size`` bytes, of which ``begun`` have come; at least one has not."""

    __slots__ = (
        "_filled",
        "_owner",
        "_room",
        "connection_lost",
        "eof_received",
        "pause_writing",
        "resume_writing",
    )

    def __init__(self, owner: FrameOwner, begun: bytes, size: int) -> None:
        assert len(begun) < size
        self._owner = owner
        self._room = memoryview(bytearray(size))
        self._room[: len(begun)] = begun
        self._filled = len(begun)
        self.connection_lost = owner.connection_lost
        self.eof_received = owner.eof_received
        self.pause_writing = owner.pause_writing
        self.resume_writing = owner.resume_writing

    def get_buffer(self, sizehint: int) -> memoryview:
        """See asyncio.BufferedProtocol: never beyond the frame."""
        del sizehint
        return self._room[self._filled :]

    def buffer_updated(self, size: int) -> None:
        """See asyncio.BufferedProtocol."""
        self._filled += size
        self._owner.heard(size)
        if self._filled == len(self._room):
            self._owner.take_large(self._room.toreadonly())

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        taken = min(len(data), len(self._room) - self._filled)
        self._room[self._filled : self._filled + taken] = data[:taken]
        self.buffer_updated(taken)
        if taken < len(data):
            self._owner.data_received(data[taken:])
