"""``etcd://host1:2379,host2:2379/prefix``: the contract over etcd 3.4 or newer.

Options: ``tls=yes`` (the system's authorities), ``tls_ca``, ``tls_cert``, ``tls_key`` (PEM files)
and ``auth_file`` (a file with one line "user:password").

Session TTLs are rounded up to whole seconds; etcd has a floor of about 1.5 election time-outs.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path

from ...core.protocol.errors import ClosedError, InvalidArgumentError, NoNodeError, SessionLostError
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
from ..migration_fence import GATE_PATH, FenceState
from ..transaction_plan import Node, check_data, check_operations, check_target, versions_of
from ..uri import StoreUri
from . import etcd_pb2 as pb
from .client import EtcdAccess, EtcdClient
from .commit import Creation, EtcdCommits
from .keys import EtcdKeyRange, EtcdKeys
from .migration_fence import EtcdFence
from .session import EtcdSession
from .watcher import EtcdWatcher

PORT = 2379
PAGE = 2_000
"""Names asked for at once."""

_OPTIONS = ("tls", "tls_ca", "tls_cert", "tls_key", "auth_file")


async def open_etcd(uri: StoreUri, timeout_ms: int) -> "EtcdStore":
    """Connects, and makes what the store needs under a new prefix. Raises as ``open_store``."""
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
    options = uri.only_options(_OPTIONS)
    if options.get("tls", "yes") != "yes":
        raise uri.wrong("has tls other than yes")
    files: dict[str, bytes] = {}
    for name in ("tls_ca", "tls_cert", "tls_key", "auth_file"):
        if name in options:
            try:
                files[name] = await asyncio.to_thread(Path(options[name]).read_bytes)
            except OSError as error:
                raise uri.wrong(f"names a {name} that cannot be read: {error}") from error
    user: tuple[str, str] | None = None
    if "auth_file" in files:
        name, colon, password = files["auth_file"].decode(errors="replace").strip().partition(":")
        if not colon or "\n" in password:
            raise uri.wrong("names an auth_file that is not one line user:password")
        user = name, password
    return EtcdAccess(
        tuple(str(host) for host in uri.hosts(PORT)),
        user=user,
        is_tls=any(name.startswith("tls") for name in options),
        tls_ca=files.get("tls_ca"),
        tls_cert=files.get("tls_cert"),
        tls_key=files.get("tls_key"),
    )


class EtcdStore:
    """One process's handle to the servers."""

    def __init__(self, access: EtcdAccess, prefix: str, timeout_ms: int) -> None:
        self.uri = f"etcd://{','.join(access.addresses)}{prefix}"
        self.timeout_ms = timeout_ms
        self._is_closed = False
        self._tasks = Tasks()
        self._sessions: list[EtcdSession] = []
        self._numbering: dict[str, asyncio.Lock] = {}
        self._keys = EtcdKeys(prefix)
        self._client = EtcdClient(access)
        self.gate = EtcdFence(self._client, self._keys, lambda: f"e{os.urandom(6).hex()}")
        self._commits = EtcdCommits(self._client, self._keys, self.gate)
        self._watcher = EtcdWatcher(self._client, self._keys, self._tasks)

    async def start(self) -> None:
        """Connects."""
        await self.gate.enter(self._deadline())

    async def get(self, path: str, *, stale_ok: bool = False) -> Value:
        """The node's value. Raises NoNodeError, MetadataUnavailableError."""
        check_path(path)
        self._check_open()
        if path == "/":
            if not stale_ok:
                await self.gate.refresh(self._deadline())
            return Value(b"", self._commits.version(0))
        request = pb.RangeRequest(key=self._keys.node(path), serializable=stale_ok)
        if stale_ok:
            answer = await self._client.read(
                "KV/Range", request, pb.RangeResponse, deadline=self._deadline()
            )
        else:
            _, (answer,) = await self._read([request], self._deadline())
        if not answer.kvs:
            raise NoNodeError(path)
        return Value(answer.kvs[0].value, self._commits.version(answer.kvs[0].mod_revision))

    async def children(
        self, path: str, *, after: str | None = None, limit: int | None = None
    ) -> list[str]:
        """Names of the direct children in byte order, from behind ``after``, at most ``limit``.

        Pages of several thousand names are read at one revision.
        """
        check_path(path)
        self._check_open()
        deadline = self._deadline()
        names: list[str] = []
        revision = 0
        while limit is None or len(names) < limit or not revision:
            start, end = self._keys.children(path, names[-1] if names else after)
            left = PAGE if limit is None else max(1, min(PAGE, limit - len(names)))
            page = pb.RangeRequest(
                key=start, range_end=end, limit=left, keys_only=True, revision=revision
            )
            reads = [page]
            if path != "/":
                reads.append(pb.RangeRequest(key=self._keys.node(path), revision=revision))
            read_at, (found, *parent) = await self._read(reads, deadline)
            if parent and not parent[0].kvs:
                raise NoNodeError(path)
            revision = revision or read_at
            names += [self._keys.child_name(kv.key) for kv in found.kvs]
            if not found.more:
                break
        return names if limit is None else names[:limit]

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
        lease = 0 if ephemeral is None else self._held(ephemeral).lease
        self._check_open()
        if sequential:
            return await self._create_numbered(path, data, Creation(lease, sequential=True))
        return await self._commits.create(path, data, Creation(lease), self._deadline())

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
        return versions_of(operations, await self._commits.commit(operations, self._deadline()))

    def watch(self, path: str, callback: Callable[[], None], *, prefix: bool = False) -> Watch:
        """Calls back (from the loop) after the node (or one below it) changed."""
        check_path(path)
        self._check_open()
        return self._watcher.watches.add(path, callback, is_prefix=prefix)

    async def session(self, ttl_ms: int) -> EtcdSession:
        """Opens a session."""
        self._check_open()
        if ttl_ms < 1:
            raise InvalidArgumentError(f"a session TTL of {ttl_ms} ms")
        await self.gate.refresh(self._deadline())
        request = pb.LeaseGrantRequest(TTL=-(-ttl_ms // 1000))
        answer = await self._client.read(  # a lease that nobody hears of ends by itself
            "Lease/LeaseGrant", request, pb.LeaseGrantResponse, deadline=self._deadline()
        )
        session = EtcdSession(self._client, answer.ID, answer.TTL * 1000, self.timeout_ms)
        self._sessions = [known for known in self._sessions if not known.is_lost]
        self._sessions.append(session)
        return session

    async def close(self) -> None:
        """Ends sessions and watches and the connections. Safe to repeat."""
        if self._is_closed:
            return
        self._is_closed = True
        self._watcher.watches.close()
        await self._tasks.aclose()
        for session in self._sessions:
            await session.close()
        await self._client.aclose()

    # --- for migration

    async def gate_state(self) -> FenceState:
        """The gate as it is now. Raises MetadataUnavailableError."""
        self._check_open()
        await self.gate.enter(self._deadline())
        return self.gate.state

    async def swap_gate(self, old: FenceState, new: FenceState) -> bool:
        """Replaces the gate if it is ``old``; False: it is not."""
        self._check_open()
        return await self.gate.swap(old, new, self._deadline())

    def watch_gate(self, callback: Callable[[], None]) -> Watch:
        """Calls back after the gate changed."""
        self._check_open()
        return self._watcher.watches.add(GATE_PATH, callback, is_prefix=False)

    async def scan(self) -> AsyncIterator[list[tuple[str, Node]]]:
        """All nodes with the root. Counters are read before their parents."""
        self._check_open()
        numbers = {}
        async for kvs in self._pages(self._keys.counters()):
            numbers.update({self._keys.counted(kv.key): int(kv.value) for kv in kvs})
        yield [("/", Node(b"", self._commits.version(0), None, numbers.get("/", 0)))]
        async for kvs in self._pages(self._keys.subtree("/")):
            paths = [self._keys.path(kv.key) for kv in kvs]
            yield [
                (path, self._commits.node(kv, numbers.get(path, 0)))
                for path, kv in zip(paths, kvs, strict=True)
            ]

    async def load(
        self, operations: Sequence[Operation], sequences: Mapping[str, int], gate: FenceState
    ) -> None:
        """Writes through a closed gate."""
        check_operations(operations)
        self._check_open()
        await self._commits.commit(operations, self._deadline(), gate, sequences)

    async def _pages(self, keys: EtcdKeyRange) -> AsyncIterator[list[pb.KeyValue]]:
        start, is_more = keys.start, True
        while is_more:
            request = pb.RangeRequest(key=start, range_end=keys.end, limit=PAGE)
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
        """Ranges and their revision, if the gate is open. Raises StoreFencedError."""
        while True:
            if self.gate.state.successor is not None:
                await self.gate.refresh(deadline)
            request = pb.TxnRequest(
                compare=[self.gate.condition()],
                success=[pb.RequestOp(request_range=each) for each in ranges],
            )
            answer = await self._client.read("KV/Txn", request, pb.TxnResponse, deadline=deadline)
            if answer.succeeded:
                found = [response.response_range for response in answer.responses]
                return answer.header.revision, found
            await self.gate.refresh(deadline)

    async def _create_numbered(
        self, path: str, data: bytes, creation: Creation
    ) -> tuple[str, Version]:
        """One at a time in this process: others of it would only fail the comparison."""
        parent = path.rpartition("/")[0]
        lock = self._numbering.setdefault(parent, asyncio.Lock())
        try:
            async with lock:
                return await self._commits.create(path, data, creation, self._deadline())
        finally:
            if not lock.locked():
                self._numbering.pop(parent, None)

    def _held(self, session: Session) -> EtcdSession:
        if not isinstance(session, EtcdSession) or session._client is not self._client:
            raise InvalidArgumentError("a session of another store")
        if session.is_lost:
            raise SessionLostError(f"lease {session.lease:x} is gone")
        return session

    def _deadline(self) -> float:
        return asyncio.get_running_loop().time() + self.timeout_ms / 1000

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError(f"{self.uri} is closed")
