"""The migration fence in etcd: a key that every write and every linearizable read compares.

An etcd cluster that lost its data has no fence, so writes and versions of the earlier content never
match. See ``..migration_fence``.
"""

from collections.abc import Callable

from ...core.protocol.errors import MetadataUnavailableError
from ..migration_fence import FenceState, decode_fence
from . import etcd_pb2 as pb
from .client import EtcdClient
from .keys import EtcdKeys


class EtcdFence:
    """The fence as this process last read it."""

    def __init__(self, client: EtcdClient, keys: EtcdKeys, new_epoch: Callable[[], str]) -> None:
        self._client = client
        self._keys = keys
        self._new_epoch = new_epoch
        self._data = b""
        self.state = FenceState("", "")

    def condition(self) -> pb.Compare:
        """Return the comparison for a transaction."""
        return pb.Compare(
            result=pb.Compare.EQUAL,
            target=pb.Compare.VALUE,
            key=self._keys.fence,
            value=self._data,
        )

    async def read_or_create(self, deadline: float) -> None:
        """Read the fence, or create it in a new store. Raises CorruptionError."""
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

    async def read_stale(self, client: EtcdClient, deadline: float) -> None:
        """Read the fence as one server has it. Raises MetadataUnavailableError if it has none.

        Every linearizable read and every write verifies it later.
        """
        request = pb.RangeRequest(key=self._keys.fence, serializable=True)
        answer = await client.read("KV/Range", request, pb.RangeResponse, deadline=deadline)
        if not answer.kvs:
            raise MetadataUnavailableError("etcd: the server that responded has no fence")
        self._data = answer.kvs[0].value
        self.state = decode_fence(self._data, f"{self._keys.fence!r} in etcd")

    async def refresh(self, deadline: float) -> bool:
        """Read the fence again; True if it has changed. Raises StoreFencedError."""
        before = self.state
        await self.read_or_create(deadline)
        self.state.check_open()
        return self.state != before

    async def pass_through(self, allowed_fence: FenceState | None, deadline: float) -> None:
        """Check before a write that the fence is open, or is exactly ``allowed_fence``."""
        is_open = self.state.successor is None
        if not (is_open if allowed_fence is None else self.state == allowed_fence):
            await self.read_or_create(deadline)
        self.state.check(allowed_fence)

    async def swap(self, old: FenceState, new: FenceState, deadline: float) -> bool:
        """Replace the fence if it is ``old``; False if it is not.

        After the return, no write that began earlier and compared ``old`` can take effect.
        """
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
