"""The key that every write transaction compares: the store's epoch, and whether it was replaced.

An etcd that lost its data has no gate, so writes and versions of the old life never match the new.
"""

import json
from collections.abc import Callable

from ...core.protocol.errors import CorruptionError, StoreFencedError
from . import etcd_pb2 as pb
from .client import EtcdClient
from .keys import Keys


class Gate:
    """The gate as this process last saw it."""

    def __init__(self, client: EtcdClient, keys: Keys, new_epoch: Callable[[], str]) -> None:
        self._client = client
        self._keys = keys
        self._new_epoch = new_epoch
        self._data = b""
        self.epoch = ""
        self.successor: str | None = None

    def condition(self) -> pb.Compare:
        """What a write transaction compares."""
        return pb.Compare(
            result=pb.Compare.EQUAL,
            target=pb.Compare.VALUE,
            key=self._keys.gate,
            value=self._data,
        )

    async def enter(self, deadline: float) -> None:
        """Reads the gate, and makes it in a new store. Raises CorruptionError."""
        request = pb.RangeRequest(key=self._keys.gate)
        while True:
            answer = await self._client.read(
                "KV/Range", request, pb.RangeResponse, deadline=deadline
            )
            if answer.kvs:
                self._take(answer.kvs[0].value)
                return
            absent = pb.Compare(target=pb.Compare.CREATE, key=self._keys.gate, create_revision=0)
            await self._swap(absent, {"epoch": self._new_epoch(), "successor": None}, deadline)

    async def check_open(self, deadline: float) -> None:
        """Looks again, after a write failed. Raises StoreFencedError if the store was replaced."""
        await self.enter(deadline)
        if self.successor is not None:
            raise StoreFencedError(f"writes go to {self.successor}")

    async def fence(self, successor: str | None, deadline: float) -> None:
        """Closes the store for writes in favour of ``successor``, or with None opens it again.

        When it returns, no write that began before can happen any more. Safe to repeat.
        """
        await self.enter(deadline)
        while self.successor != successor:
            state = {"epoch": self.epoch, "successor": successor}
            await self._swap(self.condition(), state, deadline)
            await self.enter(deadline)

    async def _swap(self, condition: pb.Compare, state: object, deadline: float) -> None:
        put = pb.PutRequest(key=self._keys.gate, value=json.dumps(state).encode())
        request = pb.TxnRequest(compare=[condition], success=[pb.RequestOp(request_put=put)])
        await self._client.write("KV/Txn", request, pb.TxnResponse, deadline=deadline)

    def _take(self, data: bytes) -> None:
        try:
            state = json.loads(data)
            self.epoch, self.successor = str(state["epoch"]), state.get("successor")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptionError(f"{self._keys.gate!r} in etcd is not ours: {error}") from error
        self._data = data
