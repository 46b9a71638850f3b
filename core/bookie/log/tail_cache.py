"""The newest part of the write log in memory, group by group: what tail reads are served from.

It keeps the bodies of whole groups as they were written, so an add costs it nothing of its own.
"""

from bisect import bisect_right


class TailCache:
    """Group bodies by position, oldest out first. Positions only rise. Bounded in bytes."""

    __slots__ = ("_bodies", "_bytes_max", "_dropped", "_starts", "held_bytes")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._starts: list[int] = []
        self._bodies: dict[int, bytes] = {}
        self._dropped = 0  # leading elements of _starts whose bodies are gone
        self.held_bytes = 0

    def put(self, position: int, body: bytes) -> None:
        """Keeps a group's body that stands at ``position``."""
        assert not self._starts or position > self._starts[-1], "groups come in order"
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
        """The ``length`` bytes at ``position`` if their group is here."""
        at = bisect_right(self._starts, position, self._dropped) - 1
        if at < self._dropped:
            return None
        body = self._bodies[self._starts[at]]
        start = position - self._starts[at]
        if start + length > len(body):
            return None
        return body[start : start + length]
