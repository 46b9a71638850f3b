"""Carries out operations as etcd transactions: read a snapshot, plan, write if it is unchanged.

The write compares everything that the plan has read: a node by its creation revision (or by its
last change, where a version is expected), a missing node by its absence, and the children of a
deleted node by the emptiness of the key ranges between children deleted with it. If a comparison
fails, the transaction starts again with a new snapshot.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ...core.protocol.errors import (
    LimitExceededError,
    MetadataError,
    MetadataUnavailableError,
    NodeExistsError,
)
from ...core.runtime.metadata_store import Check, Create, Delete, Operation, Put, Version, parent_of
from ..migration_fence import FenceState
from ..snapshot import Footprint, Snapshot, footprint
from ..transaction_plan import SEQUENCE_DIGITS, Change, Node, TransactionPlan
from . import etcd_pb2 as pb
from .client import CompactedError, EtcdClient
from .keys import EtcdKeys
from .migration_fence import EtcdFence

TXN_PARTS_MAX = 128
"""etcd's default of --max-txn-ops; the limit of comparisons and of operations, each."""


class CreateOptions(NamedTuple):
    """The options of a single creation: a lease (0: none), and a sequence number in the name."""

    lease: int = 0
    sequential: bool = False


class _Counter(NamedTuple):
    """A parent's sequence counter; ``revision`` of its last change, or 0 if it does not exist."""

    key: bytes
    number: int
    revision: int


@dataclass(frozen=True, slots=True)
class _Read:
    """A snapshot, and the creation revision of each node in it (0 if it does not exist)."""

    snapshot: Snapshot
    creations: dict[str, int]


