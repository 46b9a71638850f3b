"""The metadata store ``zk://host1,host2:2181/chroot`` in ZooKeeper 3.6 or newer.

Nodes are znodes at their own paths below the chroot, and values are stored unchanged, so that
Apache BookKeeper and Rhumbline can read each other's metadata. Options: ``tls_ca``, ``tls_cert``,
``tls_key`` (files; any of them enables TLS, with verification of host names) and ``auth_file`` (a
file with one line "scheme:credential", such as ``digest:user:password``; new nodes are then
readable and writable by that identity only).

Each read is preceded by a ``sync`` on the same connection. The leader responds to it without
contacting its followers. A leader that has lost its followers and has not yet noticed (at most
``syncLimit`` ticks) can therefore miss writes of its successor for that long. Writes and
compare-and-set are not affected. Each session uses a connection of its own.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...core.protocol.errors import (
    ClosedError,
    InvalidArgumentError,
    MetadataUnavailableError,
    NoNodeError,
    SessionLostError,
)
from ...core.runtime.metadata_store import (
    Check,
    Create,
    Delete,
    Operation,
    Put,
    Session,
    Value,
    Version,
    check_path,
)
from ...core.runtime.primitives.single_flight import SingleFlight
from ..migration_fence import FENCE_PATH, FenceState, read_first
from ..store_base import StoreBase
from ..transaction_plan import Node
from ..uri import StoreUri
from ..watches import Watches
from .client import (
    Request,
    Requests,
    ZooKeeperAccess,
    ZooKeeperConnection,
    unwatch_request,
    watch_request,
)
from .commit import CreateFlags, ZooKeeperCommits, created_children
from .migration_fence import NAME, ZooKeeperFence
from .session import ZooKeeperSession

PORT = 2181
SYSTEM = "/zookeeper"
"""The path of ZooKeeper's own nodes, which a store without a chroot hides."""

PAGE_REQUESTS_MAX = 200
"""Number of concurrent requests of a full scan."""

SEQUENCE_RAISES_PER_S_MIN = 500
"""Lowest rate at which a sequence number is raised, for the deadline of ``load``."""

CONNECTION_SESSION_MS_MAX = 6_000
"""Session timeout of the connection for plain calls; bounds the detection of hanging servers."""

_OPTIONS = ("tls_ca", "tls_cert", "tls_key", "auth_file")


async def open_zookeeper(uri: StoreUri, timeout_ms: int) -> "ZooKeeperStore":
    """Connect, and initialise a new chroot. Raises as ``open_store``."""
    options = uri.check_options(_OPTIONS)
    chroot = "" if uri.path in ("", "/") else check_path(uri.path.rstrip("/"))
    hosts = ",".join(str(host) for host in uri.hosts(PORT))
    access = ZooKeeperAccess(
        hosts,
        auth=await _secret(uri, options.get("auth_file")),
        tls_ca=options.get("tls_ca"),
        tls_cert=options.get("tls_cert"),
        tls_key=options.get("tls_key"),
    )
    store = ZooKeeperStore(access, chroot, timeout_ms)
    try:
        await store.start()
    except BaseException:
        await store.close()
        raise
    return store


async def _secret(uri: StoreUri, file: str | None) -> str | None:
    if file is None:
        return None
    try:
        line = (await asyncio.to_thread(Path(file).read_text)).strip()
    except OSError as error:
        raise uri.error(f"has an auth_file that cannot be read: {error}") from error
    if line.count(":") < 1 or "\n" in line:
        raise uri.error("has an auth_file that does not contain one line scheme:credential")
    return line


