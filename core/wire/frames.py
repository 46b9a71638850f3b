"""Frames: a 4-byte big-endian length, which does not count itself, then that many bytes.

Both sides of BookKeeper's protocol limit a frame, including its length field, to 5 MiB by default.
There is no greeting; requests are pipelined, and responses come in any order.
"""

import struct

from ..protocol.errors import ProtocolError

FRAME_BYTES_MAX = 5 * 1024 * 1024
"""Largest frame, with its 4-byte length, that Apache bookies and clients accept by default."""

LENGTH = struct.Struct(">I")
_LENGTH_BYTES = LENGTH.size
_length_at = LENGTH.unpack_from


class FrameSplitter:
    """A parser that splits the received bytes of one connection into frames.

    Complete frames are sliced from the received chunk. The rest of a chunk, a partial frame, is
    kept, and joined once when the frame is complete: a frame that arrives in k pieces is copied
    once, not k times. Holds at most ``frame_bytes_max`` bytes and one chunk.
    """

    __slots__ = ("_frame_bytes_max", "_held", "_held_bytes", "_needed_bytes")

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._needed_bytes = 0  # held bytes at which parsing can continue

    @property
    def held_bytes(self) -> int:
        """Bytes held of a partial frame."""
        return self._held_bytes

    def take_partial_frame(self, bytes_min: int) -> tuple[bytes, int] | None:
        """Hand a partial frame over to the caller: return its received bytes and its full size.

        The caller receives the rest of the frame. Both values exclude the length field. Return None
        if no frame of at least ``bytes_min`` has begun, or if its size is not known yet.
        """
        if self._held_bytes < _LENGTH_BYTES or self._needed_bytes < bytes_min:
            return None
        received = b"".join(self._held)[_LENGTH_BYTES:]
        self._held.clear()
        self._held_bytes = 0
        return received, self._needed_bytes - _LENGTH_BYTES

    def feed(self, data: bytes) -> list[bytes]:
        """Return all frames that ``data`` completes, without their lengths. Raises as ``cut``."""
        data, starts, stops = self.cut(data)
        return [data[start:stop] for start, stop in zip(starts, stops, strict=True)]

    def cut(self, data: bytes) -> tuple[bytes, list[int], list[int]]:
        """Find all frames that ``data`` completes; return bytes, and their starts and stops in it.

        Raises ProtocolError for a frame that is empty or above the limit, as soon as its length is
        known. The frames before it in ``data`` are lost then: the caller closes the connection.
        """
        starts: list[int] = []
        stops: list[int] = []
        if self._held:
            self._held.append(data)
            self._held_bytes += len(data)
            if self._held_bytes < self._needed_bytes:
                return b"", starts, stops
            data = b"".join(self._held)
            self._held.clear()
            self._held_bytes = 0
        largest = self._frame_bytes_max - _LENGTH_BYTES
        needed = _LENGTH_BYTES
        start = _LENGTH_BYTES  # of the current frame, after its length
        end = len(data)
        while start <= end:
            (size,) = _length_at(data, start - _LENGTH_BYTES)
            if not 0 < size <= largest:
                raise ProtocolError(f"frame size {size} is not between 1 and {largest} bytes")
            stop = start + size
            if stop > end:
                needed = _LENGTH_BYTES + size
                break
            starts.append(start)
            stops.append(stop)
            start = stop + _LENGTH_BYTES
        start -= _LENGTH_BYTES
        if start < end:
            rest = data[start:]
            self._held.append(rest)
            self._held_bytes = len(rest)
            self._needed_bytes = needed
        return data, starts, stops
