"""The open client connections of a bookie: which of them make room for new ones, or end when idle.

Every open connection occupies a file descriptor and some memory. A client that disappears silently,
or that opens connections and sends nothing, would occupy them forever, so idle connections are
closed. One address that holds many connections must not lock the others out until then, even if its
connections are allowed. At the limit, an idle connection of the address with the most of them
therefore makes room for a connection from an address with fewer.
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Protocol

CLOSED_FOR_OTHERS = "made-room"
"""The reason for which a connection is closed to make room."""

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


class OpenConnection(IdleConnection, Protocol):
    """A connection that may have to make room. ``close`` removes it from the open ones."""

    host: str
    """The address of the client without its port; "" if it is not known."""


class OpenConnections:
    """At most ``count_max`` open connections, oldest first."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._connections: dict[OpenConnection, None] = {}
        self._by_host: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._connections)

    def __iter__(self) -> Iterator[OpenConnection]:
        return iter(self._connections)

    def __contains__(self, connection: object) -> bool:
        return connection in self._connections

    def add(self, connection: OpenConnection) -> bool:
        """Add a new connection. Returns False if there is no room for it."""
        if len(self) >= self._count_max and not self._make_room(connection.host):
            return False
        self._connections[connection] = None
        self._by_host[connection.host] += 1
        return True

    def remove(self, connection: OpenConnection) -> None:
        """Remove a connection that is closed. Safe to repeat."""
        if connection in self._connections:
            del self._connections[connection]
            self._by_host[connection.host] -= 1
            if not self._by_host[connection.host]:
                del self._by_host[connection.host]

    def _make_room(self, host: str) -> bool:
        """Close an idle connection of the busiest address, unless ``host`` would be as busy."""
        busiest, count = max(self._by_host.items(), key=lambda item: item[1], default=("", 0))
        if count <= self._by_host[host] + 1:
            return False
        idle = [each for each in self if each.host == busiest and not each.has_work]
        if not idle:
            return False
        max(idle, key=lambda each: each.idle_rounds).close(CLOSED_FOR_OTHERS)
        return True


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
