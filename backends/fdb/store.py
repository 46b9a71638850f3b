"""``fdb:///cluster.file?dir=a/b``: the contract over FoundationDB 7.3.

The path names the cluster file (``fdb:?dir=a`` takes the machine's default one), ``dir`` the
directory (default ``rhumbline``) in which the store lives. TLS is configured in FoundationDB's own
way, by the cluster file and its environment variables. Sessions are leases (see ``..leases``).
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from ...core.protocol.errors import ClosedError, MetadataError, NoNodeError
from ...core.runtime.metadata_store import (
    Delete,
    Operation,
    Put,
    Session,
    Value,
    Version,
    Watch,
    check_path,
)
from ...core.runtime.tasks import Tasks
from ..leases import Lease, Leases, LeaseSession, Owner
from ..plan import check_data, check_operations, check_target, versions_of
from ..uri import StoreUri
from .client import Bindings, Reads, Transactions
from .commit import Commits, version_of
from .keys import Keys, decode_lease, decode_node, encode_lease
from .watcher import Watcher

T = TypeVar("T")


async def open_fdb(uri: StoreUri, timeout_ms: int) -> "FdbStore":
    """Opens the cluster and the directory. Raises as ``open_store``."""
    from .native import NativeBindings

    names = tuple(uri.only_options(("dir",)).get("dir", "rhumbline").split("/"))
    if uri.authority or "" in names:
        raise uri.wrong("should be fdb:///path/of/cluster.file?dir=name/name")
    bindings = NativeBindings(Path(uri.path) if uri.path else None)
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            prefix = await asyncio.to_thread(bindings.directory, names)
    except TimeoutError:
        raise uri.wrong("names a cluster that does not answer") from None
    store = FdbStore(f"fdb://{uri.path}?dir={'/'.join(names)}", bindings, prefix, timeout_ms)
    await store.start()
    return store


class FdbStore:
    """One process's handle to the cluster."""

    def __init__(self, uri: str, bindings: Bindings, prefix: bytes, timeout_ms: int) -> None:
        self.uri = uri
        self.timeout_ms = timeout_ms
        self._is_closed = False
        self._tasks = Tasks()
        self._keys = Keys(prefix)
        self._transactions = Transactions(bindings)
        self._commits = Commits(self._transactions, self._keys, lambda: os.urandom(16))
        self._watcher = Watcher(self._transactions, self._keys, self._tasks, self._deadline)
        self._leases = Leases(self, lambda: Owner(os.urandom(8).hex()))

    async def start(self) -> None:
        """Makes what a new store needs."""

        async def body(reads: Reads) -> bool:
            epoch, _ = await self._commits.gate(reads)
            if not epoch:
                self._commits.set_gate(reads.transaction, f"f{os.urandom(6).hex()}", None)
            return True

        await self._commits.write(body, self._deadline())
        self._leases.start()

    async def get(self, path: str, *, stale_ok: bool = False) -> Value:
        """The node's value. Raises NoNodeError, MetadataUnavailableError."""
        check_path(path)

        async def body(reads: Reads) -> Value:
            epoch, _ = await self._commits.gate(reads)
            if path == "/":
                return Value(b"", version_of(epoch, b""))
            (data,) = await reads.get([self._keys.node(path)])
            if data is None:
                raise NoNodeError(path)
            node = decode_node(data)
            return Value(node.data, version_of(epoch, node.stamp))

        return await self._read(body)

    async def children(
        self, path: str, *, after: str | None = None, limit: int | None = None
    ) -> list[str]:
        """Names of the direct children in byte order, from behind ``after``, at most ``limit``."""
        check_path(path)

        async def body(reads: Reads) -> list[str]:
            if path != "/" and (await reads.get([self._keys.node(path)]))[0] is None:
                raise NoNodeError(path)
            if limit == 0:
                return []
            pairs = await reads.range(self._keys.children(path, after), limit or 0)
            return [self._keys.child_name(key) for key, _ in pairs]

        return await self._read(body)

    async def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        ephemeral: Session | None = None,
        sequential: bool = False,
    ) -> tuple[str, Version]:
        """Makes a node and returns its path and version."""
        check_target(path)
        check_data(data)
        owner = None if ephemeral is None else self._leases.held(ephemeral).owner
        self._check_open()
        return await self._commits.create(
            path, data, owner, self._deadline(), sequential=sequential
        )

    async def put(self, path: str, data: bytes, *, expect: Version | None = None) -> Version:
        """Replaces a node's data. Raises NoNodeError, BadVersionError, ... as ``create``."""
        check_target(path)
        check_data(data)
        self._check_open()
        return await self._commits.commit([Put(path, data, expect)], self._deadline())

    async def delete(self, path: str, *, expect: Version | None = None) -> None:
        """Removes a node. Raises NoNodeError, BadVersionError, NotEmptyError, ... as ``create``."""
        check_target(path)
        self._check_open()
        await self._commits.commit([Delete(path, expect)], self._deadline())

    async def txn(self, operations: Sequence[Operation]) -> list[Version | None]:
        """All or nothing; the new version for each Create and Put, None for Check and Delete."""
        check_operations(operations)
        self._check_open()
        version = await self._commits.commit(operations, self._deadline())
        return versions_of(operations, version)

    def watch(self, path: str, callback: Callable[[], None], *, prefix: bool = False) -> Watch:
        """Calls back (from the loop) after the node (or one below it) changed."""
        check_path(path)
        self._check_open()
        return self._watcher.watches.add(path, callback, is_prefix=prefix)

    async def session(self, ttl_ms: int) -> LeaseSession:
        """Opens a session that outlives silence of up to ``ttl_ms``."""
        self._check_open()
        return await self._leases.open(ttl_ms)

    async def close(self) -> None:
        """Ends sessions and watches. The bindings' network thread stays with the process."""
        if self._is_closed:
            return
        await self._leases.aclose()
        self._is_closed = True
        self._watcher.watches.close()
        await self._tasks.aclose()
        with suppress(MetadataError):  # then a few small keys stay
            await self._commits.clear_tokens(self._deadline())
        self._transactions.is_closed = True

    # --- what the leases use

    async def add_lease(self, owner: Owner, ttl_ms: int) -> None:
        """Makes the row of a session."""

        async def body(reads: Reads) -> bool:
            await self._commits.open_epoch(reads)
            reads.transaction.set(self._keys.lease(owner), encode_lease(Lease(ttl_ms, 0)))
            return True

        await self._commits.write(body, self._deadline())

    async def beat_lease(self, owner: Owner) -> bool:
        """Raises the counter. False: the row is gone."""
        key = self._keys.lease(owner)

        async def body(reads: Reads) -> tuple[bool]:
            (row,) = await reads.get([key])
            if row is not None:
                lease = decode_lease(row)
                beaten = lease._replace(counter=lease.counter + 1)
                reads.transaction.set(key, encode_lease(beaten))
            return (row is not None,)

        (is_kept,), _ = await self._commits.write(body, self._deadline())
        return is_kept

    async def leases(self) -> dict[Owner, Lease]:
        """All rows."""

        async def body(reads: Reads) -> dict[Owner, Lease]:
            rows = await reads.range(self._keys.leases)
            return {self._keys.lease_owner(key): decode_lease(row) for key, row in rows}

        return await self._read(body)

    async def end_lease(self, owner: Owner, counter: int | None) -> None:
        """Removes row and nodes if the counter is still this one (None: whatever it is)."""
        key = self._keys.lease(owner)

        async def body(reads: Reads) -> bool:
            (row,) = await reads.get([key])
            if row is None or counter not in (None, decode_lease(row).counter):
                return False
            for mark, _ in await reads.range(self._keys.all_owned(owner)):
                self._commits.remove(reads.transaction, self._keys.owned_path(mark), owner)
            reads.transaction.clear(key)
            return True

        await self._commits.write(body, self._deadline())

    async def _read(self, body: Callable[[Reads], Awaitable[T]]) -> T:
        self._check_open()
        return await self._transactions.read(body, self._deadline())

    def _deadline(self) -> float:
        return asyncio.get_running_loop().time() + self.timeout_ms / 1000

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError(f"{self.uri} is closed")
