"""A session: a separate ZooKeeper connection that owns the ephemeral nodes."""

import asyncio

from ..store_base import StoreSession
from .client import ZooKeeperAccess, ZooKeeperConnection

CLOSE_RECONNECT_MS = 1_200
"""Time in milliseconds for a reconnect before a session is closed.

It is longer than kazoo's longest pause between connection attempts. A connection that comes back in
this time lets the nodes be removed immediately instead of after the TTL.
"""


class ZooKeeperSession(StoreSession):
    """A session that is lost when the servers report it as expired.

    A process without contact to the servers learns of the loss only after it has reconnected.
    """

    def __init__(self, access: ZooKeeperAccess, ttl_ms: int) -> None:
        super().__init__()
        self.connection = ZooKeeperConnection(access, ttl_ms, on_expired=self._lose)
        self._stopping: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """End the session and remove its nodes. Safe to repeat."""
        was_lost, self.is_lost = self.is_lost, True
        self._on_lost.clear()
        await self.connection.aclose(reconnect_ms_max=0 if was_lost else CLOSE_RECONNECT_MS)
        if self._stopping is not None:
            await self._stopping

    def _lose(self) -> None:
        """Mark the session as lost and stop the new session that kazoo begins."""
        self._stopping = asyncio.get_running_loop().create_task(self.connection.aclose())
        self.mark_lost()
