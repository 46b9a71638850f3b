"""Carries out operations as FoundationDB transactions.

A transaction reads the data that the operations depend on, plans and writes; FoundationDB itself
refuses the commit if something that was read has changed. The version of a node is the versionstamp
of its last write, which is part of its value. Every write also writes a token, by which a commit
with unknown outcome is found instead of being repeated. Later writes remove tokens that are not
needed any more.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from ...core.protocol.errors import IndeterminateError, SessionLostError
from ...core.runtime.metadata_store import Create, Operation, Version, parent_of
from ..leases import Owner
from ..migration_fence import FenceState, decode_fence
from ..snapshot import Snapshot, footprint, with_ancestors
from ..transaction_plan import SEQUENCE_DIGITS, Change, Node, TransactionPlan
from .client import FdbTransaction, Reads, Transactions
from .keys import ENDING, FdbKeys, decode_lease, decode_node, encode_node, encode_stamp

T = TypeVar("T")

SPENT_TOKENS_MAX = 16
"""Number of old tokens that one write removes."""


class FdbCommits:
    """Carries out the operations of one store as transactions."""

    def __init__(
        self, transactions: Transactions, keys: FdbKeys, new_token: Callable[[], bytes]
    ) -> None:
        self._transactions = transactions
        self._keys = keys
        self._new_token = new_token
        self._spent: list[bytes] = []

    async def commit(
        self,
        operations: Sequence[Operation],
        deadline: float,
        allowed_fence: FenceState | None = None,
        sequences: Mapping[str, int] | None = None,
    ) -> Version:
        """Carry out all operations or none; return the version of everything written.

        ``allowed_fence`` and ``sequences`` are those of ``MovableStore.load``.
        """

        async def body(reads: Reads) -> str:
            fence = await self.fence(reads)
            fence.check(allowed_fence)
            plan = TransactionPlan(await self._snapshot(reads, operations, fence.epoch))
            for operation in operations:
                plan.apply(operation)
            self._apply(reads.transaction, plan)
            for parent, number in (sequences or {}).items():
                await self._raise_sequence(reads, parent, number)
            return fence.epoch

        epoch, stamp = await self.write(body, deadline)
        return version_of(epoch, stamp)

    async def create(
        self, path: str, data: bytes, owner: Owner | None, deadline: float, *, sequential: bool
    ) -> tuple[str, Version]:
        """Create one node; return its path and version.

        Raises SessionLostError if the owner's lease has ended, and as ``commit``.
        """

        async def body(reads: Reads) -> tuple[str, str]:
            epoch = await self.open_epoch(reads)
            if owner is not None:
                await self._check_lease(reads, owner)
            target = path
            if sequential:
                target = await self._next_sequential_path(reads, path)
            plan = TransactionPlan(await self._snapshot(reads, [Create(target)], epoch))
            plan.create(target, data, owner)
            self._apply(reads.transaction, plan)
            return epoch, target

        (epoch, created), stamp = await self.write(body, deadline)
        return created, version_of(epoch, stamp)

    async def write(
        self, body: Callable[[Reads], Awaitable[T]], deadline: float
    ) -> tuple[T, bytes]:
        """Run and commit ``body`` exactly once, even if single commits have unknown outcomes."""
        token = self._keys.token(self._new_token())
        spent = self._spent[:SPENT_TOKENS_MAX]

        async def with_token(reads: Reads) -> T:
            result = await body(reads)
            reads.transaction.set_versionstamped_value(token, encode_stamp())
            for old in spent:
                reads.transaction.clear(old)
            return result

        async def find_committed(reads: Reads) -> bytes | None:
            (stamp,) = await reads.get([token])
            return stamp

        try:
            written = await self._transactions.write(with_token, find_committed, deadline)
        except IndeterminateError:
            self._spent.append(token)  # it may have been written
            raise
        self._spent = [old for old in self._spent if old not in spent]
        self._spent.append(token)
        return written

    async def clear_tokens(self, deadline: float) -> None:
        """Remove the remaining tokens, before the store closes."""
        while self._spent:
            spent = self._spent[:SPENT_TOKENS_MAX]

            async def body(reads: Reads, spent: list[bytes] = spent) -> None:
                for old in spent:
                    reads.transaction.clear(old)

            async def unknown(_: Reads) -> bytes | None:
                return None  # clearing is idempotent

            await self._transactions.write(body, unknown, deadline)
            self._spent = self._spent[len(spent) :]

    async def open_epoch(self, reads: Reads) -> str:
        """Return the store's epoch. Raises StoreFencedError if the store was replaced."""
        fence = await self.fence(reads)
        fence.check_open()
        return fence.epoch

    async def fence(self, reads: Reads) -> FenceState:
        """Return the migration fence; its epoch is "" if the store is new."""
        (data,) = await reads.get([self._keys.fence])
        if data is None:
            return FenceState("", "")
        return decode_fence(data, "the migration fence in FoundationDB")

    def set_fence(self, transaction: FdbTransaction, state: FenceState) -> None:
        """Write the fence, which every write transaction reads."""
        transaction.set(self._keys.fence, state.encode())

    def remove(self, transaction: FdbTransaction, path: str, owner: str | None) -> None:
        """Remove a node with its sequence counter, ownership mark and watch signal."""
        transaction.clear(self._keys.node(path))
        transaction.clear(self._keys.counter(path))
        if owner is not None:
            transaction.clear(self._keys.owned(owner, path))
        self._signal(transaction, path)
        transaction.clear(self._keys.signal(path))

    async def _check_lease(self, reads: Reads, owner: Owner) -> None:
        (row,) = await reads.get([self._keys.lease(owner)])
        if row is None or decode_lease(row).counter == ENDING:
            raise SessionLostError(f"session {owner} has ended")

    async def _raise_sequence(self, reads: Reads, parent: str, number: int) -> None:
        key = self._keys.counter(parent)
        (data,) = await reads.get([key])
        if data is None or int(data) < number:
            reads.transaction.set(key, b"%d" % number)

    async def _next_sequential_path(self, reads: Reads, path: str) -> str:
        key = self._keys.counter(parent_of(path))
        (data,) = await reads.get([key])
        number = int(data) if data is not None else 0
        reads.transaction.set(key, b"%d" % (number + 1))
        return f"{path}{number:0{SEQUENCE_DIGITS}d}"

    async def _snapshot(
        self, reads: Reads, operations: Sequence[Operation], epoch: str
    ) -> Snapshot:
        required = footprint(operations)
        values = await reads.get([self._keys.node(path) for path in required.paths])
        nodes: dict[str, Node | None] = {}
        for path, value in zip(required.paths, values, strict=True):
            nodes[path] = None
            if value is not None:
                stored = decode_node(value)
                version = version_of(epoch, stored.stamp)
                nodes[path] = Node(stored.data, version, stored.owner)
        names = {}
        for path, limit in required.listings.items():
            pairs = await reads.range(self._keys.children(path), limit)
            names[path] = [self._keys.child_name(key) for key, _ in pairs]
        return Snapshot(Node(b"", version_of(epoch, b"")), nodes, names)

    def _apply(self, transaction: FdbTransaction, plan: TransactionPlan) -> None:
        for path, change in plan.changes.items():
            node_before = plan.node_before(path)
            previous_owner = node_before.owner if node_before is not None else None
            if change.data is None:
                self.remove(transaction, path, previous_owner)
            else:
                self._put(transaction, path, change, change.data, previous_owner)

    def _put(
        self,
        transaction: FdbTransaction,
        path: str,
        change: Change,
        data: bytes,
        previous_owner: str | None,
    ) -> None:
        value = encode_node(change.owner, data)
        transaction.set_versionstamped_value(self._keys.node(path), value)
        if previous_owner is not None and previous_owner != change.owner:
            transaction.clear(self._keys.owned(previous_owner, path))
        if change.owner is not None:
            transaction.set(self._keys.owned(change.owner, path), b"")
        self._signal(transaction, path)

    def _signal(self, transaction: FdbTransaction, path: str) -> None:
        """Write the signals for prefix watches; blind writes never conflict."""
        for ancestor in ("/", *with_ancestors(path)):
            transaction.set_versionstamped_value(self._keys.signal(ancestor), encode_stamp())


def version_of(epoch: str, stamp: bytes) -> Version:
    """Return the version of a node with the versionstamp ``stamp``."""
    return Version(f"{epoch}.{stamp.hex()}")
