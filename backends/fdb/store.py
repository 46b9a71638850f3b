"""The metadata store ``fdb:///cluster.file?dir=a/b`` in FoundationDB 7.3.

The path names the cluster file (``fdb:?dir=a`` uses the machine's default file); ``dir`` is the
FoundationDB directory of the store (default ``rhumbline``). Sessions are leases (see ``..leases``).

The store does not use tenants; the cluster must not have ``tenant_mode=required``.

TLS is configured in FoundationDB's own way: ``:tls`` after the coordinators' addresses in the
cluster file, and FDB_TLS_CA_FILE, FDB_TLS_CERTIFICATE_FILE, FDB_TLS_KEY_FILE, FDB_TLS_PASSWORD and
FDB_TLS_VERIFY_PEERS in the environment of every process.

Commits write tokens (see ``.commit``) instead of using FoundationDB's automatic idempotency, which
is experimental in 7.3 and leaves the outcome of a time-out unknown as well.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from ...core.protocol.errors import MetadataError, NoNodeError
from ...core.runtime.metadata_store import (
    Operation,
    Session,
    Value,
    Version,
)
from ..leases import Lease, Leases, LeaseSession, Owner
from ..migration_fence import FenceState
from ..store_base import StoreBase
from ..transaction_plan import Node, versions_of
from ..uri import StoreUri
from .client import Bindings, Reads, Transactions
from .commit import FdbCommits, version_of
from .keys import ENDING, FdbKeyRange, FdbKeys, decode_lease, decode_node, encode_lease
from .watcher import FdbWatcher

T = TypeVar("T")

PAGE_NODES_MAX = 100
"""Number of nodes that a full scan reads in one transaction.

They have at most 10 MB, which takes much less than the five seconds of a transaction.
"""

END_BATCH_NODES_MAX = 100
"""Number of a session's nodes that are removed in one transaction.

