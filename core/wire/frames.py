"""Frames: a 4-byte big-endian length that does not count itself, then that many bytes.

Both sides of BookKeeper's protocol limit a frame, its length field included, to 5 MiB by default.
There is no greeting, everything is pipelined, and answers come in any order.
"""

import struct

from ..protocol.errors import ProtocolError

FRAME_BYTES_MAX = 5 * 1024 * 1024
"""Largest frame, with its 4-byte length, that an Apache bookie or client takes by default."""

LENGTH = struct.Struct(">I")
_LENGTH_BYTES = LENGTH.size
_length_at = LENGTH.unpack_from


class FrameSplitter:
    """Cuts what a connection receives into frames.

    A chunk that holds whole frames is cut in place. What is left of a chunk is kept as it came and
    joined once, when the frame that it begins is complete, so that a frame that comes in k pieces
    costs one copy and not k. Holds at most ``frame_bytes_max`` and one chunk.
    """

    __slots__ = ("_frame_bytes_max", "_held", "_held_bytes", "_needed_bytes")

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._needed_bytes = 0  # held bytes that make the next step possible

    @property
    def held_bytes(self) -> int:
        """Bytes of a frame that has begun and is not complete."""
        return self._held_bytes

    def take_begun(self, bytes_min: int) -> tuple[bytes, int] | None:
        """Gives away a frame of at least ``bytes_min`` that has begun: its bytes, and its size.

        Neither counts its length. Someone else receives the rest of it. None: there is no such
        frame, or its size is not known yet.
        """
        if self._held_bytes < _LENGTH_BYTES or self._needed_bytes < bytes_min:
            return None
        begun = b"".join(self._held)[_LENGTH_BYTES:]
        self._held.clear()
        self._held_bytes = 0
        return begun, self._needed_bytes - _LENGTH_BYTES

    def feed(self, data: bytes) -> list[bytes]:
        """All frames that ``data`` completes, without their lengths. Raises as ``cut``."""
        data, starts, stops = self.cut(data)
        return [data[start:stop] for start, stop in zip(starts, stops, strict=True)]

    def cut(self, data: bytes) -> tuple[bytes, list[int], list[int]]:
        """Where in the bytes that it returns the frames that ``data`` completes begin and end.

        Raises ProtocolError for a frame that is empty or above the limit, as soon as its length is
        seen. The frames before it in ``data`` are lost then: the connection has to be closed.
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
        start = _LENGTH_BYTES  # of the frame whose length comes before it
        end = len(data)
        while start <= end:
            (size,) = _length_at(data, start - _LENGTH_BYTES)
            if not 0 < size <= largest:
                raise ProtocolError(f"a frame of {size} bytes; allowed are 1 to {largest}")
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