class ZooKeeperStore(StoreBase):
    """A handle to the servers, for one process."""

    def __init__(self, access: ZooKeeperAccess, chroot: str, timeout_ms: int) -> None:
        super().__init__(f"zk://{access.hosts}{chroot}", timeout_ms)
        self._access = access
        self._chroot = chroot
        self._sessions: list[ZooKeeperSession] = []
        self._watches = Watches(self._arm_soon)
        self._armed: dict[str, bool] = {}
        self._arming = SingleFlight(self._tasks, self._arm, "zookeeper watches")
        self._to_arm: dict[str, None] = {}
        self._requests = Requests(is_private=access.auth is not None)
        self._connection = ZooKeeperConnection(
            access,
            min(timeout_ms, CONNECTION_SESSION_MS_MAX),
            on_connected=self._connected,
            on_event=self._changed,
        )
        self.fence = ZooKeeperFence(
            self._connection, self._requests, chroot, lambda: f"z{os.urandom(6).hex()}"
        )
        self._commits = ZooKeeperCommits(self.fence, self._requests, self._connection)
        self._stale_connection: ZooKeeperConnection | None = None

    async def start(self) -> None:
        """Connect and read the migration fence; one server that has it is sufficient."""
        await self._connection.start()
        await read_first(self._read_fence)

    async def _get(self, path: str, *, stale_ok: bool) -> Value:
        (value,) = await self._get_all([path], stale_ok=stale_ok)
        if value is None:
            raise NoNodeError("ZooKeeper: no such node")
        return value

    async def _get_all(self, paths: Sequence[str], *, stale_ok: bool) -> list[Value | None]:
        """Send all requests at once; the server serves them in their order."""
        requests = [self._requests.get(self._znode(path)) for path in paths]
        return [
            None if answer is None else Value(answer[0] or b"", self._commits.version(answer[1]))
            for answer in await self._read(requests, stale_ok=stale_ok)
        ]

    def _order(self, order: str) -> tuple[int, ...]:
        created, _, changes = order.partition(".")
        return int(created, 16), int(changes)

    async def _children(
        self, path: str, after: str | None, limit: int | None, *, stale_ok: bool
    ) -> list[str]:
        """Read all names: ZooKeeper always sends them all, whatever the limit."""
        znode = self._znode(path)
        (answer,) = await self._read([self._requests.names(znode)], stale_ok=stale_ok)
        if answer is None:
            raise NoNodeError("ZooKeeper: no such node")
        names, _ = answer
        page = sorted(name for name in names if after is None or name > after)
        if path == "/":
            page = [
                name
                for name in page
                if name != NAME and self._znode_unchecked(f"/{name}") != SYSTEM
            ]
        return page if limit is None else page[:limit]

    async def _create(
        self, path: str, data: bytes, ephemeral: Session | None, *, sequential: bool
    ) -> tuple[str, Version]:
        connection = (
            self._connection if ephemeral is None else self._own_session(ephemeral).connection
        )
        flags = CreateFlags(ephemeral=ephemeral is not None, sequential=sequential)
        try:
            (written,) = await self._commits.commit(
                [Create(self._znode(path), data)], connection, self._deadline(), flags
            )
        except (ClosedError, SessionLostError):
            self._check_open()
            if ephemeral is not None:
                raise SessionLostError("the ZooKeeper session has expired") from None
            raise
        assert written is not None
        return written[0][len(self._chroot) :], written[1]

    async def session(self, ttl_ms: int) -> ZooKeeperSession:
        """Open a session; the servers limit its TTL to between 2 and 20 of their ticks."""
        self._check_open()
        if ttl_ms < 1:
            raise InvalidArgumentError(f"session TTL {ttl_ms} ms is below 1 ms")
        session = ZooKeeperSession(self._access, ttl_ms)
        try:
            await session.connection.start()
            (fence,) = await session.connection.read(
                self._requests.exists(self.fence.path), deadline=self._deadline()
            )
            if fence is None:
                await self.fence.refresh(self._deadline())
        except BaseException:
            await session.close()
            raise
        self._sessions = [known for known in self._sessions if not known.is_lost]
        self._sessions.append(session)
        return session

    async def _disconnect(self) -> None:
        for session in self._sessions:
            await session.close()
        await self._connection.aclose()
        if self._stale_connection is not None:
            await self._stale_connection.aclose()

    # --- migration (``MovableStore``)

    async def _read_fence(self, *, stale_ok: bool) -> FenceState:
        if stale_ok:
            connection = await self._connection_for_stale_reads()
            await self.fence.read_stale(connection, self._deadline())
            return self.fence.state
        await self.fence.read_or_create(self._deadline())
        return self.fence.state

    async def _swap_fence(self, old: FenceState, new: FenceState) -> bool:
        return await self.fence.swap(old, new, self._deadline())

    async def scan(self) -> AsyncIterator[list[tuple[str, Node]]]:
        """Yield all nodes including the root, level by level, with many concurrent requests."""
        self._check_open()
        level = ["/"]
        await self._connection.read(self._requests.sync(self.fence.path), deadline=self._deadline())
        while level:
            below: list[str] = []
            for start in range(0, len(level), PAGE_REQUESTS_MAX):
                nodes, parents = await self._page(level[start : start + PAGE_REQUESTS_MAX])
                yield nodes
                below += await self._below(parents)
            level = below

    async def _load(
        self, operations: Sequence[Operation], sequences: Mapping[str, int], fence: FenceState
    ) -> None:
        """Raise sequence numbers in later transactions."""
        on_znodes = [_with_path(operation, self._znode(operation.path)) for operation in operations]
        await self._commits.commit(
            on_znodes, self._connection, self._deadline(), allowed_fence=fence
        )
        for path, number in sequences.items():
            deadline = self._deadline() + number / SEQUENCE_RAISES_PER_S_MIN
            await self._commits.raise_sequence(self._znode(path), number, deadline, fence)

    async def _page(self, paths: list[str]) -> tuple[list[tuple[str, Node]], list[str]]:
        """Return the nodes at ``paths``, and the paths of those with children."""
        answers = await self._connection.read(
            *(self._requests.get(self._znode_unchecked(path)) for path in paths),
            deadline=self._deadline(), missing_ok=True,
        )  # fmt: skip
        nodes, parents = [], []
        for path, answer in zip(paths, answers, strict=True):
            if answer is not None:
                data, stat = answer
                owner = f"{stat.ephemeralOwner:x}" if stat.ephemeralOwner else None
                version = self._commits.version(stat)
                nodes.append((path, Node(data or b"", version, owner, created_children(stat))))
                if stat.numChildren:
                    parents.append(path)
        return nodes, parents

    async def _below(self, parents: list[str]) -> list[str]:
        answers = await self._connection.read(
            *(self._requests.names(self._znode_unchecked(path)) for path in parents),
            deadline=self._deadline(), missing_ok=True,
        )  # fmt: skip
        return [
            child
            for path, answer in zip(parents, answers, strict=True)
            if answer is not None
            for name in answer[0]
            if (child := f"{path.rstrip('/')}/{name}") != FENCE_PATH
            and self._znode_unchecked(child) != SYSTEM
        ]

    # --- calls

    def _znode(self, path: str) -> str:
        return self._znode_unchecked(check_path(path))

    def _znode_unchecked(self, path: str) -> str:
        return (self._chroot or "/") if path == "/" else f"{self._chroot}{path}"

    def _own_session(self, session: Session) -> ZooKeeperSession:
        if not isinstance(session, ZooKeeperSession) or session not in self._sessions:
            if isinstance(session, ZooKeeperSession) and session.is_lost:
                raise SessionLostError("the ZooKeeper session has expired")
            raise InvalidArgumentError("the session belongs to another store handle")
        if session.is_lost:
            raise SessionLostError("the ZooKeeper session has expired")
        return session

    async def _read(self, requests: Sequence[Request], *, stale_ok: bool) -> list[Any]:
        """Return the answers, None where there is no node.

        Checks that the fence was still open afterwards, unless ``stale_ok``. Raises
        StoreFencedError.
        """
        self._check_open()
        deadline = self._deadline()
        if stale_ok:
            connection = await self._connection_for_stale_reads()
            return await connection.read(*requests, deadline=deadline, missing_ok=True)
        while True:
            path = self.fence.path
            _, *answers, fence = await self._connection.read(
                self._requests.sync(path), *requests, self._requests.exists(path),
                deadline=deadline, missing_ok=True,
            )  # fmt: skip
            if fence is not None:
                return answers
            await self.fence.refresh(deadline)

    async def _connection_for_stale_reads(self) -> ZooKeeperConnection:
        """Return a connection that also accepts a server without a leader.

        Such a server accepts it in its read-only mode (``readonlymode.enabled``). The connection is
        opened by the first such read.
        """
        if self._stale_connection is None:
            self._stale_connection = ZooKeeperConnection(
                self._access,
                min(self.timeout_ms, CONNECTION_SESSION_MS_MAX),
                accepts_read_only=True,
            )
            await self._stale_connection.start()
        return self._stale_connection

    async def _transact(self, operations: Sequence[Operation]) -> list[Version | None]:
        on_znodes = [_with_path(operation, self._znode(operation.path)) for operation in operations]
        try:
            written = await self._commits.commit(on_znodes, self._connection, self._deadline())
        except SessionLostError:
            self._check_open()
            raise MetadataUnavailableError(
                "the ZooKeeper session expired; a new one began"
            ) from None
        return [None if result is None else result[1] for result in written]

    # --- watches: each is armed at the server once per connection, then fired once

    def _connected(self) -> None:
        self._armed.clear()
        for path in self._watches.paths():
            self._arm_soon(path)

    def _changed(self, znode: str) -> None:
        self._watches.changed([znode[len(self._chroot) :] or "/"])

    def _arm_soon(self, path: str) -> None:
        self._to_arm[path] = None
        if not self._is_closed:
            self._arming.request()

    async def _arm(self) -> None:
        while self._to_arm:
            path = next(iter(self._to_arm))
            del self._to_arm[path]
            wanted, armed = self._watches.is_prefix(path), self._armed.get(path)
            znode = self._znode_unchecked(path)
            try:
                if wanted is None and armed is not None:
                    del self._armed[path]
                    await self._connection.read(unwatch_request(znode), deadline=self._deadline())
                elif wanted is not None:
                    if armed is None or (wanted and not armed):
                        self._armed[path] = wanted
                        await self._connection.read(
                            watch_request(znode, is_recursive=wanted), deadline=self._deadline()
                        )
                    self._watches.fire_at(path)
            except NoNodeError:
                continue  # the server had already removed the watch
            except MetadataUnavailableError:
                self._armed.pop(path, None)
                self._to_arm[path] = None


def _with_path(operation: Operation, path: str) -> Operation:
    match operation:
        case Check(_, version):
            return Check(path, version)
        case Create(_, data):
            return Create(path, data)
        case Put(_, data, expect):
            return Put(path, data, expect)
        case Delete(_, expect):
            return Delete(path, expect)
