"""The metadata store ``etcd://host1:2379,host2:2379/prefix`` in etcd 3.4 or newer.

Options: ``tls=yes`` (with the system's certificate authorities), ``tls_ca``, ``tls_cert``,
``tls_key`` (PEM files) and ``auth_file`` (a file with one line "user:password").

Session TTLs are rounded up to whole seconds; etcd's minimum is about 1.5 election timeouts.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from ...core.protocol.errors import InvalidArgumentError, NoNodeError, SessionLostError
from ...core.runtime.metadata_store import (
    Operation,
    Session,
    Value,
    Version,
    check_path,
)
from ..migration_fence import FenceState, read_first
from ..store_base import StoreBase
from ..transaction_plan import Node, versions_of
from ..uri import StoreUri
from . import etcd_pb2 as pb
from .client import EtcdAccess, EtcdClient
from .commit import CreateOptions, EtcdCommits
from .keys import EtcdKeyRange, EtcdKeys
from .migration_fence import EtcdFence
from .session import EtcdSession
from .watcher import EtcdWatcher

PORT = 2379
PAGE_KEYS_MAX = 2_000
"""Number of keys in one page of a range read."""

READS_PER_TXN_MAX = 64
"""Number of nodes that are read in one transaction (etcd's default limit is 128 operations)."""

_OPTIONS = ("tls", "tls_ca", "tls_cert", "tls_key", "auth_file")


async def open_etcd(uri: StoreUri, timeout_ms: int) -> "EtcdStore":
    """Connect, and initialise a new prefix. Raises as ``open_store``."""
    prefix = "" if uri.path in ("", "/") else check_path(uri.path.rstrip("/"))
    access = await _access(uri)
    store = EtcdStore(access, prefix, timeout_ms)
    try:
        await store.start()
    except BaseException:
        await store.close()
        raise
    return store


async def _access(uri: StoreUri) -> EtcdAccess:
    options = uri.check_options(_OPTIONS)
    if options.get("tls", "yes") != "yes":
        raise uri.error(f"has tls={options['tls']!r}; the only value is yes")
    files: dict[str, bytes] = {}
    for name in ("tls_ca", "tls_cert", "tls_key", "auth_file"):
        if name in options:
            try:
                files[name] = await asyncio.to_thread(Path(options[name]).read_bytes)
            except OSError as error:
                raise uri.error(f"has a {name} that cannot be read: {error}") from error
    user: tuple[str, str] | None = None
    if "auth_file" in files:
        name, colon, password = files["auth_file"].decode(errors="replace").strip().partition(":")
        if not colon or "\n" in password:
            raise uri.error("has an auth_file that does not contain one line user:password")
        user = name, password
    return EtcdAccess(
        tuple(str(host) for host in uri.hosts(PORT)),
        user=user,
        is_tls=any(name.startswith("tls") for name in options),
        tls_ca=files.get("tls_ca"),
        tls_cert=files.get("tls_cert"),
        tls_key=files.get("tls_key"),
    )


class EtcdStore(StoreBase):
    """A handle to the servers, for one process."""

    def __init__(self, access: EtcdAccess, prefix: str, timeout_ms: int) -> None:
        super().__init__(f"etcd://{','.join(access.addresses)}{prefix}", timeout_ms)
        self._sessions: list[EtcdSession] = []
        self._numbering: dict[str, asyncio.Lock] = {}
        self._keys = EtcdKeys(prefix)
        self._client = EtcdClient(access)
        self._stale_client = EtcdClient(access)
        """Serves reads with ``stale_ok``. It has its own choice of the server, because a server
        without a leader can serve these and no others."""
        self.fence = EtcdFence(self._client, self._keys, lambda: f"e{os.urandom(6).hex()}")
        self._commits = EtcdCommits(self._client, self._keys, self.fence)
        self._watches = EtcdWatcher(self._client, self._keys, self._tasks).watches

    async def start(self) -> None:
        """Connect and read the migration fence; one server that has it is sufficient."""
        await read_first(self._read_fence)

    async def _get(self, path: str, *, stale_ok: bool) -> Value:
        if path == "/":
            if not stale_ok:
                await self.fence.refresh(self._deadline())
            return Value(b"", self._commits.version(0))
        (value,) = await self._get_nodes([path], stale_ok=stale_ok)
        if value is None:
            raise NoNodeError(path)
        return value

    async def _get_all(self, paths: Sequence[str], *, stale_ok: bool) -> list[Value | None]:
        """Read the nodes in one transaction, or in several if there are very many."""
        values: list[Value | None] = []
        for start in range(0, len(paths), READS_PER_TXN_MAX):
            page = paths[start : start + READS_PER_TXN_MAX]
            if "/" in page:
                values += await super()._get_all(page, stale_ok=stale_ok)
            else:
                values += await self._get_nodes(page, stale_ok=stale_ok)
        return values

    async def _get_nodes(self, paths: Sequence[str], *, stale_ok: bool) -> list[Value | None]:
        requests = [
            pb.RangeRequest(key=self._keys.node(path), serializable=stale_ok) for path in paths
        ]
        if stale_ok:
            _, found = await self._read_stale(requests, self._deadline())
        else:
            _, found = await self._read(requests, self._deadline())
        return [
            Value(answer.kvs[0].value, self._commits.version(answer.kvs[0].mod_revision))
            if answer.kvs
            else None
            for answer in found
        ]

    async def _children(
        self, path: str, after: str | None, limit: int | None, *, stale_ok: bool
    ) -> list[str]:
        """Read all pages of a long list at the same revision."""
        read = self._read_stale if stale_ok else self._read
        deadline = self._deadline()
        names: list[str] = []
        revision = 0
        while limit is None or len(names) < limit or not revision:
            start, end = self._keys.children(path, names[-1] if names else after)
            page_limit = (
                PAGE_KEYS_MAX if limit is None else max(1, min(PAGE_KEYS_MAX, limit - len(names)))
            )
            page = pb.RangeRequest(
                key=start,
                range_end=end,
                limit=page_limit,
                keys_only=True,
                revision=revision,
                serializable=stale_ok,
            )
            reads = [page]
            if path != "/":
                reads.append(
                    pb.RangeRequest(
                        key=self._keys.node(path), revision=revision, serializable=stale_ok
                    )
                )
            read_at, (found, *parent) = await read(reads, deadline)
            if parent and not parent[0].kvs:
                raise NoNodeError(path)
            revision = revision or read_at
            names += [self._keys.child_name(kv.key) for kv in found.kvs]
            if not found.more:
                break
        return names if limit is None else names[:limit]

    async def _create(
        self, path: str, data: bytes, ephemeral: Session | None, *, sequential: bool
    ) -> tuple[str, Version]:
        lease = 0 if ephemeral is None else self._own_session(ephemeral).lease
        if sequential:
            return await self._create_numbered(path, data, CreateOptions(lease, sequential=True))
        return await self._commits.create(path, data, CreateOptions(lease), self._deadline())

    async def _transact(self, operations: Sequence[Operation]) -> list[Version | None]:
        return versions_of(operations, await self._commits.commit(operations, self._deadline()))

    async def session(self, ttl_ms: int) -> EtcdSession:
        """Open a session with a lease of ``ttl_ms``, rounded up to whole seconds."""
        self._check_open()
        if ttl_ms < 1:
            raise InvalidArgumentError(f"session TTL {ttl_ms} ms is below 1 ms")
        await self.fence.refresh(self._deadline())
        request = pb.LeaseGrantRequest(TTL=-(-ttl_ms // 1000))
        answer = await self._client.read(  # a lease from a lost response expires
            "Lease/LeaseGrant", request, pb.LeaseGrantResponse, deadline=self._deadline()
        )
        session = EtcdSession(self._client, answer.ID, answer.TTL * 1000, self.timeout_ms)
        self._sessions = [known for known in self._sessions if not known.is_lost]
        self._sessions.append(session)
        return session

    async def _disconnect(self) -> None:
        for session in self._sessions:
            await session.close()
        await self._client.aclose()
        await self._stale_client.aclose()

    # --- migration (``MovableStore``)

    async def _read_fence(self, *, stale_ok: bool) -> FenceState:
        if stale_ok:
            await self.fence.read_stale(self._stale_client, self._deadline())
        else:
            await self.fence.read_or_create(self._deadline())
        return self.fence.state

    async def _swap_fence(self, old: FenceState, new: FenceState) -> bool:
        return await self.fence.swap(old, new, self._deadline())

    async def scan(self) -> AsyncIterator[list[tuple[str, Node]]]:
        """Yield all nodes including the root. Sequence counters are read before the nodes."""
        self._check_open()
        numbers = {}
        async for kvs in self._pages(self._keys.counters()):
            numbers.update({self._keys.counter_parent(kv.key): int(kv.value) for kv in kvs})
        yield [("/", Node(b"", self._commits.version(0), None, numbers.get("/", 0)))]
        async for kvs in self._pages(self._keys.subtree("/")):
            paths = [self._keys.path(kv.key) for kv in kvs]
            yield [
                (path, self._commits.node(kv, numbers.get(path, 0)))
                for path, kv in zip(paths, kvs, strict=True)
            ]

    async def _load(
        self, operations: Sequence[Operation], sequences: Mapping[str, int], fence: FenceState
    ) -> None:
        await self._commits.commit(operations, self._deadline(), fence, sequences)

    async def _pages(self, keys: EtcdKeyRange) -> AsyncIterator[list[pb.KeyValue]]:
        start, is_more = keys.start, True
        while is_more:
            request = pb.RangeRequest(key=start, range_end=keys.end, limit=PAGE_KEYS_MAX)
            answer = await self._client.read(
                "KV/Range", request, pb.RangeResponse, deadline=self._deadline()
            )
            kvs, is_more = list(answer.kvs), answer.more
            if kvs:
                start = kvs[-1].key + b"\x00"
                yield kvs

    # --- calls

    async def _read(
        self, ranges: list[pb.RangeRequest], deadline: float
    ) -> tuple[int, list[pb.RangeResponse]]:
        """Return the revision and the ranges, if the fence is open. Raises StoreFencedError."""
        while True:
            if self.fence.state.successor is not None:
                await self.fence.refresh(deadline)
            request = pb.TxnRequest(
                compare=[self.fence.condition()],
                success=[pb.RequestOp(request_range=each) for each in ranges],
            )
            answer = await self._client.read("KV/Txn", request, pb.TxnResponse, deadline=deadline)
            if answer.succeeded:
                found = [response.response_range for response in answer.responses]
                return answer.header.revision, found
            await self.fence.refresh(deadline)

    async def _read_stale(
        self, ranges: list[pb.RangeRequest], deadline: float
    ) -> tuple[int, list[pb.RangeResponse]]:
        """Return what one server has, whatever the state of the fence.

        A transaction that only contains serializable ranges needs no majority either.
        """
        request = pb.TxnRequest(success=[pb.RequestOp(request_range=each) for each in ranges])
        answer = await self._stale_client.read("KV/Txn", request, pb.TxnResponse, deadline=deadline)
        return answer.header.revision, [each.response_range for each in answer.responses]

    async def _create_numbered(
        self, path: str, data: bytes, options: CreateOptions
    ) -> tuple[str, Version]:
        """Create one sequential node at a time; concurrent attempts would fail the comparison."""
        parent = path.rpartition("/")[0]
        lock = self._numbering.setdefault(parent, asyncio.Lock())
        try:
            async with lock:
                return await self._commits.create(path, data, options, self._deadline())
        finally:
            if not lock.locked():
                self._numbering.pop(parent, None)

    def _own_session(self, session: Session) -> EtcdSession:
        if not isinstance(session, EtcdSession) or session._client is not self._client:
            raise InvalidArgumentError("the session belongs to another store handle")
        if session.is_lost:
            raise SessionLostError(f"etcd lease {session.lease:x} has expired")
        return session
