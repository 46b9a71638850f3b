"""The metadata store ``fdb:///cluster.file?dir=a/b`` in FoundationDB 7.3.

The path names the cluster file (``fdb:?dir=a`` uses the machine's default file); ``dir`` is the
FoundationDB directory of the store (default ``rhumbline``). Sessions are leases (see ``..leases``).

The store does not use tenants; the cluster must not have ``tenant_mode=required``.

TLS needs ``:tls`` after the addresses in the cluster file, and a certificate of each process:
``tls_ca``, ``tls_cert`` and ``tls_key`` (PEM files). A process has one network of FoundationDB and
therefore one set of these files. Without the options, FoundationDB reads FDB_TLS_CA_FILE,
FDB_TLS_CERTIFICATE_FILE and FDB_TLS_KEY_FILE from the environment; FDB_TLS_PASSWORD and
FDB_TLS_VERIFY_PEERS hold in both cases.

Commits write tokens (see ``.commit``) instead of using FoundationDB's automatic idempotency, which
is experimental in 7.3 and leaves the outcome of a timeout unknown as well.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from ...core.protocol.errors import MetadataError, NoNodeError
from ...core.runtime.event_log import EventLog
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
from .bindings import Bindings
from .client import Transactions
from .commit import FdbCommits
from .keys import (
    ENDING,
    FdbKeyRange,
    FdbKeys,
    decode_lease,
    decode_node,
    encode_lease,
    key_after,
)
from .mutations import Mutations
from .reads import Reads
from .requests import fence_of, remove_node, version_of
from .watcher import FdbWatcher

T = TypeVar("T")

_LOG = EventLog(__name__)

_OPTIONS = ("dir", "tls_ca", "tls_cert", "tls_key")

DIRECTORY_NAME_BYTES_MAX = 1_000
"""Size of each name in ``dir``, which become parts of keys (at most 10,000 bytes)."""

PAGE_NODES_MAX = 100
"""Number of nodes that a full scan reads in one transaction.

They have at most 10 MB, which takes much less than the five seconds of a transaction.
"""

LISTING_S = 2.0
"""Time after which a listing of children continues in another transaction.

FoundationDB ends a transaction after five seconds.
"""

END_BATCH_NODES_MAX = 100
"""Number of a session's nodes that are removed in one transaction.