class EtcdCommits:
    """Carries out the operations of one store as transactions."""

    def __init__(self, client: EtcdClient, keys: EtcdKeys, fence: EtcdFence) -> None:
        self._client = client
        self._keys = keys
        self._fence = fence

    async def commit(
        self,
        operations: Sequence[Operation],
        deadline: float,
        allowed_fence: FenceState | None = None,
        sequences: Mapping[str, int] | None = None,
    ) -> Version:
        """Carry out all operations or none; return the version of everything written.

        ``allowed_fence`` and ``sequences`` are those of ``MovableStore.load``. Raises the error of
        the first operation whose condition fails, and as ``EtcdClient.write``.
        """

        def planned(read: _Read) -> TransactionPlan:
            plan = TransactionPlan(read.snapshot)
            for operation in operations:
                plan.apply(operation)
            return plan

        while True:
            request = await self._request(operations, planned, deadline, allowed_fence)
            for parent, number in (sequences or {}).items():
                counter = await self._counter(parent, deadline)
                if counter.number < number:
                    self._set_counter(request, counter, number)
            version = await self._write(request, deadline, allowed_fence)
            if version is not None:
                return version

    async def create(
        self, path: str, data: bytes, options: CreateOptions, deadline: float
    ) -> tuple[str, Version]:
        """Create one node; return its path, with any sequence number, and version.

        Raises as ``commit``.
        """
        owner = str(options.lease) if options.lease else None
        while True:
            counter = None
            target = path
            if options.sequential:
                counter = await self._counter(parent_of(path), deadline)
                target = f"{path}{counter.number:0{SEQUENCE_DIGITS}d}"

            def planned(read: _Read, target: str = target) -> TransactionPlan:
                plan = TransactionPlan(read.snapshot)
                plan.create(target, data, owner)
                return plan

            try:
                request = await self._request([Create(target)], planned, deadline)
            except NodeExistsError:
                if counter is None or counter == await self._counter(parent_of(path), deadline):
                    raise
                continue  # the number was used since the counter was read
            if counter is not None:
                self._set_counter(request, counter, counter.number + 1)
            version = await self._write(request, deadline)
            if version is not None:
                return target, version

    async def _write(
        self, request: pb.TxnRequest, deadline: float, allowed_fence: FenceState | None = None
    ) -> Version | None:
        """Return the new version, or None if something that was read has changed."""
        if max(len(request.success), len(request.compare)) > TXN_PARTS_MAX:
            raise LimitExceededError(
                f"a transaction that needs {len(request.success)} etcd operations and "
                f"{len(request.compare)} comparisons is above the limit of {TXN_PARTS_MAX} each"
            )
        answer = await self._client.write("KV/Txn", request, pb.TxnResponse, deadline=deadline)
        if answer.succeeded:
            return self.version(answer.header.revision)
        await self._fence.read_or_create(deadline)
        self._fence.state.check(allowed_fence)
        if asyncio.get_running_loop().time() >= deadline:
            raise MetadataUnavailableError(
                "etcd: other writers kept changing the same nodes until the deadline"
            )
        return None

    async def _request(
        self,
        operations: Sequence[Operation],
        planned: Callable[[_Read], TransactionPlan],
        deadline: float,
        allowed_fence: FenceState | None = None,
    ) -> pb.TxnRequest:
        while True:
            await self._fence.pass_through(allowed_fence, deadline)
            condition = self._fence.condition()
            try:
                read = await self._read(footprint(operations), deadline)
            except CompactedError:
                continue
            try:
                plan = planned(read)
            except MetadataError:
                if allowed_fence is None and await self._fence.refresh(deadline):
                    continue  # the nodes may have been read from a closed store
                raise
            compare = [condition, *self._unchanged(read, operations)]
            parts: list[pb.RequestOp] = []
            for path, change in plan.changes.items():
                if change.data is None:
                    compare += self._childless(path, plan, read.snapshot)
                parts += self._writes_of(path, change)
            return pb.TxnRequest(compare=compare, success=parts)

    def version(self, revision: int) -> Version:
        """Return the version of a node that was last changed at a revision."""
        return Version(f"{self._fence.state.epoch}.{revision}")

    async def _read(self, required: Footprint, deadline: float) -> _Read:
        """Read everything that the operations depend on, at one revision."""
        requests = [pb.RangeRequest(key=self._keys.node(path)) for path in required.paths]
        for path, limit in required.listings.items():
            start, end = self._keys.children(path)
            requests.append(pb.RangeRequest(key=start, range_end=end, limit=limit, keys_only=True))
        answers = await self._ranges(requests, deadline)
        nodes: dict[str, Node | None] = {}
        creations: dict[str, int] = {}
        for path, answer in zip(required.paths, answers, strict=False):
            creations[path] = answer.kvs[0].create_revision if answer.kvs else 0
            nodes[path] = self.node(answer.kvs[0]) if answer.kvs else None
        names = {
            path: [self._keys.child_name(kv.key) for kv in answer.kvs]
            for path, answer in zip(required.listings, answers[len(required.paths) :], strict=True)
        }
        return _Read(Snapshot(Node(b"", self.version(0)), nodes, names), creations)

    def node(self, kv: pb.KeyValue, sequence: int = 0) -> Node:
        """Return the node of a key-value pair."""
        return Node(
            kv.value, self.version(kv.mod_revision), str(kv.lease) if kv.lease else None, sequence
        )

    async def _counter(self, parent: str, deadline: float) -> _Counter:
        key = self._keys.sequence(parent)
        answer = await self._client.read(
            "KV/Range", pb.RangeRequest(key=key), pb.RangeResponse, deadline=deadline
        )
        if not answer.kvs:
            return _Counter(key, 0, 0)
        return _Counter(key, int(answer.kvs[0].value), answer.kvs[0].mod_revision)

    def _set_counter(self, request: pb.TxnRequest, counter: _Counter, number: int) -> None:
        """Add a write of the counter to the transaction, if the counter is unchanged."""
        request.compare.append(
            pb.Compare(target=pb.Compare.MOD, key=counter.key, mod_revision=counter.revision)
        )
        put = pb.PutRequest(key=counter.key, value=b"%d" % number)
        request.success.append(pb.RequestOp(request_put=put))

    async def _ranges(
        self, requests: list[pb.RangeRequest], deadline: float
    ) -> list[pb.RangeResponse]:
        answers: list[pb.RangeResponse] = []
        revision = 0
        for start in range(0, len(requests), TXN_PARTS_MAX):
            batch = requests[start : start + TXN_PARTS_MAX]
            for request in batch:
                request.revision = revision
            txn = pb.TxnRequest(success=[pb.RequestOp(request_range=request) for request in batch])
            answer = await self._client.read("KV/Txn", txn, pb.TxnResponse, deadline=deadline)
            revision = revision or answer.header.revision
            answers += [response.response_range for response in answer.responses]
        return answers

    def _unchanged(self, read: _Read, operations: Sequence[Operation]) -> list[pb.Compare]:
        """Return the comparisons that all nodes which were read are unchanged or still missing."""
        exact = {operation.path for operation in operations if _expects(operation)}
        compare = []
        for path, revision in read.creations.items():
            key, node = self._keys.node(path), read.snapshot.node(path)
            if node is not None and path in exact:
                mod = int(node.version.rpartition(".")[2])
                compare.append(pb.Compare(target=pb.Compare.MOD, key=key, mod_revision=mod))
            else:
                compare.append(
                    pb.Compare(target=pb.Compare.CREATE, key=key, create_revision=revision)
                )
        return compare

    def _writes_of(self, path: str, change: Change) -> list[pb.RequestOp]:
        key = self._keys.node(path)
        if change.data is None:
            keys = (key, self._keys.sequence(path))
            return [
                pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=key)) for key in keys
            ]
        put = pb.PutRequest(key=key, value=change.data, lease=int(change.owner or 0))
        return [pb.RequestOp(request_put=put)]

    def _childless(self, path: str, plan: TransactionPlan, snapshot: Snapshot) -> list[pb.Compare]:
        """Return comparisons that fail if a node has children that are not deleted with it."""
        start, end = self._keys.children(path)
        bounds = [start]
        for name in snapshot.names.get(path, ()):
            child = f"{path}/{name}"
            assert plan.changes[child].data is None, "the plan deletes a parent with children"
            bounds += [self._keys.node(child), self._keys.node(child) + b"\x00"]
        bounds.append(end)
        return [
            pb.Compare(target=pb.Compare.CREATE, key=low, range_end=high, create_revision=0)
            for low, high in zip(bounds[::2], bounds[1::2], strict=True)
            if low < high
        ]


def _expects(operation: Operation) -> bool:
    match operation:
        case Check(version=expect) | Put(expect=expect) | Delete(expect=expect):
            return expect is not None
    return False
