"""The metadata store in memory: the reference model of the contract, for tests and the simulator.

A ``MemoryTree`` holds what a server would hold; a ``MemoryStore`` is a handle to it for one
process. Both use only the running loop's time and neither threads nor randomness: the same calls in
the same order give the same versions, and watches fire in the order in which they were set.
"""

import asyncio
from bisect import bisect_right, insort
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace

from ..core.protocol.errors import (
    InvalidArgumentError,
    MetadataUnavailableError,
    NoNodeError,
    SessionLostError,
)
from ..core.runtime.metadata_store import (
    Operation,
    Session,
    Value,
    Version,
    parent_of,
)
from .migration_fence import FENCE_PATH, FenceState
from .store_base import StoreBase, StoreSession
from .transaction_plan import (
    Node,
    TransactionPlan,
    child_prefix,
    versions_of,
)
from .watches import Watches


class MemoryTree:
    """Nodes, sessions and watches. ``epoch`` is part of all versions; each tree needs its own."""

    def __init__(self, epoch: str = "memory") -> None:
        self.fence = FenceState(epoch, tree=epoch)
        self.revision = 0
        self._nodes: dict[str, Node] = {"/": Node(b"", self._version())}
        self._names: dict[str, list[str]] = {"/": []}
        self._owned: dict[str, dict[str, None]] = {}
        self.connected_watches: list[Watches] = []
        self._session_count = 0

    @property
    def epoch(self) -> str:
        """The epoch of current versions."""
        return self.fence.epoch

    def set_fence(self, fence: FenceState) -> None:
        """Open or close the tree. If the epoch is new, all nodes get new versions."""
        if fence.epoch != self.epoch:
            for path, node in self._nodes.items():
                number = node.version.rpartition(".")[2]
                self._nodes[path] = replace(node, version=Version(f"{fence.epoch}.{number}"))
        self.fence = fence
        for watches in self.connected_watches:
            watches.changed([FENCE_PATH])

    def nodes(self) -> list[tuple[str, Node]]:
        """Return all nodes with their paths."""
        return list(self._nodes.items())

    def raise_sequence(self, path: str, number: int) -> None:
        """Make ``number`` the minimum number of the next sequential child."""
        node = self._nodes[path]
        self._nodes[path] = replace(node, sequence=max(node.sequence, number))

    def node(self, path: str) -> Node | None:
        """Return the node at ``path``, or None."""
        return self._nodes.get(path)

    def child_names(self, path: str, limit: int) -> list[str]:
        """Return the first ``limit`` names of children, in order."""
        return self._names[path][:limit]

    def names_after(self, path: str, after: str | None, limit: int | None) -> list[str]:
        """Return at most ``limit`` names of children after ``after``. Raises NoNodeError."""
        names = self._names.get(path)
        if names is None:
            raise NoNodeError(path)
        start = 0 if after is None else bisect_right(names, after)
        return names[start:] if limit is None else names[start : start + limit]

    def commit(self, plan: TransactionPlan) -> Version:
        """Apply a plan and fire watches; return the version of everything written.

        Raises SessionLostError if a node would belong to a session that has ended.
        """
        for change in plan.changes.values():
            is_owned = change.data is not None and change.owner is not None
            if is_owned and change.owner not in self._owned:
                raise SessionLostError(f"{change.owner} has ended")
        self.revision += 1
        version = self._version()
        for path, change in plan.changes.items():
            before = self._nodes.get(path)
            if change.data is None:
                self._remove(path)
                continue
            kept = before.version if before is not None and not change.is_written else version
            self._put(path, Node(change.data, kept, change.owner, change.sequence))
        written = [path for path, change in plan.changes.items() if change.is_written]
        for watches in self.connected_watches:
            watches.changed(written)
        return version

    def new_session(self) -> str:
        """Add a session without nodes and return its id."""
        self._session_count += 1
        owner = f"session-{self._session_count}"
        self._owned[owner] = {}
        return owner

    def end_session(self, owner: str) -> None:
        """Remove the session and its nodes. Safe to repeat."""
        plan = TransactionPlan(self)
        for path in self._owned.pop(owner, {}):
            plan.delete(path, None)
        if plan.changes:
            self.commit(plan)

    def _version(self) -> Version:
        return Version(f"{self.epoch}.{self.revision}")

    def _put(self, path: str, node: Node) -> None:
        if path not in self._nodes:
            insort(self._names[parent_of(path)], path[len(child_prefix(parent_of(path))) :])
            self._names[path] = []
        else:
            self._disown(path)
        self._nodes[path] = node
        if node.owner is not None:
            self._owned[node.owner][path] = None

    def _remove(self, path: str) -> None:
        self._disown(path)
        assert not self._names.pop(path), f"{path} is removed but has children"
        del self._nodes[path]
        names = self._names[parent_of(path)]
        del names[bisect_right(names, path.rpartition("/")[2]) - 1]

    def _disown(self, path: str) -> None:
        owner = self._nodes[path].owner
        if owner is not None and owner in self._owned:
            del self._owned[owner][path]


