"""The key that every write transaction and every linearizable read compares: see ``..gate``.

An etcd that lost its data has no gate, so writes and versions of the old life never match the new.
"""

from collections.abc import Callable

from ..migration_fence import FenceState, decode_fence
from . import etcd_pb2 as pb
from .client import EtcdClient
from .keys import EtcdKeys


class EtcdFence:
    """The gate as this process last saw it."""

    def __init__(self, client: EtcdClient, keys: EtcdKeys, new_epoch: Callable[[], str]) -> None:
        self._client = client
        self._keys = keys
        self._new_epoch = new_epoch
        self._data = b""
        self.state = FenceState("", "")

    def condition(self) -> pb.Compare:
        """What a transaction compares."""
        return pb.Compare(
            result=pb.Compare.EQUAL,
            target=pb.Compare.VALUE,
            key=self._keys.fence,
            value=self._data,
        )

    async def read_or_create(self, deadline: float) -> None:
        """Reads the gate, and makes it in a new store. Raises CorruptionError."""
        request = pb.RangeRequest(key=self._keys.fence)
        while True:
            answer = await self._client.read(
                "KV/Range", request, pb.RangeResponse, deadline=deadline
            )
            if answer.kvs:
                self._data = answer.kvs[0].value
                self.state = decode_fence(self._data, f"{self._keys.fence!r} in etcd")
                return
            absent = pb.Compare(target=pb.Compare.CREATE, key=self._keys.fence, create_revision=0)
            epoch = self._new_epoch()
            await self._put(absent, FenceState(epoch, tree=epoch), deadline)

    async def refresh(self, deadline: float) -> bool:
        """Read the fence again; True if it has changed. Raises StoreFencedError."""
        before = self.state
        await self.read_or_create(deadline)
        self.state.check_open()
        return self.state != before

    async def pass_through(self, allowed_fence: FenceState | None, deadline: float) -> None:
        """Before a write: ``condition`` is that of a gate which the writer may pass."""
        is_open = self.state.successor is None
        if not (is_open if allowed_fence is None else self.state == allowed_fence):
            await self.read_or_create(deadline)
        self.state.check(allowed_fence)

    async def swap(self, old: FenceState, new: FenceState, deadline: float) -> bool:
        """Replaces the gate if it is ``old``. When it returns, no write that began before and
        compared ``old`` can happen any more."""
        await self.read_or_create(deadline)
        if self.state != old:
            return False
        is_done = await self._put(self.condition(), new, deadline)
        await self.read_or_create(deadline)
        return is_done

    async def _put(self, condition: pb.Compare, state: FenceState, deadline: float) -> bool:
        put = pb.PutRequest(key=self._keys.fence, value=state.encode())
        request = pb.TxnRequest(compare=[condition], success=[pb.RequestOp(request_put=put)])
        answer = await self._client.write("KV/Txn", request, pb.TxnResponse, deadline=deadline)
        return bool(answer.succeeded)
