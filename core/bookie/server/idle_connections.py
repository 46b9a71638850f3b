"""Closes client connections on which nothing has happened for a long time.

Every open connection occupies a file descriptor and some memory. A client that vanished without a
word, or that opens connections and says nothing, would occupy them for ever.
"""

import asyncio
from collections.abc import Collection
from typing import Protocol

_ROUNDS = 4
"""Number of checks within the time that a connection may be idle."""


class IdleConnection(Protocol):
    """A connection that can be idle."""

    idle_rounds: int
    """Number of checks since the last request; the connection sets it to 0 with each."""

    @property
    def has_work(self) -> bool:
        """True while a request waits for its response."""
        ...

    def close(self, reason: str) -> None:
        """Closes the connection and counts the reason."""
        ...


async def close_idle_connections(connections: Collection[IdleConnection], idle_ms: int) -> None:
    """Close connections after ``idle_ms`` to 1.25 times that without a request, until cancelled.

    A check costs a few operations for each connection, and a request one assignment.
    """
    while True:
        await asyncio.sleep(idle_ms / 1000 / _ROUNDS)
        for connection in list(connections):
            if connection.has_work:
                connection.idle_rounds = 0
                continue
            connection.idle_rounds += 1
            if connection.idle_rounds > _ROUNDS:
                connection.close("idle")
