"""The tail cache: the newest part of the write log in memory, which serves tail reads.

The cache keeps the bodies of complete groups as they were written, so an add has no extra cost.
"""

from bisect import bisect_right


class TailCache:
    """Group bodies by position, limited in bytes; the oldest are dropped first. Positions rise."""

    __slots__ = ("_bodies", "_bytes_max", "_dropped", "_starts", "held_bytes")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._starts: list[int] = []
        self._bodies: dict[int, bytes] = {}
        self._dropped = 0  # leading elements of _starts whose bodies were dropped
        self.held_bytes = 0

    def put(self, position: int, body: bytes) -> None:
        """Adds the body of the group at ``position``."""
        assert not self._starts or position > self._starts[-1], "positions rise"
        self._starts.append(position)
        self._bodies[position] = body
        self.held_bytes += len(body)
        while self.held_bytes > self._bytes_max:
            self.held_bytes -= len(self._bodies.pop(self._starts[self._dropped]))
            self._dropped += 1
        if self._dropped > 64 and self._dropped * 2 > len(self._starts):
            del self._starts[: self._dropped]
            self._dropped = 0

    def get(self, position: int, length: int) -> bytes | None:
        """Return ``length`` bytes at ``position``, None if their group is not in the cache."""
        at = bisect_right(self._starts, position, self._dropped) - 1
        if at < self._dropped:
            return None
        body = self._bodies[self._starts[at]]
        start = position - self._starts[at]
        if start + length > len(body):
            return None
        return body[start : start + length]