class MemorySession(StoreSession):
    """A session; its TTL runs only while its store handle is disconnected."""

    def __init__(self, tree: MemoryTree, ttl_ms: int) -> None:
        super().__init__()
        self.owner = tree.new_session()
        self._tree = tree
        self._ttl_ms = ttl_ms
        self._expiry: asyncio.TimerHandle | None = None

    async def close(self) -> None:
        """End the session and remove its nodes; while disconnected this happens after the TTL."""
        self._on_lost.clear()
        if self._expiry is None:
            self.expire()

    def expire(self) -> None:
        """End the session, as a server does after the TTL. Safe to repeat."""
        if self.is_lost:
            return
        self.regain_contact()
        self._tree.end_session(self.owner)
        self.mark_lost()

    def lose_contact(self) -> None:
        """Start the TTL: the process has no contact with the store."""
        if self._expiry is None and not self.is_lost:
            loop = asyncio.get_running_loop()
            self._expiry = loop.call_later(self._ttl_ms / 1000, self.expire)

    def regain_contact(self) -> None:
        """Stop the TTL: the process is in contact with the store again."""
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None


class MemoryStore(StoreBase):
    """A handle for one process to ``tree``, or to a new tree if None."""

    def __init__(self, tree: MemoryTree | None = None, uri: str = "memory:") -> None:
        super().__init__(uri, timeout_ms=0)
        self.tree = tree or MemoryTree()
        self.is_connected = True
        self._sessions: list[MemorySession] = []
        self._watches = Watches()
        self.tree.connected_watches.append(self._watches)

    async def _get(self, path: str, *, stale_ok: bool) -> Value:
        self._check_usable(is_strict=not stale_ok)
        node = self.tree.node(path)
        if node is None:
            raise NoNodeError(path)
        return Value(node.data, node.version)

    async def _children(
        self, path: str, after: str | None, limit: int | None, *, stale_ok: bool
    ) -> list[str]:
        self._check_usable(is_strict=not stale_ok)
        return self.tree.names_after(path, after, limit)

    async def _create(
        self, path: str, data: bytes, ephemeral: Session | None, *, sequential: bool
    ) -> tuple[str, Version]:
        owner = None if ephemeral is None else self._owner(ephemeral)
        self._check_usable()
        plan = TransactionPlan(self.tree)
        created = plan.create(path, data, owner, sequential=sequential)
        return created, self.tree.commit(plan)

    async def _transact(self, operations: Sequence[Operation]) -> list[Version | None]:
        self._check_usable()
        plan = TransactionPlan(self.tree)
        for operation in operations:
            plan.apply(operation)
        return versions_of(operations, self.tree.commit(plan))

    async def session(self, ttl_ms: int) -> MemorySession:
        """Open a session that survives up to ``ttl_ms`` without contact."""
        self._check_usable()
        session = MemorySession(self.tree, ttl_ms)
        self._sessions = [known for known in self._sessions if not known.is_lost]
        self._sessions.append(session)
        return session

    async def _disconnect(self) -> None:
        if self._watches in self.tree.connected_watches:
            self.tree.connected_watches.remove(self._watches)
        for session in self._sessions:
            await session.close()
        self._sessions.clear()

    def disconnect(self) -> None:
        """Simulate a lost connection to the store, for tests.

        Calls raise MetadataUnavailableError, watches do not fire, and the TTLs of sessions run.
        """
        if not self.is_connected:
            return
        self.is_connected = False
        self.tree.connected_watches.remove(self._watches)
        for session in self._sessions:
            session.lose_contact()

    def reconnect(self) -> None:
        """End ``disconnect``, for tests; every watch fires once."""
        if self.is_connected:
            return
        self.is_connected = True
        self.tree.connected_watches.append(self._watches)
        self._watches.fire_all()
        for session in self._sessions:
            session.regain_contact()

    def expire_session(self, session: Session) -> None:
        """Expire a session now, for tests."""
        self._own_session(session).expire()

    # --- migration (``MovableStore``)

    async def _read_fence(self, *, stale_ok: bool) -> FenceState:
        self._check_usable(is_strict=False)
        return self.tree.fence

    async def _swap_fence(self, old: FenceState, new: FenceState) -> bool:
        self._check_usable(is_strict=False)
        if self.tree.fence != old:
            return False
        self.tree.set_fence(new)
        return True

    async def scan(self) -> AsyncIterator[list[tuple[str, Node]]]:
        """Yield all nodes including the root."""
        self._check_usable(is_strict=False)
        yield self.tree.nodes()

    async def _load(
        self, operations: Sequence[Operation], sequences: Mapping[str, int], fence: FenceState
    ) -> None:
        self._check_usable(is_strict=False)
        self.tree.fence.check(fence)
        plan = TransactionPlan(self.tree)
        for operation in operations:
            plan.apply(operation)
        self.tree.commit(plan)
        for path, number in sequences.items():
            self.tree.raise_sequence(path, number)

    def _check_usable(self, *, is_strict: bool = True) -> None:
        self._check_open()
        if not self.is_connected:
            raise MetadataUnavailableError(f"{self.uri} cannot be reached")
        if is_strict:
            self.tree.fence.check_open()

    def _owner(self, session: Session) -> str:
        own_session = self._own_session(session)
        if own_session.is_lost:
            raise SessionLostError(f"{own_session.owner} has ended")
        return own_session.owner

    def _own_session(self, session: Session) -> MemorySession:
        if not isinstance(session, MemorySession) or session not in self._sessions:
            raise InvalidArgumentError("the session belongs to another store handle")
        return session