A node with the longest path needs 30 kB with all its keys, and the signals of ancestors are written
once for all nodes; 100 nodes use 3 of the 10 MB that a transaction may have.
"""


async def open_fdb(uri: StoreUri, timeout_ms: int) -> "FdbStore":
    """Open the cluster and the directory. Raises as ``open_store``."""
    from .native import NativeBindings, TlsFiles

    options = uri.check_options(_OPTIONS)
    names = tuple(options.get("dir", "rhumbline").split("/"))
    if uri.authority or "" in names:
        raise uri.error("is not of the form fdb:///path/of/cluster.file?dir=name/name")
    if max(len(name.encode()) for name in names) > DIRECTORY_NAME_BYTES_MAX:
        raise uri.error(f"has a dir with a name above {DIRECTORY_NAME_BYTES_MAX} bytes")
    tls = TlsFiles(*[await _readable(uri, options, name) for name in _OPTIONS[1:]])
    if (tls.cert is None) != (tls.key is None):
        raise uri.error("has only one of tls_cert and tls_key")
    bindings = NativeBindings(Path(uri.path) if uri.path else None, tls)
    find_prefix = partial(asyncio.to_thread, bindings.directory, names, timeout_ms)
    store = FdbStore(f"fdb://{uri.path}?dir={'/'.join(names)}", bindings, find_prefix, timeout_ms)
    try:
        await store.start()
    except BaseException:
        await store.close()
        raise
    return store


async def _readable(uri: StoreUri, options: Mapping[str, str], name: str) -> Path | None:
    """Return the file that an option names. Raises ConfigurationError if it cannot be read.

    FoundationDB itself would report a timeout.
    """
    if name not in options:
        return None
    try:
        return await asyncio.to_thread(_checked, Path(options[name]))
    except OSError as error:
        raise uri.error(f"has a {name} that cannot be read: {error}") from error


def _checked(file: Path) -> Path:
    """Return the absolute path of a file. Raises OSError if it cannot be read."""
    file.read_bytes()
    return file.absolute()


class _Listing(NamedTuple):
    """Names of children; ``is_last`` is False if there may be more."""

    names: list[str]
    is_last: bool


class FdbStore(StoreBase):
    """A handle to the cluster, for one process.

    ``find_prefix`` returns the prefix of the store's directory, which it creates if needed.
    """

    def __init__(
        self,
        uri: str,
        bindings: Bindings,
        find_prefix: Callable[[], Awaitable[bytes]],
        timeout_ms: int,
    ) -> None:
        super().__init__(uri, timeout_ms)
        self._find_prefix = find_prefix
        self._keys = FdbKeys(b"")
        self._transactions = Transactions(bindings)
        self._commits = FdbCommits(
            self._transactions, self._keys, lambda: os.urandom(16), self._tasks
        )
        self._watcher = FdbWatcher(self._transactions, self._keys, self._tasks, self._deadline)
        self._watches = self._watcher.watches
        self._leases = Leases(self, lambda: Owner(os.urandom(8).hex()))

    async def start(self) -> None:
        """Initialise a new store, and start observing leases."""
        await self._initialise()
        self._leases.start()

    async def _initialise(self) -> None:
        """Use the store's directory, and write a fence if there is none."""
        self._keys.use_prefix(await self._find_prefix())

        async def body(reads: Reads) -> bool:
            if (await reads.get([self._keys.fence]))[0] is None:
                epoch = f"f{os.urandom(6).hex()}"
                self._commits.set_fence(reads.transaction, FenceState(epoch, tree=epoch))
            return True

        await self._commits.write(body, self._deadline())

    async def _get(self, path: str, *, stale_ok: bool) -> Value:
        (value,) = await self._get_all([path], stale_ok=stale_ok)
        if value is None:
            raise NoNodeError(path)
        return value

    async def _get_all(self, paths: Sequence[str], *, stale_ok: bool) -> list[Value | None]:
        """Read all nodes and the fence in one transaction, linearizable even with ``stale_ok``."""
        keyed = [path for path in paths if path != "/"]
        keys = [self._keys.fence, *map(self._keys.node, keyed)]

        async def body(reads: Reads) -> list[Value | None]:
            row, *nodes = await reads.get(keys)
            fence = fence_of(row)
            if not stale_ok:
                fence.check_open()
            found = dict(zip(keyed, nodes, strict=True))
            root = Value(b"", version_of(fence.epoch, b""))
            return [root if path == "/" else _value(found[path], fence.epoch) for path in paths]

        return await self._read(body)

    def _order(self, order: str) -> tuple[int, ...]:
        return (int(order or "0", 16),)  # a versionstamp

    async def _children(
        self, path: str, after: str | None, limit: int | None, *, stale_ok: bool
    ) -> list[str]:
        """Return names of children, read in one transaction if that takes less than ``LISTING_S``.

        A longer listing continues in further transactions. Each child that exists all the time is
        then listed, each name once, but changes that were made meanwhile may be seen in part.
        """
        names: list[str] = []
        while True:
            missing = None if limit is None else limit - len(names)
            page = await self._read(partial(self._some_children, path, after, missing, stale_ok))
            names += page.names
            if page.is_last:
                return names
            after = names[-1]

    async def _some_children(
        self,
        path: str,
        after: str | None,
        limit: int | None,
        stale_ok: bool,
        reads: Reads,
    ) -> _Listing:
        loop = asyncio.get_running_loop()
        began = loop.time()
        keys = self._keys.children(path, after)
        rows = [self._keys.fence] if path == "/" else [self._keys.fence, self._keys.node(path)]
        requested = reads.request_page(keys, limit or 1 if limit is not None else 0, 1)
        fence, *nodes = await reads.get(rows)
        if not stale_ok:
            fence_of(fence).check_open()
        if None in nodes:
            raise NoNodeError(path)
        names: list[str] = []
        if limit == 0:
            return _Listing(names, is_last=True)
        number = 1
        while True:
            page = await reads.page_of(requested)
            names += [self._keys.child_name(key) for key, _ in page.pairs]
            if not page.has_more or len(names) == limit:
                return _Listing(names, is_last=True)
            if loop.time() - began > LISTING_S:
                return _Listing(names, is_last=False)
            keys = FdbKeyRange(key_after(page.pairs[-1][0]), keys.end)
            number += 1
            missing = 0 if limit is None else limit - len(names)
            requested = reads.request_page(keys, missing, number)

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
        """Return all leases.

        The observer calls this often; therefore it also notices here that the servers have lost
        their data. The handle then continues with a new store.
        """

        async def body(reads: Reads) -> dict[Owner, Lease] | None:
            (fence,), (rows,) = await reads.get_all([self._keys.fence], {self._keys.leases: 0})
            if fence is None:
                return None
            return {self._keys.lease_owner(key): decode_lease(row) for key, row in rows}

        leases = await self._read(body)
        if leases is None:
            _LOG.error("metadata lost", uri=self.uri)
            self._commits.drop_tokens()
            await self._initialise()
            self._watcher.set_again()
            return {}
        return leases

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
            mutations = Mutations()
            for mark, _ in marks:
                remove_node(mutations, self._keys, self._keys.owned_path(mark), owner)
            mutations.apply(reads.transaction)
            if len(marks) < END_BATCH_NODES_MAX:
                reads.transaction.clear(key)
                return (True,)
            reads.transaction.set(key, encode_lease(lease._replace(counter=ENDING)))
            return (False,)

        (is_done,), _ = await self._commits.write(body, self._deadline())
        return is_done

    # --- migration (``MovableStore``)

    async def _read_fence(self, *, stale_ok: bool) -> FenceState:
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
            start = key_after(pairs[-1][0])

    async def _read(self, body: Callable[[Reads], Awaitable[T]]) -> T:
        self._check_open()
        return await self._transactions.read(body, self._deadline())


def _value(data: bytes | None, epoch: str) -> Value | None:
    if data is None:
        return None
    node = decode_node(data)
    return Value(node.data, version_of(epoch, node.stamp))
