"""A limit on the unsent responses of all connections, so that peers that do not read cost little.

Each connection has a limit of its own, but there may be thousands of connections. Above half of the
limit over all of them, each connection gets an equal share of that half. Above the limit itself,
connections are closed: those of the address with the most unsent bytes first, and of these the one
first that has sent nothing for the longest time. Nothing else waits for a peer that does not read.
"""

import asyncio
from collections import Counter
from typing import Protocol

NOT_READ = "responses-not-read"
"""The reason for which a connection is closed."""

COUNTED_BYTES_MIN = 16 * 1024
"""A connection with fewer unsent bytes does not count, which keeps small responses cheap."""


class UnsentHolder(Protocol):
    """A connection that may hold responses that its peer has not read."""

    host: str
    """The address of the client without its port; "" if it is not known."""

    written_bytes: int
    """Bytes that were ever written to the connection."""

    @property
    def unsent_bytes(self) -> int:
        """Bytes that were written and not sent; 0 once the connection is closed."""
        ...

    def limit_unsent(self, bytes_max: int) -> None:
        """Reads no further requests and files while more bytes are unsent."""
        ...

    def drop(self, reason: str) -> None:
        """Closes the connection, drops its unsent responses, and counts the reason."""
        ...


class UnsentResponses:
    """The connections with unsent responses."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._half_bytes = bytes_max // 2
        # Bytes, bytes ever sent, and the time at which the latter rose.
        self._held: dict[UnsentHolder, tuple[int, int, float]] = {}
        self._held_bytes = 0

    @property
    def held_bytes(self) -> int:
        """Bytes that are unsent now. Counts them, so it is not for each response."""
        self._count_again()
        return self._held_bytes

    def hold(self, holder: UnsentHolder, unsent_bytes: int) -> None:
        """Records the unsent bytes of a connection, and enforces the limit."""
        self._record(holder, unsent_bytes)
        if self._held_bytes > self._half_bytes:
            share = self._half_bytes // len(self._held)
            if unsent_bytes > share:
                holder.limit_unsent(share)
            if self._held_bytes > self._bytes_max:
                self._make_room()

    def release(self, holder: UnsentHolder) -> None:
        """Removes the record of a connection. Safe to repeat."""
        before = self._held.pop(holder, None)
        if before is not None:
            self._held_bytes -= before[0]

    def _record(self, holder: UnsentHolder, unsent_bytes: int) -> None:
        before_bytes, before_sent, since_s = self._held.get(holder, (0, -1, 0.0))
        sent = holder.written_bytes - unsent_bytes
        if sent > before_sent:
            since_s = asyncio.get_running_loop().time()
        self._held[holder] = (unsent_bytes, sent, since_s)
        self._held_bytes += unsent_bytes - before_bytes

    def _count_again(self) -> None:
        """Reads what is unsent now: a connection does not tell when its peer has read."""
        for holder in list(self._held):
            unsent_bytes = holder.unsent_bytes
            if unsent_bytes < COUNTED_BYTES_MIN:
                self.release(holder)
            else:
                self._record(holder, unsent_bytes)

    def _make_room(self) -> None:
        """Closes connections until an eighth of the limit is free, so that this is rarely done."""
        self._count_again()
        target_bytes = self._bytes_max - self._bytes_max // 8
        if self._held_bytes <= target_bytes:
            return
        by_host: Counter[str] = Counter()
        for holder, (unsent_bytes, _, _) in self._held.items():
            by_host[holder.host] += unsent_bytes

        def rank(holder: UnsentHolder) -> tuple[int, str, float, int]:
            unsent_bytes, _, since_s = self._held[holder]
            return -by_host[holder.host], holder.host, since_s, -unsent_bytes

        for holder in sorted(self._held, key=rank):
            if self._held_bytes <= target_bytes:
                return
            self.release(holder)
            holder.drop(NOT_READ)