A node with the longest path needs 30 kB with all its keys; 100 nodes use 3 of the 10 MB that a
transaction may have.
"""


async def open_fdb(uri: StoreUri, timeout_ms: int) -> "FdbStore":
    """Open the cluster and the directory. Raises as ``open_store``."""
    from .native import NativeBindings

    names = tuple(uri.check_options(("dir",)).get("dir", "rhumbline").split("/"))
    if uri.authority or "" in names:
        raise uri.error("is not of the form fdb:///path/of/cluster.file?dir=name/name")
    bindings = NativeBindings(Path(uri.path) if uri.path else None)
    prefix = await asyncio.to_thread(bindings.directory, names, timeout_ms)
    store = FdbStore(f"fdb://{uri.path}?dir={'/'.join(names)}", bindings, prefix, timeout_ms)
    try:
        await store.start()
    except BaseException:
        await store.close()
        raise
    return store


class FdbStore(StoreBase):
    """A handle to the cluster, for one process."""

    def __init__(self, uri: str, bindings: Bindings, prefix: bytes, timeout_ms: int) -> None:
        super().__init__(uri, timeout_ms)
        self._keys = FdbKeys(prefix)
        self._transactions = Transactions(bindings)
        self._commits = FdbCommits(self._transactions, self._keys, lambda: os.urandom(16))
        watcher = FdbWatcher(self._transactions, self._keys, self._tasks, self._deadline)
        self._watches = watcher.watches
        self._leases = Leases(self, lambda: Owner(os.urandom(8).hex()))

    async def start(self) -> None:
        """Initialise a new store, and start observing leases."""

        async def body(reads: Reads) -> bool:
            if not (await self._commits.fence(reads)).epoch:
                epoch = f"f{os.urandom(6).hex()}"
                self._commits.set_fence(reads.transaction, FenceState(epoch, tree=epoch))
            return True

        await self._commits.write(body, self._deadline())
        self._leases.start()

    async def _get(self, path: str, *, stale_ok: bool) -> Value:
        async def body(reads: Reads) -> Value:
            fence = await self._commits.fence(reads)
            if not stale_ok:
                fence.check_open()
            if path == "/":
                return Value(b"", version_of(fence.epoch, b""))
            (data,) = await reads.get([self._keys.node(path)])
            if data is None:
                raise NoNodeError(path)
            node = decode_node(data)
            return Value(node.data, version_of(fence.epoch, node.stamp))

        return await self._read(body)

    async def _children(self, path: str, after: str | None, limit: int | None) -> list[str]:
        async def body(reads: Reads) -> list[str]:
            await self._commits.open_epoch(reads)
            if path != "/" and (await reads.get([self._keys.node(path)]))[0] is None:
                raise NoNodeError(path)
            if limit == 0:
                return []
            pairs = await reads.range(self._keys.children(path, after), limit or 0)
            return [self._keys.child_name(key) for key, _ in pairs]

        return await self._read(body)

    async def _create(
        self, path: str, data: bytes, ephemeral: Session | None, *, sequential: bool
    ) -> tuple[str, Version]:
        owner = None if ephemeral is None else self._leases.own_session(ephemeral).owner
        return await self._commits.create(
            path, data, owner, self._deadline(), sequential=sequential
        )

    async def _transact(self, operations: Sequence[Operation]) -> list[Version | None]:
        return versions_of(operations, await self._commits.commit(operations, self._deadline()))

    async def session(self, ttl_ms: int) -> LeaseSession:
        """Open a session that survives up to ``ttl_ms`` without contact."""
        self._check_open()
        return await self._leases.open(ttl_ms)

    async def _end_leases(self) -> None:
        await self._leases.aclose()

    async def _disconnect(self) -> None:
        """Remove the tokens of commits. The network thread of the bindings keeps running."""
        with suppress(MetadataError):  # a few small keys remain then
            await self._commits.clear_tokens(self._deadline())
        self._transactions.is_closed = True

    # --- lease rows (``LeaseRows``)

    async def add_lease(self, owner: Owner, ttl_ms: int) -> None:
        """Create the lease of a session."""

        async def body(reads: Reads) -> bool:
            await self._commits.open_epoch(reads)
            reads.transaction.set(self._keys.lease(owner), encode_lease(Lease(ttl_ms, 0)))
            return True

        await self._commits.write(body, self._deadline())

    async def renew_lease(self, owner: Owner) -> bool:
        """Increment the counter; False if the lease no longer exists."""
        key = self._keys.lease(owner)

        async def body(reads: Reads) -> tuple[bool]:
            (row,) = await reads.get([key])
            if row is not None:
                lease = decode_lease(row)
                if lease.counter == ENDING:
                    return (False,)
                renewed = lease._replace(counter=lease.counter + 1)
                reads.transaction.set(key, encode_lease(renewed))
            return (row is not None,)

        (is_alive,), _ = await self._commits.write(body, self._deadline())
        return is_alive

    async def leases(self) -> dict[Owner, Lease]:
        """Return all leases."""

        async def body(reads: Reads) -> dict[Owner, Lease]:
            rows = await reads.range(self._keys.leases)
            return {self._keys.lease_owner(key): decode_lease(row) for key, row in rows}

        return await self._read(body)

    async def end_lease(self, owner: Owner, counter: int | None) -> None:
        """Remove the lease and its nodes if the counter is still ``counter`` (None: any).

        An owner with more nodes than one transaction may remove is marked as ending: it can neither
        renew its lease nor create nodes. The row is removed with its last nodes; after a crash,
        observers find the lease expired as usual and continue the removal.
        """
        while not await self._end_batch(owner, counter):
            counter = ENDING

    async def _end_batch(self, owner: Owner, counter: int | None) -> bool:
        """Remove a batch of nodes; return True if nothing is left or the counter has changed."""
        key = self._keys.lease(owner)

        async def body(reads: Reads) -> tuple[bool]:
            (row,) = await reads.get([key])
            if row is None or counter not in (None, (lease := decode_lease(row)).counter):
                return (True,)
            marks = await reads.range(self._keys.all_owned(owner), END_BATCH_NODES_MAX)
            for mark, _ in marks:
                self._commits.remove(reads.transaction, self._keys.owned_path(mark), owner)
            if len(marks) < END_BATCH_NODES_MAX:
                reads.transaction.clear(key)
                return (True,)
            reads.transaction.set(key, encode_lease(lease._replace(counter=ENDING)))
            return (False,)

        (is_done,), _ = await self._commits.write(body, self._deadline())
        return is_done

    # --- migration (``MovableStore``)

    async def _read_fence(self) -> FenceState:
        return await self._read(self._commits.fence)

    async def _swap_fence(self, old: FenceState, new: FenceState) -> bool:
        async def body(reads: Reads) -> tuple[bool]:
            is_old = await self._commits.fence(reads) == old
            if is_old:
                self._commits.set_fence(reads.transaction, new)
            return (is_old,)

        (is_done,), _ = await self._commits.write(body, self._deadline())
        return is_done

    async def scan(self) -> AsyncIterator[list[tuple[str, Node]]]:
        """Yield all nodes including the root, in pages of ``PAGE_NODES_MAX``."""
        numbers = {}
        async for _, pairs in self._pages(self._keys.counters()):
            numbers.update({self._keys.counter_parent(key): int(value) for key, value in pairs})
        fence = await self.fence_state()
        yield [("/", Node(b"", version_of(fence.epoch, b""), None, numbers.get("/", 0)))]
        async for epoch, pairs in self._pages(self._keys.nodes()):
            nodes = []
            for key, value in pairs:
                path, (stamp, owner, data) = self._keys.path(key), decode_node(value)
                node = Node(data, version_of(epoch, stamp), owner, numbers.get(path, 0))
                nodes.append((path, node))
            yield nodes

    async def _load(
        self, operations: Sequence[Operation], sequences: Mapping[str, int], fence: FenceState
    ) -> None:
        await self._commits.commit(operations, self._deadline(), fence, sequences)

    async def _pages(
        self, keys: FdbKeyRange
    ) -> AsyncIterator[tuple[str, list[tuple[bytes, bytes]]]]:
        start = keys.start
        while True:

            async def body(
                reads: Reads, start: bytes = start
            ) -> tuple[str, list[tuple[bytes, bytes]]]:
                fence = await self._commits.fence(reads)
                return fence.epoch, await reads.range(FdbKeyRange(start, keys.end), PAGE_NODES_MAX)

            epoch, pairs = await self._read(body)
            if not pairs:
                return
            yield epoch, pairs
            start = pairs[-1][0] + b"\x00"

    async def _read(self, body: Callable[[Reads], Awaitable[T]]) -> T:
        self._check_open()
        return await self._transactions.read(body, self._deadline())
