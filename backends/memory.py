"""The tree in memory: the model of the contract, the store of tests, and that of the simulator.

A ``MemoryTree`` is what a server would hold; a ``MemoryStore`` is one process's handle to it. It
uses no threads, no time but the running loop's, and no randomness: the same calls in the same order
give the same versions, and watches fire in the order in which they were set.
"""

import asyncio
from bisect import bisect_right, insort
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace

from ..core.protocol.errors import (
    ClosedError,
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
    Watch,
    check_path,
    parent_of,
)
from .migration_fence import GATE_PATH, FenceState
from .transaction_plan import (
    Node,
    TransactionPlan,
    check_data,
    check_operations,
    check_target,
    child_prefix,
    versions_of,
)
from .watches import Watches


class MemoryTree:
    """Nodes, sessions and watches. ``epoch`` marks its versions; two trees need two epochs."""

    def __init__(self, epoch: str = "memory") -> None:
        self.gate = FenceState(epoch, tree=epoch)
        self.revision = 0
        self._nodes: dict[str, Node] = {"/": Node(b"", self._version())}
        self._names: dict[str, list[str]] = {"/": []}
        self._owned: dict[str, dict[str, None]] = {}
        self.watching: list[Watches] = []
        self._session_count = 0

    @property
    def epoch(self) -> str:
        """What marks the versions of now."""
        return self.gate.epoch

    def set_gate(self, gate: FenceState) -> None:
        """Opens or closes the tree. With a new epoch all nodes get new versions."""
        if gate.epoch != self.epoch:
            for path, node in self._nodes.items():
                number = node.version.rpartition(".")[2]
                self._nodes[path] = replace(node, version=Version(f"{gate.epoch}.{number}"))
        self.gate = gate
        for watches in self.watching:
            watches.changed([GATE_PATH])

    def nodes(self) -> list[tuple[str, Node]]:
        """All nodes."""
        return list(self._nodes.items())

    def raise_sequence(self, path: str, number: int) -> None:
        """The next sequential child gets at least this number."""
        node = self._nodes[path]
        self._nodes[path] = replace(node, sequence=max(node.sequence, number))

    def node(self, path: str) -> Node | None:
        """The node at ``path``, or None."""
        return self._nodes.get(path)

    def child_names(self, path: str, limit: int) -> list[str]:
        """The first ``limit`` names of children, in order."""
        return self._names[path][:limit]

    def names_after(self, path: str, after: str | None, limit: int | None) -> list[str]:
        """A page of the names of children. Raises NoNodeError."""
        names = self._names.get(path)
        if names is None:
            raise NoNodeError(path)
        start = 0 if after is None else bisect_right(names, after)
        return names[start:] if limit is None else names[start : start + limit]

    def commit(self, plan: TransactionPlan) -> Version:
        """Carries out a plan in one step, and wakes the watches."""
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
        for watches in self.watching:
            watches.changed(written)
        return version

    def new_session(self) -> str:
        """The id of a session that owns nothing yet."""
        self._session_count += 1
        owner = f"session-{self._session_count}"
        self._owned[owner] = {}
        return owner

    def end_session(self, owner: str) -> None:
        """Removes the session's nodes. Safe to repeat."""
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
        assert not self._names.pop(path), f"{path} goes and has children"
        del self._nodes[path]
        names = self._names[parent_of(path)]
        del names[bisect_right(names, path.rpartition("/")[2]) - 1]

    def _disown(self, path: str) -> None:
        owner = self._nodes[path].owner
        if owner is not None and owner in self._owned:
            del self._owned[owner][path]


class MemorySession:
    """A session; while its store is connected it lives, then its TTL runs."""

    def __init__(self, tree: MemoryTree, ttl_ms: int) -> None:
        self.owner = tree.new_session()
        self.is_lost = False
        self._tree = tree
        self._ttl_ms = ttl_ms
        self._on_lost: list[Callable[[], None]] = []
        self._expiry: asyncio.TimerHandle | None = None

    def on_lost(self, callback: Callable[[], None]) -> None:
        """Calls back once when the session is lost (at once if it is already)."""
        if self.is_lost:
            asyncio.get_running_loop().call_soon(callback)
        else:
            self._on_lost.append(callback)

    async def close(self) -> None:
        """Ends the session and removes its ephemeral nodes (while disconnected: at its TTL)."""
        self._on_lost.clear()
        if self._expiry is None:
            self.expire()

    def expire(self) -> None:
        """The store gives the session up: its nodes go. Safe to repeat."""
        if self.is_lost:
            return
        self.contact()
        self.is_lost = True
        self._tree.end_session(self.owner)
        for callback in self._on_lost:
            asyncio.get_running_loop().call_soon(callback)
        self._on_lost.clear()

    def silence(self) -> None:
        """The store hears nothing from now on: the TTL runs."""
        if self._expiry is None and not self.is_lost:
            loop = asyncio.get_running_loop()
            self._expiry = loop.call_later(self._ttl_ms / 1000, self.expire)

    def contact(self) -> None:
        """The store hears of the session again, in time."""
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None


