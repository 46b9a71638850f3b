"""A session: an etcd lease that this process keeps alive and that owns the ephemeral keys."""

import asyncio

import grpc.aio

from ...core.protocol.errors import ClosedError, MetadataError, MetadataUnavailableError
from ...core.runtime.tasks import Tasks
from ..store_base import StoreSession
from . import etcd_pb2 as pb
from .client import EtcdClient

RENEWALS_PER_TTL = 4


class EtcdSession(StoreSession):
    """A session that is lost when etcd reports that its lease has expired.

    A process without contact to etcd learns of the loss only after it has reconnected.
    """

    def __init__(self, client: EtcdClient, lease: int, ttl_ms: int, timeout_ms: int) -> None:
        super().__init__()
        self.lease = lease
        self._client = client
        self._ttl_ms = ttl_ms
        self._timeout_ms = timeout_ms
        self._tasks = Tasks()
        self._tasks.spawn(self._keep_alive(), f"etcd lease {lease:x}")

    async def close(self) -> None:
        """End the session and remove its nodes; without contact, after the TTL. Safe to repeat."""
        self._on_lost.clear()
        was_lost, self.is_lost = self.is_lost, True
        await self._tasks.aclose()
        if was_lost:
            return
        request = pb.LeaseRevokeRequest(ID=self.lease)
        deadline = asyncio.get_running_loop().time() + self._timeout_ms / 1000
        try:
            await self._client.write(
                "Lease/LeaseRevoke", request, pb.LeaseRevokeResponse, deadline=deadline
            )
        except (MetadataError, ClosedError):
            return  # already expired, or it will expire since it is not kept alive any more

    async def _keep_alive(self) -> None:
        pause_s = self._ttl_ms / 1000 / RENEWALS_PER_TTL
        while not self.is_lost:
            await asyncio.sleep(pause_s)
            try:
                async with asyncio.timeout(pause_s):
                    is_alive = await self._renew()
            except (TimeoutError, grpc.aio.AioRpcError, MetadataUnavailableError) as error:
                failure = error if isinstance(error, grpc.aio.AioRpcError) else None
                await self._client.stream_failed(failure)
                pause_s = self._ttl_ms / 1000 / RENEWALS_PER_TTL / 2
                continue
            pause_s = self._ttl_ms / 1000 / RENEWALS_PER_TTL
            if not is_alive:
                self.mark_lost()

    async def _renew(self) -> bool:
        call = self._client.stream("Lease/LeaseKeepAlive", pb.LeaseKeepAliveResponse)
        try:
            await call.write(pb.LeaseKeepAliveRequest(ID=self.lease))
            answer = await call.read()
            if not isinstance(answer, pb.LeaseKeepAliveResponse):
                raise MetadataUnavailableError("etcd closed the keepalive stream")
            self._client.note_answer()
            return bool(answer.TTL > 0)
        finally:
            call.cancel()