class MemoryStore:
    """One process's handle to a tree (its own one, unless a tree is given)."""

    def __init__(self, tree: MemoryTree | None = None, uri: str = "memory:") -> None:
        self.tree = tree or MemoryTree()
        self.uri = uri
        self.is_connected = True
        self._is_closed = False
        self._sessions: list[MemorySession] = []
        self._watches = Watches()
        self.tree.watching.append(self._watches)

    async def get(self, path: str, *, stale_ok: bool = False) -> Value:
        """The node's value. Raises NoNodeError, MetadataUnavailableError."""
        check_path(path)
        self._check_usable(is_strict=not stale_ok)
        node = self.tree.node(path)
        if node is None:
            raise NoNodeError(path)
        return Value(node.data, node.version)

    async def children(
        self, path: str, *, after: str | None = None, limit: int | None = None
    ) -> list[str]:
        """Names of the direct children in byte order, from behind ``after``, at most ``limit``."""
        check_path(path)
        self._check_usable()
        return self.tree.names_after(path, after, limit)

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
        owner = None if ephemeral is None else self._owner(ephemeral)
        self._check_usable()
        plan = TransactionPlan(self.tree)
        created = plan.create(path, data, owner, sequential=sequential)
        return created, self.tree.commit(plan)

    async def put(self, path: str, data: bytes, *, expect: Version | None = None) -> Version:
        """Replaces a node's data. Raises NoNodeError, BadVersionError."""
        check_target(path)
        check_data(data)
        self._check_usable()
        plan = TransactionPlan(self.tree)
        plan.put(path, data, expect)
        return self.tree.commit(plan)

    async def delete(self, path: str, *, expect: Version | None = None) -> None:
        """Removes a node. Raises NoNodeError, BadVersionError, NotEmptyError."""
        check_target(path)
        self._check_usable()
        plan = TransactionPlan(self.tree)
        plan.delete(path, expect)
        self.tree.commit(plan)

    async def txn(self, operations: Sequence[Operation]) -> list[Version | None]:
        """All or nothing; the new version for each Create and Put, None for Check and Delete."""
        check_operations(operations)
        self._check_usable()
        plan = TransactionPlan(self.tree)
        for operation in operations:
            plan.apply(operation)
        return versions_of(operations, self.tree.commit(plan))

    def watch(self, path: str, callback: Callable[[], None], *, prefix: bool = False) -> Watch:
        """Calls back (from the loop) after the node (or one below it) changed."""
        check_path(path)
        if self._is_closed:
            raise ClosedError(f"{self.uri} is closed")
        return self._watches.add(path, callback, is_prefix=prefix)

    async def session(self, ttl_ms: int) -> MemorySession:
        """Opens a session that outlives silence of up to ``ttl_ms``."""
        self._check_usable()
        session = MemorySession(self.tree, ttl_ms)
        self._sessions = [known for known in self._sessions if not known.is_lost]
        self._sessions.append(session)
        return session

    async def close(self) -> None:
        """Closes watches and sessions. Safe to repeat."""
        self._is_closed = True
        self._watches.close()
        if self._watches in self.tree.watching:
            self.tree.watching.remove(self._watches)
        for session in self._sessions:
            await session.close()
        self._sessions.clear()

    def disconnect(self) -> None:
        """For tests and simulation: as if this process had lost its way to the store.

        Calls raise MetadataUnavailableError, watches are silent, the TTLs of sessions run.
        """
        if not self.is_connected:
            return
        self.is_connected = False
        self.tree.watching.remove(self._watches)
        for session in self._sessions:
            session.silence()

    def reconnect(self) -> None:
        """For tests and simulation: ends ``disconnect``; every watch fires once."""
        if self.is_connected:
            return
        self.is_connected = True
        self.tree.watching.append(self._watches)
        self._watches.all_changed()
        for session in self._sessions:
            session.contact()

    def expire_session(self, session: Session) -> None:
        """For tests and simulation: the store gives the session up now."""
        self._own(session).expire()

    # --- for migration

    async def gate_state(self) -> FenceState:
        """The gate as it is now. Raises MetadataUnavailableError."""
        self._check_usable(is_strict=False)
        return self.tree.gate

    async def swap_gate(self, old: FenceState, new: FenceState) -> bool:
        """Replaces the gate if it is ``old``; False: it is not."""
        self._check_usable(is_strict=False)
        if self.tree.gate != old:
            return False
        self.tree.set_gate(new)
        return True

    def watch_gate(self, callback: Callable[[], None]) -> Watch:
        """Calls back after the gate changed."""
        return self._watches.add(GATE_PATH, callback, is_prefix=False)

    async def scan(self) -> AsyncIterator[list[tuple[str, Node]]]:
        """All nodes with the root."""
        self._check_usable(is_strict=False)
        yield self.tree.nodes()

    async def load(
        self, operations: Sequence[Operation], sequences: Mapping[str, int], gate: FenceState
    ) -> None:
        """Writes through a closed gate."""
        check_operations(operations)
        self._check_usable(is_strict=False)
        self.tree.gate.check(gate)
        plan = TransactionPlan(self.tree)
        for operation in operations:
            plan.apply(operation)
        self.tree.commit(plan)
        for path, number in sequences.items():
            self.tree.raise_sequence(path, number)

    def _check_usable(self, *, is_strict: bool = True) -> None:
        if self._is_closed:
            raise ClosedError(f"{self.uri} is closed")
        if not self.is_connected:
            raise MetadataUnavailableError(f"{self.uri} cannot be reached")
        if is_strict:
            self.tree.gate.check_open()

    def _owner(self, session: Session) -> str:
        own = self._own(session)
        if own.is_lost:
            raise SessionLostError(f"{own.owner} is gone")
        return own.owner

    def _own(self, session: Session) -> MemorySession:
        if not isinstance(session, MemorySession) or session not in self._sessions:
            raise InvalidArgumentError("a session of another store")
        return session
